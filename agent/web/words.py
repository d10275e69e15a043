"""Numbers as a person says them aloud: for the verdict and for error messages."""

MINUTE_SECONDS = 60.0
HOUR_SECONDS = 3_600.0
DAY_SECONDS = 86_400.0


def duration(seconds: float) -> str:
    """A length of time in at most two units: "40 s", "2 min", "1 h 5 min", "3 d 4 h". Negative counts as 0."""
    seconds = max(0.0, seconds)
    if seconds < 2 * MINUTE_SECONDS:
        return f"{seconds:.0f} s"
    if seconds < HOUR_SECONDS:
        return f"{seconds // MINUTE_SECONDS:.0f} min"
    if seconds < DAY_SECONDS:
        return _two(seconds // HOUR_SECONDS, "h", seconds % HOUR_SECONDS // MINUTE_SECONDS, "min")
    return _two(seconds // DAY_SECONDS, "d", seconds % DAY_SECONDS // HOUR_SECONDS, "h")


def factor(rate: float | None) -> str:
    """A burn rate: "15x", "1.3x"; "an unknown rate" where it is not known."""
    if rate is None:
        return "an unknown rate"
    return f"{rate:.0f}x" if rate >= 10 else f"{rate:.1f}x"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things: "1 SLO", "3 SLOs"; `plural` where an s does not do."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def has(number: int) -> str:
    """The verb after so many things: "has" or "have"."""
    return "has" if number == 1 else "have"


def listing(names: list[str], most: int = 3) -> str:
    """Names in a sentence: "a", "a and b", "a, b and c", "a, b, c and 4 more"."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _two(big: float, big_unit: str, small: float, small_unit: str) -> str:
    return f"{big:.0f} {big_unit}" + (f" {small:.0f} {small_unit}" if small else "")
