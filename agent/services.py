"""Services that look like a slip of the pen: a name that only one SLO or target has, or two that differ by a letter."""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from agent.config_watching import Target
from agent.model import Slo

ALIKE = 0.75  # difflib's ratio; "chat" and "chta" have 0.75, "chat" and "code" 0.25
SHORTEST = 4  # letters; "eu" and "us", "a" and "b" are told apart on purpose


def service_warnings(slos: Sequence[Slo], targets: Sequence[Target]) -> Iterator[str]:
    """A sentence for every service that is probably another one, written wrongly."""
    promised = Counter(slo.service for slo in slos)
    served = {target.service for target in targets if target.service is not None}
    told: set[str] = set()
    for name in promised:
        for other in sorted((promised.keys() | served) - {name} - told):
            if _is_slip(name, other):
                told.add(name)
                yield f'the services "{name}" and "{other}" differ by little: if they are one, write one name'
    if targets and all(target.service is not None for target in targets):
        for name in sorted(promised.keys() - served - told):
            known = ", ".join(sorted(served))
            yield f'no target belongs to service "{name}": its SLOs count nothing. Targets have {known}'
    lone = [name for name, count in promised.items() if count == 1]
    if len(promised) == 2 and len(lone) == 1 and len(slos) > 2 and lone[0] not in told | served:
        (slo,) = (slo.name for slo in slos if slo.service == lone[0])
        (other,) = promised.keys() - set(lone)
        yield f'only SLO {slo} has service "{lone[0]}", all others have "{other}": add service: {other} if it is one'


def _is_slip(name: str, other: str) -> bool:
    """Word by word: "chta" for "chat" is a slip, "chat-2" beside "chat-1" and "chat-eu" beside "chat-us" are not."""
    words, others = re.findall(r"[A-Za-z]+|[0-9]+", name), re.findall(r"[A-Za-z]+|[0-9]+", other)
    if len(words) != len(others):
        return "".join(words).lower() == "".join(others).lower()
    pairs = [(a.lower(), b.lower()) for a, b in zip(words, others, strict=True) if a.lower() != b.lower()]
    return all(
        a.isalpha() and b.isalpha() and min(len(a), len(b)) >= SHORTEST
        and difflib.SequenceMatcher(None, a, b).ratio() >= ALIKE
        for a, b in pairs
    )  # fmt: skip
