"""A target's part in serving, where neither config nor labels say it: from its page, its router's, or what it does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from agent.windows import Windows
from probes.systems import ENGINES

LEAST_REQUESTS = 5.0  # fewer may be anybody's trial
FEW = 0.05  # of the tokens: what our canaries ask an instance directly is computed there
Counters = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Role:
    """Its part, and what said so."""

    role: Literal["prefill", "decode"]
    evidence: str


def roles_of(windows: Windows, targets: Iterable[str], urls: Mapping[str, str] | None = None) -> dict[str, Role]:
    """The parts of those that prefill or decode; what is not in it serves alone, or has not shown what it does.

    In this order: what a Dynamo worker's page calls itself; what a vllm-router's page says of its workers, for targets
    of known `urls`; what an engine does. One prefill instance alone is none: somebody has to decode.
    """
    counters = _counters(windows, targets)
    found = {name: role for name, told in counters.items() if (role := _by_deed(told))}
    found |= _by_router(windows, urls or {})
    found |= _by_component(counters)
    kinds = {role.role for role in found.values()}
    return found if "decode" in kinds else {}


def _counters(windows: Windows, targets: Iterable[str]) -> dict[str, dict[tuple[str, str], float]]:
    """By target, everything that its page counted, all its engines together."""
    wanted = set(targets)
    found: dict[str, dict[tuple[str, str], float]] = {}
    for key, raw in windows.raw.items():
        if key.source in ENGINES and key.target in wanted:
            sums = found.setdefault(key.target, {})
            for place, value in raw.counters.items():
                sums[place] = sums.get(place, 0.0) + value
    return found


def _by_deed(counters: Counters) -> Role | None:
    """Prefill: every request ends after its one token. Decode: every prompt came from elsewhere, nothing was computed.

    An instance with a shared cache takes prompts from elsewhere too, but never all of them.
    """
    finished = _sum_of(counters, "requests_finished_total")
    generated = counters.get(("generation_tokens_total", ""))
    if generated is None or finished < LEAST_REQUESTS:
        return None
    taken = counters.get(("prompt_tokens_by_source_total", "external_kv_transfer"), 0.0)
    computed = counters.get(("prompt_tokens_by_source_total", "local_compute"))
    if taken > 0 and computed is not None and computed <= FEW * taken:
        return Role("decode", f"{taken:,.0f} prompt tokens came from elsewhere, {computed:,.0f} were computed")
    at_length = counters.get(("requests_finished_total", "length"), 0.0)
    if generated == finished == at_length:
        return Role("prefill", f"all {finished:,.0f} requests ended after one token")
    return None


def _by_component(counters: Mapping[str, Counters]) -> dict[str, Role]:
    """Dynamo calls a decode worker as one that serves alone: it decodes where others prefill."""
    components = {
        name: {label for (signal, label) in told if signal == "worker_requests_total"}
        for name, told in counters.items()
    }
    if not any("prefill" in named for named in components.values()):
        return {}
    words = "dynamo_component={}"
    return {
        name: Role("prefill", words.format("prefill"))
        if "prefill" in named
        else Role("decode", words.format("backend"))
        for name, named in components.items()
        if named & {"prefill", "backend"}
    }


def _by_router(windows: Windows, urls: Mapping[str, str]) -> dict[str, Role]:
    """A vllm-router counts the legs of each worker under its address."""
    names = {url.rstrip("/"): name for name, url in urls.items()}
    found: dict[str, Role] = {}
    for key, raw in windows.raw.items():
        for signal, label in raw.counters if key.source == "vllm_router" else ():
            name = names.get(label.rstrip("/"))
            if name and signal == "router_pd_prefill_requests_total":
                found[name] = Role("prefill", f"{key.target} prefills there")
            elif name and signal == "router_pd_decode_requests_total":
                found[name] = Role("decode", f"{key.target} decodes there")
    return found


def _sum_of(counters: Counters, signal: str) -> float:
    return sum(value for (name, _), value in counters.items() if name == signal)
