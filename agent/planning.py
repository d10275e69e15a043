"""From the config, and what discovery found, to what the parts need: the plan, the pages, the canary tasks."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path

from agent.auth import Auth
from agent.burn_windows import pairs_for
from agent.config import Config
from agent.config import KvTier as KvTierItem
from agent.config_slo import Exclusion as ExclusionItem
from agent.config_slo import Slo
from agent.config_watching import Target
from agent.model import BurnPair, SliName, SliSource
from agent.model import Slo as Promise
from agent.plan import AdvicePlan, KvTier, Plan
from agent.signals.economics import Energy
from agent.sli.count import TargetFacts, concerns
from agent.slo.exclusions import Exclusion, Weekly
from probes.books import BOOKS, System
from probes.canary.item import CanaryItem
from probes.canary.kv_reuse import KvReuseCanary
from probes.canary.task import Elsewhere, ProbeTask, Route
from probes.discovery.file import Found
from probes.discovery.role import role_of
from probes.engine_args import engine_args
from probes.sample import USER_KINDS
from probes.scrape import PageTarget
from probes.systems import ASKABLE, ENGINES

DEFAULT_SOURCES: Mapping[SliName, SliSource] = {"stall": "canary", "correctness": "canary", "composite": "slos"}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CALENDAR_SECONDS = {"day": 86_400.0, "week": 7 * 86_400.0, "month": 30 * 86_400.0, "quarter": 91 * 86_400.0}


def make_plan(config: Config, targets: Sequence[Target]) -> Plan:
    """The plan for these targets."""
    return Plan(
        slos=tuple(_promise(config, slo) for slo in config.slos),
        targets={target.name: _facts(config, target) for target in targets},
        exclusions=tuple(map(_exclusion, config.exclusions)),
        node=config.node,
        scrape_interval_seconds=config.scrape.interval_seconds,
        down_after_seconds=config.scrape.down_after_seconds,
        stuck_after_seconds=config.scrape.stuck_after_seconds,
        page_url=config.outputs.page_url,
        dashboard_url=config.outputs.dashboard_url,
        advice=AdvicePlan(
            tuple(config.advice.slos),
            config.advice.cold_start_seconds,
            config.advice.min_replicas,
            config.advice.max_replicas,
            tuple(_kv_tier(config, tier) for tier in config.advice.kv_tiers),
            config.advice.kv_bytes_per_token,
        ),
    )


def _kv_tier(config: Config, tier: KvTierItem) -> KvTier:
    return KvTier(
        tier.name,
        tier.gigabytes_per_second * 1e9,
        tier.latency_seconds,
        tuple(sorted(tier.gigabytes)),
        tier.in_use_gigabytes,
        config.prices.kv_tier_gigabyte_hour_dollars.get(tier.name),
    )


def energy_price(config: Config) -> Energy | None:
    """What electricity costs beside the GPUs; None where it is in their price."""
    return None if config.prices.kwh_dollars is None else Energy(config.prices.kwh_dollars, config.prices.pue)


def all_targets(config: Config, found: Iterable[Found]) -> list[Target]:
    """Configured targets, then discovered ones; of two with one name the first stays."""
    targets: dict[str, Target] = {}
    for target in (*config.targets, *map(_discovered, found)):
        targets.setdefault(target.name, target)
    return list(targets.values())


def found_of(target: Target) -> Found:
    """A target as discovery would have given it, for recordings; its auth and metrics_url stay here."""
    scheme, _, address = target.url.partition("://")
    said = {
        "name": target.name,
        "kind": target.kind,
        "role": target.role,
        "model": target.model,
        "service": target.service,
        "gpus": str(target.gpus),
        "gpu_type": target.gpu_type,
        "engine_args": target.engine_args or None,
        "__scheme__": scheme,
        "__metrics_path__": target.metrics_path,
    }
    return Found(address, {**target.labels, **{label: value for label, value in said.items() if value is not None}})


def page_target(config: Config, target: Target) -> PageTarget:
    """How the target's metrics page is read."""
    return PageTarget(
        name=target.name,
        url=target.page_url,
        system=target.kind,
        timeout_seconds=config.scrape.timeout_seconds,
        max_bytes=config.scrape.max_bytes,
        headers=_headers(target.auth),
        route=_route(target.auth),
    )


