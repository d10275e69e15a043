"""Who runs against whom: every policy by name, with its published defaults and a small grid beside them."""

import ast
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from math import ceil
from pathlib import Path

from loop.oracle import Oracle, work_by_bin
from loop.policies import DynamoLike, Static, hpa_waiting, keda, kpa, wva_closed_form, wva_v1
from loop.services import LAWS, Service
from loop.world import Outcome, Policy, World

from agent.simulator.step_time import LinearStepTime

CACHE = Path(__file__).parents[3] / ".cache" / "closed_loop"
ORACLE_GRID = (0.5, 0.6, 0.7)
SUSTAINED_RATIO = 0.65  # of busy time: what static counts are reckoned with


@dataclass(frozen=True, slots=True)
class Entry:
    """One policy at one setting. `make` builds it; `is_default` are its published settings."""

    policy: str
    setting: str
    make: Callable[[], Policy]
    is_default: bool = field(kw_only=True)
    has_cold_start: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    policy: str
    setting: str
    outcome: Outcome
    is_default: bool = True


def entries(service: Service, law: LinearStepTime, work: list[float], *, with_grid: bool) -> Iterator[Entry]:
    """All baselines; without the grid at their defaults alone."""
    minutes = [sum(work[i : i + 4]) / 4 for i in range(0, len(work), 4)]
    peak, mean = (max(1, ceil(load / SUSTAINED_RATIO)) for load in (max(minutes), sum(minutes) / len(minutes)))
    defaults: dict[tuple[str, str], Callable[[], Policy]] = {
        ("static peak", f"{peak}"): lambda: Static(peak),
        ("static mean", f"{mean}"): lambda: Static(mean),
        ("HPA waiting", "5"): hpa_waiting,
        ("KEDA KV, queue", "0.7, 2"): keda,
        ("KPA in flight", "70"): kpa,
        ("WVA V1", "0.1, 3, 240 s"): wva_v1,
        ("WVA closed form", "1, 240 s"): lambda: wva_closed_form(law, service),
        ("Dynamo-like", "1, 180 s"): lambda: DynamoLike(law, service),
    }
    grid: dict[tuple[str, str], Callable[[], Policy]] = {
        ("static", f"{mean + 1}"): lambda: Static(mean + 1),
        **{("HPA waiting", f"{target:g}"): partial(hpa_waiting, target) for target in (1.0, 2.0)},
        **{("KEDA KV, queue", f"{kv:g}, 2"): partial(keda, kv) for kv in (0.2, 0.4)},
        **{("KPA in flight", f"{target:g}"): partial(kpa, target) for target in (8.0, 15.0, 30.0)},
        **{("WVA V1", f"{spare:g}, 3, 240 s"): partial(wva_v1, spare) for spare in (0.4, 0.6)},
        **{("WVA closed form", f"{s:g}, 240 s"): partial(wva_closed_form, law, service, s) for s in (0.4, 0.6)},
        **{("Dynamo-like", f"{slack:g}, 60 s"): partial(DynamoLike, law, service, slack, 60.0) for slack in (0.4, 0.6)},
    }
    yield from (Entry(*name, make, is_default=True) for name, make in defaults.items())
    if with_grid:
        yield from (Entry(*name, make, is_default=False) for name, make in grid.items())


def first_count(work: list[float]) -> int:
    """How many replicas everybody begins with: enough until something that is asked for at the start can be there."""
    return Oracle(work, SUSTAINED_RATIO, has_cold_start=True).first_count()


def run_oracle(service: Service, plant: str, seed: int, work: list[float], *, has_cold_start: bool) -> Result:
    """The cheapest plan of the grid, or constant count, that keeps 99.5 %, or about as much as the best of them."""
    name = "oracle, pays cold start" if has_cold_start else "oracle, no cold start"
    tried = []
    for ratio in ORACLE_GRID:
        make = partial(Oracle, work, ratio, has_cold_start)
        entry = Entry(name, f"{ratio:g}", make, is_default=True, has_cold_start=has_cold_start)
        tried.append(Result(name, entry.setting, run_cached(service, plant, seed, entry, first_count(work))))
    constants = list(entries(service, LAWS[plant, service.long], work, with_grid=False))[:2]
    tried += [
        Result(name, f"always {entry.setting}", run_cached(service, plant, seed, entry, first_count(work)))
        for entry in constants
    ]
    best = max(each.outcome.attainment_ratio for each in tried)
    enough = [each for each in tried if each.outcome.attainment_ratio >= min(0.995, best - 0.001)]
    return min(enough, key=lambda each: each.outcome.gpu_hours)


def run_baselines(service: Service, plant: str, seed: int, *, with_grid: bool) -> Iterator[Result]:
    """Oracles and every baseline on this service and plant; what the same code ran before comes from the cache."""
    law = LAWS[plant, service.long]
    work = work_by_bin(service, law, seed)
    for has_cold_start in (True, False):
        yield run_oracle(service, plant, seed, work, has_cold_start=has_cold_start)
    for entry in entries(service, law, work, with_grid=with_grid):
        outcome = run_cached(service, plant, seed, entry, first_count(work))
        yield Result(entry.policy, entry.setting, outcome, is_default=entry.is_default)


def run_cached(service: Service, plant: str, seed: int, entry: Entry, first: int) -> Outcome:
    """The outcome of one run, remembered by everything that it depends on."""
    key = hashlib.sha256(f"{_code()}|{service.name}|{plant}|{seed}|{entry.policy}|{entry.setting}|{first}".encode())
    place = CACHE / f"{key.hexdigest()[:24]}.json"
    if place.exists():
        return Outcome(**json.loads(place.read_text()))
    world = World(service, plant, seed, entry.has_cold_start)
    outcome = world.run(entry.make(), first)
    CACHE.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(asdict(outcome)))
    return outcome


@cache
def _code() -> str:
    """The simulator and the baselines as they are now, but for how they are laid out."""
    root = Path(__file__).parents[3]
    files = [*(root / "agent" / "simulator").glob("*.py"), *Path(__file__).parent.glob("*.py")]
    ours = [path for path in sorted(files) if path.name not in ("contest.py", "ours.py")]
    text = "".join(ast.dump(ast.parse(path.read_text(encoding="utf-8"))) for path in ours)
    return hashlib.sha256(text.encode()).hexdigest()
