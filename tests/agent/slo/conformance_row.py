"""A line of the conformance table: what the survey's suite says, and what `tick()` gave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`table` is the suite's letter. `other` is what another project's rules gave, "" where not run."""

    table: str
    case: str
    wanted: str
    ours: str
    is_same: bool
    other: str = ""


def near(table: str, case: str, wanted: float, ours: float | None, rel: float = 2e-3, other: str = "") -> Row:
    """A figure within a relative tolerance: the suite gives four digits at most."""
    is_same = ours is not None and abs(ours - wanted) <= rel * abs(wanted) + 1e-9
    return Row(table, case, f"{wanted:g}", "unknown" if ours is None else f"{ours:.5g}", is_same, other)


def same(table: str, case: str, wanted: object, ours: object, other: str = "") -> Row:
    """Something that is equal or is not."""
    return Row(table, case, str(wanted), str(ours), wanted == ours, other)


def holds(table: str, case: str, *, is_so: bool) -> Row:
    """Something that must be so."""
    return Row(table, case, "yes", "yes" if is_so else "no", is_so)
