"""How replicas are put together: N that do everything, or pools of prefill and decode engines."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.errors import UsageError
from agent.simulator.ask import Sequence
from agent.simulator.fleet import Builder, Direct, Fleet, Route
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
    it, each with a connector made by `connector` where one is given (an external KV tier). `page_groups` are further
    families on their pages: "kv_residency" (vLLM's --kv-cache-metrics), "kv_offload" (its own offloading).
    """

    aggregated: int = 1
    prefill: int = 0
    decode: int = 0
    router: Callable[[], Router] = LeastLoad
    link: Link = field(default_factory=Link)
    connector: Callable[[Plant, Telemetry], KvSource] | None = None
    mixed: tuple[Plant, ...] = ()
    page_groups: tuple[str, ...] = ()

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
        proxy = PrefillThenDecode(self.router(), self.router()) if self.is_split else None
        route: Route = Direct(self.router()) if proxy is None else proxy
        counts = {"prefill": self.prefill, "decode": self.decode} if self.is_split else {"aggregated": self.aggregated}
        return Fleet(
            self.builder(plant, gaps, proxy),
            route,
            workload,
            start_seconds,
            counts=counts,
            cold_start_seconds=cold_start_seconds,
            on_end=on_end,
        )

    def builder(self, plant: Plant, gaps: GapLog | None = None, proxy: PrefillThenDecode | None = None) -> Builder:
        """What makes this topology's replicas; with a proxy, decode engines pull from its prefill legs.

        Replica i is of `mixed[i]` where that is given, and of `plant` beyond it.
        """

        def pull(telemetry: Telemetry) -> KvSource:
            pulled = proxy.pulled if proxy else lambda _name, _at: None
            return NixlPull(self.link, plant.config.block_tokens, telemetry, pulled)

        def tier(telemetry: Telemetry) -> KvSource:
            if self.connector is None:
                raise ValueError(self)
            return self.connector(plant, telemetry)

        def build(role: str, index: int, created_at_seconds: float, ready_at_seconds: float) -> Replica:
            connector: Callable[[Telemetry], KvSource] | None = None
            groups: tuple[str, ...] = ()
            if role == "decode":
                connector, groups = pull, ("nixl",)
            elif role == "prefill":
                groups = ("nixl",)
            elif self.connector is not None:
                connector, groups = tier, ("kv_consumer", *self.page_groups)
            else:
                groups = self.page_groups
            log = None if role == "prefill" else gaps
            kind = self.mixed[index] if index < len(self.mixed) else plant
            return kind.build(
                role, index, created_at_seconds, ready_at_seconds, gaps=log, connector=connector, groups=groups
            )

        return build


def parse_topology(text: str) -> Topology:
    """`pd:P:D`: P prefill and D decode engines.

    Raises UsageError when it says something else.
    """
    kind, _, rest = text.partition(":")
    counts = rest.split(":")
    if kind != "pd" or len(counts) != 2 or not all(count.isdigit() and int(count) > 0 for count in counts):
        raise UsageError(f"--topology is {text!r}", "Write pd:P:D with P prefill and D decode engines, such as pd:1:1.")
    return Topology(aggregated=0, prefill=int(counts[0]), decode=int(counts[1]))
