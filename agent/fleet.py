"""Who of a fleet of agents probes a target: exactly one of them, and nobody has to be asked.

Rendezvous hashing (Thaler and Ravishankar 1998): every member computes the same weight of each member and target, and
the heaviest member owns the target. When one goes, only its own targets move.
"""

import hashlib
from collections.abc import Iterable


def owner(target: str, members: Iterable[str]) -> str:
    """The member that probes this target; the same for everybody who knows the same members, which must not be none."""
    return max(members, key=lambda member: hashlib.sha256(f"{member}\0{target}".encode()).digest())
