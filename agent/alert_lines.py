"""Alerts as log lines."""

import logging
import re
from typing import Final

from agent.model import Alert

log = logging.getLogger(__name__)

PLAIN_VALUE: Final = re.compile(r"[\w.:/@-]{1,200}", re.ASCII)
LONGEST_VALUE: Final = 200


def log_alert(alert: Alert) -> None:
    """One line for an alert that began or ended, with its labels as fields."""
    fields = " ".join(f"{key}={_quoted(value)}" for key, value in alert.labels)
    if alert.is_firing:
        log.warning("alert firing %s summary=%r", fields, alert.annotations.get("summary", ""))
    else:
        log.warning("alert resolved %s", fields)


def _quoted(value: str) -> str:
    """A label's value: as it is when it is plain, else quoted and cut, so that it forges no line."""
    return value if PLAIN_VALUE.fullmatch(value) else repr(value[:LONGEST_VALUE])
