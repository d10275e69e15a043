"""What a server does not take: learnt from its 400s, so that a strict gateway is no outage."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from probes.stream import StreamFault

# What may be left out, the more particular name first: dropping continuous usage must not drop all usage.
DROPPABLE: Final = (
    "continuous_usage_stats", "ignore_eos", "min_tokens", "stream_options", "temperature", "max_tokens", "cache_salt",
    "chat_template_kwargs", "logprobs", "max_output_tokens", "encoding_format", "store",
)  # fmt: skip


@dataclass(slots=True)
class Dialects:
    """The fields each server has refused for each model, for the life of the process."""

    _refused: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def refused(self, base: str, model: str) -> frozenset[str]:
        """The fields to leave out for this server and model; empty for those that never complained."""
        return self._refused.get((base, model), frozenset())

    def learn(self, base: str, model: str, fault: StreamFault, own_words: Sequence[str] = ()) -> bool:
        """From now on leave out the field that a 400 or 422 names; False when it names none that we sent.

        `own_words` are fields of this kind of canary alone: words that other servers' errors have for themselves.
        """
        known = self.refused(base, model)
        for name in (*DROPPABLE, *own_words):
            if name not in known and re.search(rf"\b{name}\b", fault.detail):
                self._refused[base, model] = known | {name}
                return True
        return False


def spoken(body: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    """The request without what the server refuses. `max_tokens` refused becomes `max_completion_tokens`."""
    said = {name: value for name, value in body.items() if name not in refused}
    if "max_tokens" in refused:
        said["max_completion_tokens"] = body["max_tokens"]
    if "continuous_usage_stats" in refused and "stream_options" in said:
        said["stream_options"] = {"include_usage": True}
    return said
