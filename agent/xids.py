"""XID errors: what each code asks for.

Source: NVIDIA, "XID Errors", Xid catalog (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), its column of
immediate actions for data-centre GPUs from Ampere on. 48 and 74 have a workflow there, whose text asks for a reset;
45 and 154 only come with another code, and what they ask for depends on it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

Mend = Literal["restart_node", "reset", "look_up", "restart_engine", "none"]
"""What a code asks for, the heaviest first."""

_RESTART_NODE: Final = (79, 151)
_RESET: Final = (46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)
_RESTART_ENGINE: Final = (
    *(8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94),
    *range(96, 106),
    *range(126, 136),
    139,
)
_NONE: Final = (14, 37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 157, 160, 161)
MENDS: Final[Mapping[int, Mend]] = {
    **dict.fromkeys(_RESTART_NODE, "restart_node"),
    **dict.fromkeys(_RESET, "reset"),
    **dict.fromkeys(_RESTART_ENGINE, "restart_engine"),
    **dict.fromkeys(_NONE, "none"),
}
MEANINGS: Final[Mapping[int, str]] = {
    13: "an exception in a kernel, mostly of the program",
    31: "a page fault on the GPU, mostly of the program",
    43: "the program was stopped after a fault of its own; the GPU is well",
    45: "the program was ended; another code says why",
    46: "the GPU stopped working",
    48: "a memory error that ECC could not correct",
    62: "the GPU's own controller halted",
    63: "a bad memory row was marked to be remapped",
    64: "a bad memory row could not be remapped",
    74: "an NVLink failed, here or at its other end",
    79: "the GPU does not answer on its bus",
    92: "many corrected memory errors",
    94: "a memory error that hit one program only",
    95: "a memory error that may have hit every program",
    109: "a context switch did not end in time",
    119: "the GPU's system processor did not answer",
    120: "the GPU's system processor had an error",
    140: "a memory error that kept its row from being marked",
    154: "the driver changed what it wants done; the kernel log says to what",
}
HEAVIEST_FIRST: Final[tuple[Mend, ...]] = ("restart_node", "reset", "look_up", "restart_engine", "none")


def mend_of(codes: Iterable[str]) -> Mend:
    """The heaviest thing that one of these codes asks for; one that is not known is to be looked up."""
    wanted = {MENDS.get(int(code), "look_up") if code.isdecimal() else "look_up" for code in codes}
    return next((mend for mend in HEAVIEST_FIRST if mend in wanted), "none")


def meaning_of(code: str) -> str:
    """The code in words; only its number where we have none."""
    words = MEANINGS.get(int(code)) if code.isdecimal() else None
    return f"XID {code}" + (f" ({words})" if words else "")
