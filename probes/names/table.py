"""What a row of a names table says: our signal, and the names it has had on the pages of one system."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Name:
    """One signal of ours and where it is found.

    `names` are the exposed names without prefix, the best first: where a page has several, the first counts and the
    others are not added to it. `label` is the page's label that becomes the sample's one further label.

    `over` says how series that differ in labels we do not keep (worker, tenant, memory kind) become one: "sum", or
    "max" where each repeats the same events; "" where a second such series would be a mistake of the page. `scale`
    brings the page's unit to ours. `is_phase` marks times that vLLM observes wrongly for requests that failed.
    `where` is (label, value): only series that have it count. `blank` is how an empty `label` is called.
    """

    signal: str
    kind: Literal["counter", "gauge", "histogram"]
    names: tuple[str, ...]
    unit: str
    meaning: str
    trap: str = ""
    label: str = ""
    over: Literal["", "sum", "max"] = ""
    scale: float = 1.0
    is_phase: bool = False
    where: tuple[str, str] | None = None
    blank: str = ""
