"""The plan: everything the core needs to know that readings do not tell. Frozen; a new config is a new plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.model import Slo
from agent.sli.count import TargetFacts
from agent.slo.exclusions import Exclusion


@dataclass(frozen=True, slots=True)
class KvTier:
    """A KV tier that one replica has or could have: its link, and the sizes there are, smallest first.

    `in_use_gigabytes` is what it has now; None: none of it. A price that is None is not known.
    """

    name: str
    bytes_per_second: float
    latency_seconds: float
    gigabytes: tuple[float, ...]
    in_use_gigabytes: float | None = None
    gigabyte_hour_dollars: float | None = None


@dataclass(frozen=True, slots=True)
class AdvicePlan:
    """What recommendations may assume. `slo_names` drive scaling; empty: every SLO of ttft, itl, tpot and goodput that
    the engine tells of. `kv_bytes_per_token` is by model.
    """

    slo_names: tuple[str, ...] = ()
    cold_start_seconds: float = 120.0
    min_replicas: int = 1
    max_replicas: int = 64
    kv_tiers: tuple[KvTier, ...] = ()
    kv_bytes_per_token: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is promised, who is watched, and where people look.

    `down_after_seconds` without a page a target is down; `stuck_after_seconds` in flight without progress it is stuck.
    """

    slos: tuple[Slo, ...] = ()
    targets: Mapping[str, TargetFacts] = field(default_factory=dict)
    exclusions: tuple[Exclusion, ...] = ()
    node: str | None = None
    scrape_interval_seconds: float = 10.0
    down_after_seconds: float = 30.0
    stuck_after_seconds: float = 30.0
    page_url: str = ""
    dashboard_url: str = ""
    advice: AdvicePlan = field(default_factory=AdvicePlan)
