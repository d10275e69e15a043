"""`make conformance`: the table of detection and reset (facts: SRE Workbook, chapter 5) with ours beside it.

Every cell is measured on `tick()` in virtual time, evaluation by evaluation around the expected moment. Exit code 1
when one differs.
"""

# ruff: noqa: T201 - it prints

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

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


def main() -> int:
    """Print the table."""
    wrong = 0
    print(f"| objective | bad | pair | detection | ours | reset | ours | |\n|{'---|' * 8}")
    for objective, share, pair, detection, reset in ROWS:
        ours = measured(objective, share, pair, detection, reset)
        wanted = (expected(detection, strict=True), expected(reset)) if math.isfinite(detection) else (math.inf,) * 2
        wrong += ours != wanted
        cells = (
            words(wanted[0]),
            words(ours[0]),
            words(wanted[1]),
            words(ours[1]),
            "=" if ours == wanted else "DIFFERS",
        )
        print(f"| {objective:.1%} | {share:.0%} | {pair.severity}/{pair.tier} | {' | '.join(cells)} |", flush=True)
    print(f"\n{len(ROWS)} rows, {wrong} differ; times rounded up to the evaluation, {TICK:g} s apart")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
