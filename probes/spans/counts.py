"""What the receiver has counted of itself: nothing is dropped without a number."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

OTHER_NAMES: Final = 100
REST: Final = "(other names)"


@dataclass(slots=True)
class SpanCounts:
    """Totals since the start, by closed words where a counter has keys.

    `bodies`: accepted exports by protocol ("grpc", "http"). `refused`: exports the sender was told of, by reason
    ("busy", "malformed", "too_large", "media_type", "encoding", "timeout", "cut_off", "stopping"). `lost`: what was
    taken and not read, by the reasons of `Decoded.lost`, "unread" (bodies left at the stop) and "error" (bodies, by a
    fault of ours). `forwarded`: bodies for the user's own collector ("ok", "failed", "dropped").
    """

    requests: int = 0
    canaries: int = 0
    repeated: int = 0
    bodies: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    forwarded: Counter[str] = field(default_factory=Counter)

    def add_others(self, names: Mapping[str, int]) -> None:
        """Spans that are no requests, by their names; a sender who makes up names fills one line, not our memory."""
        for name, count in names.items():
            is_known = name in self.others or len(self.others) < OTHER_NAMES
            self.others[name if is_known else REST] += count
