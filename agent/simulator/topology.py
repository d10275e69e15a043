"""How replicas are put together: N that do everything, or pools of prefill and decode engines."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.errors import UsageError
from agent.simulator.ask import Sequence
from agent.simulator.fleet import Direct, Fleet, Route
from agent.simulator.kv_source import KvSource
from agent.simulator.pd import Link, NixlPull, PrefillThenDecode
from agent.simulator.plant import Plant
from agent.simulator.replica import Replica
from agent.simulator.router import LeastLoad, Router
from agent.simulator.telemetry import GapLog, Telemetry
from agent.simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class Topology:
    """How many replicas of which role, and how requests find them.

    With `prefill` and `decode` above 0 requests take two legs over `link`; otherwise `aggregated` replicas do all of
    it, each with a connector made by `connector` where one is given (an external KV tier).
    """

    aggregated: int = 1
    prefill: int = 0
    decode: int = 0
    router: Callable[[], Router] = LeastLoad
    link: Link = field(default_factory=Link)
    connector: Callable[[Plant, Telemetry], KvSource] | None = None

    @property
    def is_split(self) -> bool:
        return self.prefill > 0 and self.decode > 0

    def fleet(
        self,
        plant: Plant,
        workload: Workload | None,
        start_seconds: float,
        *,
        cold_start_seconds: float = 110.0,
        on_end: Callable[[Sequence], None] | None = None,
        gaps: GapLog | None = None,
    ) -> Fleet:
        """The fleet at its beginning; `gaps`, where given, gets every gap that a client saw."""
        route: Route
        counts = {"aggregated": self.aggregated}
        if self.is_split:
            proxy = PrefillThenDecode(self.router(), self.router())
            route, counts = proxy, {"prefill": self.prefill, "decode": self.decode}
        else:
            route = Direct(self.router())

        def build(role: str, index: int, created_at_seconds: float, ready_at_seconds: float) -> Replica:
            groups: tuple[str, ...] = ()
            connector: Callable[[Telemetry], KvSource] | None = None
            if self.is_split:
                groups = ("nixl",)
                if role == "decode":
                    connector = lambda telemetry: NixlPull(  # noqa: E731 - as short as it can be
                        self.link, plant.config.block_tokens, telemetry, proxy.pulled
                    )
            elif self.connector is not None:
                make, groups = self.connector, ("kv_consumer",)
                connector = lambda telemetry: make(plant, telemetry)  # noqa: E731 - as short as it can be
            return plant.build(
                role,
                index,
                created_at_seconds,
                ready_at_seconds,
                gaps=None if role == "prefill" else gaps,
                connector=connector,
                groups=groups,
            )

        return Fleet(
            build,
            route,
            workload,
            start_seconds,
            counts=counts,
            cold_start_seconds=cold_start_seconds,
            on_end=on_end,
        )


def parse_topology(text: str) -> Topology:
    """`pd:P:D`: P prefill and D decode engines.

    Raises UsageError when it says something else.
    """
    kind, _, rest = text.partition(":")
    counts = rest.split(":")
    if kind != "pd" or len(counts) != 2 or not all(count.isdigit() and int(count) > 0 for count in counts):
        raise UsageError(f"--topology is {text!r}", "Write pd:P:D with P prefill and D decode engines, such as pd:1:1.")
    return Topology(aggregated=0, prefill=int(counts[0]), decode=int(counts[1]))
