"""Core types as plain values for JSON, in the shapes people script against; the one place that knows them.

Every function returns dicts, lists, strings, numbers, booleans and None only: `json.dumps(..., allow_nan=False)` takes
it. What is not known, and what JSON has no number for (NaN, infinity), is None. Stamps are unix seconds.
"""

import math
from collections.abc import Mapping
from dataclasses import fields

from agent.model import (
    Alert,
    Burn,
    Counts,
    Figure,
    Latency,
    LearnedEngine,
    Recommendation,
    ReplicaWish,
    Silence,
    SloStatus,
    Snapshot,
    TargetStatus,
)
from agent.signals.model import Economics, KvTransfer, Level, ObjectStore, PdService, RouterWork, Signals, Workload

Json = dict[str, object]
"""What every function here returns: one JSON object."""


def snapshot_json(snapshot: Snapshot) -> Json:
    """The state after one tick: `at`, and the lists `slos`, `targets`, `alerts`, `recommendations`, `replicas` (what
    each model and role should have) and `capacity`.
    """
    return {
        "at": snapshot.at_seconds,
        "slos": [slo_json(status) for status in snapshot.slos],
        "targets": [target_json(target) for target in snapshot.targets],
        "alerts": [alert_json(alert) for alert in snapshot.alerts],
        "recommendations": [recommendation_json(recommendation) for recommendation in snapshot.recommendations],
        "replicas": [wish_json(wish) for wish in snapshot.replicas],
        "capacity": [learned_json(learned) for learned in snapshot.capacity],
    }


def wish_json(wish: ReplicaWish) -> Json:
    """How many replicas one model and role should have, and why so many."""
    return {
        "target": {"model": wish.model, "role": wish.role},
        "current": wish.current,
        "value": wish.value,
        "low": wish.low,
        "high": wish.high,
        "confidence": wish.confidence,
        "reason": wish.reason,
        "rate_per_second": wish.rate_per_second,
    }


def slo_json(status: SloStatus) -> Json:
    """One SLO: its promise, state, budget and burn pairs, with the counts that each was computed from."""
    slo = status.slo
    return {
        "name": slo.name,
        "service": slo.service,
        "sli": slo.sli,
        "source": slo.source,
        "model": slo.model,
        "role": slo.role,
        "engine": slo.engine,
        "target_labels": dict(slo.target_labels),
        "objective_ratio": slo.objective_ratio,
        "period_seconds": slo.period_seconds,
        "threshold_seconds": slo.threshold_seconds,
        "ttft_seconds": slo.ttft_seconds,
        "tpot_seconds": slo.tpot_seconds,
        "undecided": slo.undecided,
        "slice_seconds": slo.slice_seconds,
        "slice_good_ratio": slo.slice_good_ratio,
        "all_of": list(slo.all_of),
        "min_bad_events": slo.min_bad_events,
        "runbook_url": slo.runbook_url,
        "state": status.state,
        "silence": _plain(status.silence),
        "last_event_at": _plain(status.last_event_at_seconds),
        "budget": {
            "remaining_ratio": _plain(status.budget.remaining_ratio),
            "observed_remaining_ratio": _plain(status.budget.observed_remaining_ratio),
            "coverage_ratio": _plain(status.budget.coverage_ratio),
            "counts": _plain(status.budget.counts),
            "violated_minutes": _plain(status.budget.violated_minutes),
            "empty_slices": _plain(status.budget.empty_slices),
            "violation_dollars": _plain(_violation_dollars(status)),
        },
        "burns": [_burn_json(burn) for burn in status.burns],
        "calendar": slo.calendar,
        "time_zone": slo.time_zone,
        "epoch": slo.epoch_seconds,
        "policy": slo.policy,
        "exclusions": [
            {
                "from": one.from_seconds,
                "to": one.to_seconds,
                "reason": one.reason,
                "by": one.by,
                "counts": _plain(one.counts),
            }
            for one in status.excluded
        ],
    }


