"""What goes wrong, and when: faults that a story lays on its fleet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.simulator.fleet import Fleet
from agent.simulator.replica import Replica
from agent.simulator.tier import CacheTier

Kind = Literal["slow", "stuck", "crash", "kv_leak", "kv_shrink", "forget_prefixes", "restart", "tier_down", "tier_slow"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the replica at `index`, from `at_seconds` to `until_seconds` (None: for good) after the start.

    `value`: the factor of `slow`; the part of all blocks lost by `kv_leak` (at once) or `kv_shrink` (bit by bit until
    the end). `crash` fails everything in the engine and brings a new process up after a cold start; `restart` drains
    first. `tier_down` and `tier_slow` (a factor) befall the cache tier with that index.
    """

    kind: Kind
    at_seconds: float
    index: int = 0
    until_seconds: float | None = None
    value: float = 0.0

    def lay_on(self, fleet: Fleet, tiers: Sequence[CacheTier], start_seconds: float) -> None:
        """Have it happen to this fleet, or to its cache tiers."""
        if self.kind not in ("tier_down", "tier_slow"):
            fleet.at(start_seconds + self.at_seconds, lambda at: self._begin(fleet, at, start_seconds))
            return
        fleet.at(start_seconds + self.at_seconds, lambda _: self._hit_tier(tiers[self.index], is_on=True))
        if self.until_seconds is not None:
            fleet.at(start_seconds + self.until_seconds, lambda _: self._hit_tier(tiers[self.index], is_on=False))

    def _hit_tier(self, tier: CacheTier, *, is_on: bool) -> None:
        if self.kind == "tier_down":
            tier.is_down = is_on
        else:
            tier.slowdown = self.value if is_on else 1.0

    def _begin(self, fleet: Fleet, now_seconds: float, start_seconds: float) -> None:
        replica = next((each for each in fleet.replicas if each.index == self.index), None)
        if replica is None:
            return
        engine = replica.engine
        engine.advance(now_seconds)
        end: Callable[[float], None] | None = None
        if self.kind == "slow":
            engine.set_slowdown(self.value, now_seconds)
            end = lambda at: engine.set_slowdown(1.0, at)  # noqa: E731 - as short as it can be
        elif self.kind == "stuck":
            engine.stick(now_seconds)
            end = engine.unstick
        elif self.kind == "kv_leak":
            engine.leak(int(self.value * engine.config.num_gpu_blocks), now_seconds)
        elif self.kind == "kv_shrink" and self.until_seconds is not None:
            self._leak_slowly(fleet, replica, now_seconds, start_seconds + self.until_seconds)
        elif self.kind == "forget_prefixes":
            engine.pool.forget()
        elif self.kind == "crash":
            crash(fleet, replica, now_seconds)
        elif self.kind == "restart":
            restart(fleet, replica, now_seconds)
        if end is not None and self.until_seconds is not None:
            fleet.at(start_seconds + self.until_seconds, end)

    def _leak_slowly(self, fleet: Fleet, replica: Replica, now_seconds: float, until_seconds: float) -> None:
        steps = max(1, int((until_seconds - now_seconds) // 10))
        blocks = int(self.value * replica.engine.config.num_gpu_blocks / steps)

        def leak(at: float) -> None:
            replica.engine.leak(blocks, at)

        for step in range(steps):
            fleet.at(now_seconds + 10.0 * step, leak)


def crash(fleet: Fleet, replica: Replica, now_seconds: float) -> None:
    """The process dies with all it had; a new one comes up in its place after a cold start."""
    replica.phase = "gone"
    replica.engine.crash(now_seconds)
    fleet.remove(replica)
    fleet.add(replica.role, now_seconds, now_seconds + fleet.cold_start_seconds)


def restart(fleet: Fleet, replica: Replica, now_seconds: float) -> None:
    """Start the successor, and retire the old one when it is ready: a rolling update with one pod of surge."""
    successor = fleet.add(replica.role, now_seconds, now_seconds + fleet.cold_start_seconds)
    fleet.at(successor.ready_at_seconds + 1e-6, lambda at: fleet.retire(replica, at))