def probe_task(
    canary: CanaryItem, target: Target, model: str | None, planned_at_seconds: float, turn: int = 0, rank: str = ""
) -> ProbeTask:
    """One run of a canary. `model` is what the target's page says, where the config does not name one."""
    where = ProbeTask(
        target=target.name,
        url=target.url,
        model=target.model or model,
        token=(target.auth.token() or None) if target.auth else None,
        route=_route(target.auth),
        planned_at_seconds=planned_at_seconds,
        turn=turn,
        rank=rank,
    )
    return canary.fill(where)


def warm_target(canary: CanaryItem, target: Target, config: Config) -> Target | None:
    """Where the warm half of a pair goes, if not to the target that is asked cold."""
    if not isinstance(canary, KvReuseCanary) or canary.warm_target in ("", target.name):
        return None
    return next((one for one in config.targets if one.name == canary.warm_target), None)


def place_of(target: Target) -> Elsewhere:
    """A target as a canary reaches it."""
    token = (target.auth.token() or None) if target.auth else None
    return Elsewhere(target.name, target.url, target.model, token, _route(target.auth))


def canary_targets(canary: CanaryItem, targets: Iterable[Target]) -> list[Target]:
    """The targets a canary is sent to: those that answer users' requests."""
    return [t for t in targets if t.kind in ASKABLE and ("*" in canary.targets or t.name in canary.targets)]


def counted_canaries(slo: Promise, canaries: Iterable[CanaryItem]) -> list[CanaryItem]:
    """Those whose results are events of this SLO: the known questions of `sli: correctness`, else what users ask."""
    kinds = ("correctness",) if slo.sli == "correctness" else USER_KINDS
    return [canary for canary in canaries if canary.kind in kinds]


def canaries_an_hour_of(slo: Promise, canaries: Iterable[CanaryItem], targets: Iterable[Target], plan: Plan) -> float:
    """Canary results an hour that this SLO counts, of all kinds and all of its targets; 0 where nobody asks for it."""
    own = [target for target in targets if concerns(slo, plan.targets.get(target.name), slo.model or "")]
    return sum(
        3_600 / canary.interval_seconds * len(canary_targets(canary, own)) for canary in counted_canaries(slo, canaries)
    )


