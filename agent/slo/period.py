"""Over what time a budget runs: the last so many seconds, or this day, week, month or quarter; after its epoch."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from agent.model import Slo

MINUTE_SECONDS = 60.0
MONTHS = {"month": 1, "quarter": 3}


class Period(NamedTuple):
    """When the budget began to count, and how long its whole period is, seconds."""

    start_seconds: float
    length_seconds: float


def budget_period(slo: Slo, now_seconds: float) -> Period:
    """The period that `now_seconds` lies in. An epoch moves its beginning, never its length."""
    if slo.calendar is None:
        start, length = now_seconds - slo.period_seconds, slo.period_seconds
    else:
        start, length = _calendar(slo.calendar, slo.time_zone, now_seconds // MINUTE_SECONDS)
    if slo.epoch_seconds is not None:
        start = max(start, min(slo.epoch_seconds, now_seconds))
    return Period(start, length)


@lru_cache(maxsize=256)
def _calendar(unit: str, time_zone: str, minute: float) -> tuple[float, float]:
    """Beginning and length of the day, week (from Monday on), month or quarter, by the clocks of a zone."""
    now = datetime.fromtimestamp(minute * MINUTE_SECONDS, UTC).astimezone(ZoneInfo(time_zone))
    first = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if unit in MONTHS:
        months = MONTHS[unit]
        month = (first.month - 1) // months * months
        first = first.replace(month=month + 1, day=1)
        years, ahead = divmod(month + months, 12)
        after = first.replace(year=first.year + years, month=ahead + 1)
    else:
        first -= timedelta(days=first.weekday() if unit == "week" else 0)
        after = first + timedelta(days=7 if unit == "week" else 1)
    return first.timestamp(), after.timestamp() - first.timestamp()
