"""Which replica gets a request."""

from collections.abc import Sequence as Many
from random import Random
from typing import Protocol

from agent.simulator.ask import Ask
from agent.simulator.replica import Replica


class Router(Protocol):
    """Chooses among replicas that are ready; there is at least one. `reads_load` says that it looks at their state."""

    reads_load: bool

    def choose(self, replicas: Many[Replica], ask: Ask) -> Replica:
        """The replica for this request."""
        ...


class RoundRobin:
    """One after the other."""

    reads_load = False

    def __init__(self) -> None:
        self._next = 0

    def choose(self, replicas: Many[Replica], ask: Ask) -> Replica:  # noqa: ARG002 - blind by design
        self._next += 1
        return replicas[(self._next - 1) % len(replicas)]


class Skewed:
    """At random by the replicas' weights: a broken or sticky balancer (85/15)."""

    reads_load = False

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def choose(self, replicas: Many[Replica], ask: Ask) -> Replica:  # noqa: ARG002 - blind by design
        return self._rng.choices(replicas, [replica.weight for replica in replicas])[0]


class LeastLoad:
    """The one with the fewest unfinished requests."""

    reads_load = True

    def choose(self, replicas: Many[Replica], ask: Ask) -> Replica:  # noqa: ARG002 - every request weighs the same
        return min(replicas, key=lambda replica: (replica.load, replica.index))


class PrefixAware:
    """The longest known prefix wins, unless that replica has `slack` more unfinished requests than the idlest."""

    reads_load = True

    def __init__(self, slack: int = 8) -> None:
        self._slack = slack

    def choose(self, replicas: Many[Replica], ask: Ask) -> Replica:
        idlest = min(replica.load for replica in replicas)
        able = [replica for replica in replicas if replica.load <= idlest + self._slack]
        return max(
            able, key=lambda replica: (replica.engine.pool.hit_blocks(ask.block_hashes), -replica.load, -replica.index)
        )
