"""What a row of a names table says: our signal, and the names it has had on the pages of one system."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Name:
    """One signal of ours and where it is found.

    `names` are the exposed names without prefix, the best first: where a page has several, the first counts and the
    others are not added to it. `label` is the page's label that becomes the sample's one further label.
    """

    signal: str
    kind: Literal["counter", "gauge", "histogram"]
    names: tuple[str, ...]
    unit: str
    meaning: str
    trap: str = ""
    label: str = ""