def config_hash(config: Config) -> str:
    """A short name of this very config."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:12]


def _promise(config: Config, slo: Slo) -> Promise:
    return Promise(
        name=slo.name,
        service=slo.service,
        sli=slo.sli,
        source=slo.source or DEFAULT_SOURCES.get(slo.sli, "engine"),
        objective_ratio=slo.objective_ratio,
        period_seconds=_period_seconds(slo),
        pairs=_pairs(config, slo),
        threshold_seconds=slo.threshold_seconds,
        model=slo.model,
        role=slo.role,
        undecided=slo.undecided,
        min_bad_events=config.burn.min_bad_events,
        volume_gate=config.burn.volume_gate,
        calm_windows=config.burn.calm_windows,
        hold_seconds=config.burn.hold_seconds,
        runbook_url=slo.runbook_url,
        ttft_seconds=config.goodput.ttft_seconds if slo.sli == "goodput" else None,
        tpot_seconds=config.goodput.tpot_seconds if slo.sli == "goodput" else None,
        calendar=slo.calendar,
        time_zone=slo.time_zone,
        epoch_seconds=slo.epoch.timestamp() if slo.epoch else None,
        policy=slo.policy,
        violated_minute_dollars=slo.violated_minute_dollars,
        engine=slo.engine,
        target_labels=tuple(sorted(slo.labels.items())),
        slice_seconds=_slice_seconds(config, slo),
        slice_good_ratio=slo.slice_good_ratio,
        all_of=tuple(slo.all_of),
    )


def _slice_seconds(config: Config, slo: Slo) -> float | None:
    """Of a composite those of its members, which are all alike."""
    members = [other.slice_seconds for other in config.slos if other.name in slo.all_of]
    return members[0] if members else slo.slice_seconds


def _period_seconds(slo: Slo) -> float:
    """Of a calendar period its usual length: factors of burn pairs must not change from month to month."""
    return CALENDAR_SECONDS[slo.calendar] if slo.calendar else slo.period_seconds


def _exclusion(item: ExclusionItem) -> Exclusion:
    weekly = None
    if item.at is not None and item.length_seconds is not None:
        hours, _, minutes = item.at.partition(":")
        days = tuple(WEEKDAYS.index(day) for day in item.weekdays)
        weekly = Weekly(days, 60 * int(hours) + int(minutes), item.length_seconds, item.time_zone)
    return Exclusion(
        tuple(item.slos),
        item.reason,
        item.by,
        item.starts_at.timestamp() if item.starts_at else -inf,
        item.ends_at.timestamp() if item.ends_at else inf,
        weekly,
    )


def _pairs(config: Config, slo: Slo) -> tuple[BurnPair, ...]:
    own = config.burn.windows
    pairs = tuple(BurnPair(w.severity, w.tier, w.short_seconds, w.long_seconds, w.factor) for w in own)
    pairs = pairs or pairs_for(slo.objective_ratio, _period_seconds(slo))
    return tuple(pair for pair in pairs if pair.severity == "ticket" or not slo.tickets_only)


def _facts(config: Config, target: Target) -> TargetFacts:
    return TargetFacts(
        model=target.model or "",
        role=target.role or "aggregated",
        service=_service(config, target),
        dollars_per_second=_dollars_per_second(config, target),
        labels=target.labels,
        role_is_said=target.role is not None,
        url=target.url,
        gpu_type=target.gpu_type,
        engine_args=engine_args(target.engine_args)[0],
    )


def _dollars_per_second(config: Config, target: Target) -> float | None:
    """Of an engine unknown without a gpu_type; routers and exporters cost nothing of their own."""
    prices = config.prices
    if target.kind not in ENGINES:
        return prices.kv_tier_hour_dollars / 3600 if target.kind in ("lmcache", "mooncake") else 0.0
    gpu = prices.gpu_hour_dollars.get(target.gpu_type) if target.gpu_type else None
    return None if gpu is None else (gpu * target.gpus + prices.node_hour_dollars) / 3600


def _service(config: Config, target: Target) -> str | None:
    """The service it belongs to: where all SLOs are one service's, that; None where nobody says."""
    named = {slo.service for slo in config.slos}
    return target.service or (named.pop() if len(named) == 1 else None)


def _discovered(found: Found) -> Target:
    """A discovered target: labels named like our fields fill them, the others are kept for people."""
    labels, said = dict(found.labels), role_of(found.labels)
    name = labels.pop("name", found.address.replace(":", "-"))
    scheme, path = labels.pop("__scheme__", "http"), labels.pop("__metrics_path__", "/metrics")
    gpus = labels.pop("gpus", "")
    if said is not None and not said[1].startswith("role="):
        labels.setdefault("role_evidence", said[1])
    labels.pop("role", None)
    return Target(
        name=name,
        url=f"{scheme}://{found.address}",
        kind=_kind(labels.pop("kind", "vllm")),
        metrics_path=path,
        model=labels.pop("model", None),
        role=said[0] if said else None,
        service=labels.pop("service", None),
        gpus=max(1, int(gpus)) if gpus.isdecimal() else 1,
        gpu_type=labels.pop("gpu_type", None),
        engine_args=labels.pop("engine_args", ""),
        labels=labels,
    )


def _kind(said: str) -> System:
    """What a label names; vLLM where it names nothing we know."""
    return next((system for system in BOOKS if system == said), "vllm")


def _headers(auth: Auth | None) -> dict[str, str]:
    if auth is None:
        return {}
    token = auth.token()
    return auth.headers() | ({"Authorization": f"Bearer {token}"} if token else {})


def _route(auth: Auth | None) -> Route:
    """How canaries and looks at its page get there, with the secrets of now."""
    if auth is None:
        return Route()
    return Route(
        headers=tuple(auth.headers().items()),
        ca_file=_path(auth.ca_file),
        client_cert_file=_path(auth.client_cert_file),
        client_key_file=_path(auth.client_key_file),
        proxy_url=auth.proxy_url,
        proxy_auth=auth.proxy_auth() or None,
    )


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
