"""`make conformance`: every case of the suite (docs/conformance.md), what is wanted and ours beside it, in one table.

Every cell is measured on `tick()` in virtual time; those of A evaluation by evaluation around the expected moment.
Where promtool is installed, the rules that Sloth and Pyrra render are run too. Exit code 1 when one differs.
"""

# ruff: noqa: T201 - it prints

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance_budgets import budgets, replicas, traffic, young
from conformance_counting import counters, gaps
from conformance_exclusions import exclusions
from conformance_low_traffic import false_pages, lone_failures, silence
from conformance_others import pages
from conformance_restart import configs, restarts, without_for
from conformance_row import Row, holds
from test_burn_tables import ROWS, T0, TICK, World, rounded_up

from agent.model import BurnPair

AROUND = 6  # evaluations before and after the expected one


def measured(objective: float, share: float, pair: BurnPair, detection: float, reset: float) -> tuple[float, float]:
    """Seconds from onset to the first firing evaluation, and from recovery to the first that does not; inf: never."""
    world = World(objective, (pair,))
    if math.isinf(detection):
        fires = any(world.go(T0 + pair.long_seconds * part / 24, share) for part in range(1, 37))
        return (world.now - T0 if fires else math.inf), math.inf
    found = first(world, T0, expected(detection, strict=True), share, fires=True)
    over = T0 + math.ceil((expected(detection, strict=True) + pair.short_seconds) / TICK) * TICK
    world.go(over, share)
    return found, first(world, over, expected(reset), 0.0, fires=False)


def expected(seconds: float, *, strict: bool = False) -> float:
    """On the grid; equality does not fire."""
    on_grid = rounded_up(seconds)
    return on_grid + TICK if strict and on_grid == seconds else on_grid


def first(world: World, start: float, about: float, share: float, *, fires: bool) -> float:
    """Seconds from `start` to the first evaluation that is as wanted, near the expected one; inf where none is."""
    for step in range(-AROUND, AROUND + 1):
        at = about + step * TICK
        if at > 0 and world.go(start + at, share) == fires:
            return at
    return math.inf


def words(seconds: float) -> str:
    return "never" if math.isinf(seconds) else f"{seconds:,.0f} s"


def detections() -> Iterator[Row]:
    """A: every pair of every objective, at every share of bad events."""
    for objective, share, pair, detection, reset in ROWS:
        ours = measured(objective, share, pair, detection, reset)
        wanted = (expected(detection, strict=True), expected(reset)) if math.isfinite(detection) else (math.inf,) * 2
        case = f"{objective:.1%}, {share:.0%} bad, {pair.severity}/{pair.tier}: detection, reset"
        yield Row("A", case, ", ".join(map(words, wanted)), ", ".join(map(words, ours)), ours == wanted)


ALERTMANAGER = [
    ("an array; again within a minute, a lease of four resends", "test_a_firing_alert_is_posted_at_once_and_renewed"),
    ("one peer answers 500 or not at all: the others are told", "test_a_peer_in_trouble_delays_no_other"),
    ("400 for one alert: the others arrive", "test_one_invalid_alert_is_found_left_out_and_not_tried_for_ever"),
    ("a resolved alert is told for 15 minutes", "test_a_resolved_alert_is_told_for_fifteen_minutes"),
    ("Alertmanager restarts: told anew at once", "test_a_peer_that_comes_back_hears_everything_again"),
    ("a clock 10 minutes ahead ends no alert", "test_a_clock_ten_minutes_ahead_gets_no_end_and_stamps_in_its_own_time"),
    ("other annotations are no other alert", "test_annotations_are_renewed_and_make_no_new_alert"),
]  # fmt: skip


def alertmanager() -> Iterator[Row]:
    """I: the tests of the output, against a server that behaves as Alertmanager does."""
    folder = Path(__file__).parents[1] / "outputs"
    files = [folder / f"test_{name}.py" for name in ("alertmanager", "alert_lease", "alert_wire")]
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *files]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    told = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", ended.stdout, re.MULTILINE)
    for case, test in ALERTMANAGER:
        yield holds("I", case, is_so={verdict for verdict, name in told if name == test} == {"PASSED"})


TABLES: Sequence[Callable[[], Iterator[Row]]] = (
    detections, budgets, traffic, lone_failures, false_pages, silence, young, counters, gaps, restarts, configs,
    exclusions, without_for, replicas,
)  # fmt: skip


def main() -> int:
    """Print the table."""
    rows = wrong = 0
    print(f"| | case | wanted | ours | | others |\n|{'---|' * 6}")
    for table in (*TABLES, alertmanager, pages):
        for row in table():
            rows, wrong = rows + 1, wrong + (not row.is_same)
            verdict = "=" if row.is_same else "DIFFERS"
            print(f"| {row.table} | {row.case} | {row.wanted} | {row.ours} | {verdict} | {row.other} |", flush=True)
    print(
        f"\n{rows} cases, {wrong} differ; times rounded up to the evaluation, {TICK:g} s apart (15 s in the last table)"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
