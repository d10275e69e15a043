"""An alert in the form of Alertmanager's API v2. Source: alertmanager, api/v2/openapi.yaml, postableAlert."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from agent.outputs.alert_lease import LEASE_RESENDS, HeldAlert

MAX_SKEW_SECONDS = 30.0
"""With clocks further apart the stamps of one are of no use to the other; a post's `Date` is exact to 1 s only."""


def postable_alert(
    held: HeldAlert, wall_seconds: float, resend_seconds: float, skew_seconds: float
) -> dict[str, object]:
    """One element of the array that is posted.

    `skew_seconds` is how far the peer's clock is ahead. Beyond MAX_SKEW_SECONDS stamps are given in the peer's time
    and a firing alert has no end: the peer then counts its own `resolve_timeout` from every post.
    """
    skewed = is_skewed(skew_seconds)
    shift = skew_seconds if skewed else 0.0
    alert: dict[str, object] = {
        "labels": dict(held.labels),
        "annotations": {name: text for name, text in held.annotations.items() if text},
        "startsAt": _rfc3339(held.starts_at_seconds + shift),
    }
    if held.resolved_at_seconds is not None:
        alert["endsAt"] = _rfc3339(held.resolved_at_seconds + shift)
    elif not skewed:
        alert["endsAt"] = _rfc3339(wall_seconds + LEASE_RESENDS * resend_seconds)
    if page_url := held.annotations.get("page_url"):
        alert["generatorURL"] = page_url
    return alert


def is_skewed(skew_seconds: float) -> bool:
    """Whether the peer's clock is too far from ours for stamps to be compared."""
    return abs(skew_seconds) > MAX_SKEW_SECONDS


def clock_skew_seconds(headers: Mapping[str, str], wall_seconds: float) -> float | None:
    """How far the clock behind a response's `Date` is ahead of ours; None where it does not say."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp() - wall_seconds
    except (KeyError, ValueError, TypeError):
        return None


def _rfc3339(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