def target_json(target: TargetStatus) -> Json:
    """One target; `last_seen` is None where it never answered."""
    return {
        "name": target.name,
        "source": target.source,
        "health": target.health,
        "last_seen": _plain(target.last_seen_seconds),
        "last_outcome": target.last_outcome,
        "detail": target.detail,
        "model": target.model,
        "role": target.role,
        "labels": dict(target.labels),
    }


def learned_json(learned: LearnedEngine) -> Json:
    """What one kind of engine has shown of its step time."""
    return {field.name: _plain(getattr(learned, field.name)) for field in fields(learned)}


def alert_json(alert: Alert) -> Json:
    """One alert; `ends_at` is None while it fires."""
    return {
        "state": "firing" if alert.is_firing else "resolved",
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "starts_at": alert.starts_at_seconds,
        "ends_at": _plain(alert.ends_at_seconds),
    }


def recommendation_json(recommendation: Recommendation) -> Json:
    """One recommendation, with exactly the keys that are promised to scripts, in their order."""
    return {
        "id": recommendation.id,
        "at": recommendation.at_seconds,
        "target": {"model": recommendation.model, "role": recommendation.role},
        "action": recommendation.action,
        "current": _plain(recommendation.current),
        "proposed": _plain(recommendation.proposed),
        "low": _plain(recommendation.low),
        "high": _plain(recommendation.high),
        "reason_code": recommendation.reason_code,
        "binding": recommendation.binding,
        "summary": recommendation.summary,
        "confidence": _plain(recommendation.confidence),
        "meets_slo": recommendation.meets_slo,
        "evidence": [
            {"signal": item.signal, "window_seconds": item.window_seconds, "value": _plain(item.value)}
            for item in recommendation.evidence
        ],
        "alternatives": _plain(recommendation.alternatives),
        "do_nothing": _plain(recommendation.do_nothing),
        "side_effects": list(recommendation.side_effects),
        "steps": list(recommendation.steps),
        "rollback": recommendation.rollback,
        "verify_at": recommendation.verify_at_seconds,
        "verdict": recommendation.verdict,
    }


def signals_json(signals: Signals) -> Json:
    """Every field of `Signals` under its own name; figures, latencies and levels as objects, unknown as None."""
    return {field.name: _plain(getattr(signals, field.name)) for field in fields(signals)}


def figure_json(figure: Figure | None) -> Json | None:
    """A figure with its bounds; None stays None."""
    if figure is None:
        return None
    return {field.name: _plain(getattr(figure, field.name)) for field in fields(figure)}


def _violation_dollars(status: SloStatus) -> float | None:
    minutes, price = status.budget.violated_minutes, status.slo.violated_minute_dollars
    return None if minutes is None or price is None else minutes * price


def _burn_json(burn: Burn) -> Json:
    return {
        "severity": burn.pair.severity,
        "tier": burn.pair.tier,
        "short_seconds": burn.pair.short_seconds,
        "long_seconds": burn.pair.long_seconds,
        "factor": burn.pair.factor,
        "short_rate": _plain(burn.short_rate),
        "long_rate": _plain(burn.long_rate),
        "short_counts": _plain(burn.short_counts),
        "long_counts": _plain(burn.long_counts),
        "is_burning": burn.is_burning,
        "reason": burn.reason,
        "coverage_ratio": _plain(burn.coverage_ratio),
        "spent_ratio": _plain(burn.spent_ratio),
    }


def _plain(value: object) -> object:
    match value:
        case float():
            plain: object = value if math.isfinite(value) else None
        case Counts():
            plain = {"good": value.good, "bad": value.bad, "undecided": value.undecided, "total": value.total}
        case (
            Figure()
            | Latency()
            | Level()
            | KvTransfer()
            | PdService()
            | RouterWork()
            | ObjectStore()
            | Silence()
            | Workload()
            | Economics()
        ):
            plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case Mapping():
            plain = {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            plain = [_plain(inner) for inner in value]
        case _:
            plain = value
    return plain
