"""The JSON that people script against: keys, order, and what unknown looks like."""

import json
import math
from dataclasses import fields

import pytest

from agent.model import (
    Alert,
    Budget,
    Burn,
    BurnPair,
    Counts,
    Evidence,
    Figure,
    Latency,
    Recommendation,
    Slo,
    SloStatus,
    Snapshot,
    TargetStatus,
)
from agent.outputs.jsonable import (
    alert_json,
    recommendation_json,
    signals_json,
    slo_json,
    snapshot_json,
    target_json,
)
from agent.signals.model import Level, Signals

PAIR = BurnPair("page", "fast", 300.0, 3600.0, 14.4)
SLO = Slo("chat-ttft", "chat", "ttft", "engine", 0.99, 2_592_000.0, (PAIR,), threshold_seconds=2.0)
ADVICE = Recommendation(
    id="r-1",
    at_seconds=1000.0,
    model="m",
    role="aggregated",
    action="scale",
    current=2.0,
    proposed=3.0,
    low=3.0,
    high=4.0,
    reason_code="sustained_queueing",
    binding="queue",
    summary="Scale m from 2 to 3",
    confidence=0.7,
    meets_slo=None,
    evidence=(Evidence("requests_waiting", 300.0, 12.0), Evidence("ttft_seconds", 300.0, None)),
    alternatives=({"setting": "4", "ttft_p95_seconds": math.inf, "meets_slo": True},),
    do_nothing={"ttft_p95_seconds": math.nan},
    side_effects=("cold start",),
    steps=("kubectl scale",),
    rollback="scale back",
    verify_at_seconds=1600.0,
)
ALERT = Alert((("alertname", "SLOBurnRate"), ("slo", "chat-ttft")), {"summary": "burning"}, 900.0)


def test_a_recommendation_has_exactly_the_promised_keys_in_their_order() -> None:
    assert list(recommendation_json(ADVICE)) == [
        "id", "at", "target", "action", "current", "proposed", "low", "high", "reason_code", "binding", "summary",
        "confidence", "meets_slo", "evidence", "alternatives", "do_nothing", "side_effects", "steps", "rollback",
        "verify_at", "verdict",
    ]  # fmt: skip


def test_a_recommendation_keeps_unknown_apart_from_zero_and_no() -> None:
    """Infinity and NaN have no JSON number; both mean that no figure can be given."""
    shape = recommendation_json(ADVICE)
    assert shape["target"] == {"model": "m", "role": "aggregated"}
    assert (shape["at"], shape["verify_at"], shape["meets_slo"]) == (1000.0, 1600.0, None)
    assert shape["evidence"] == [
        {"signal": "requests_waiting", "window_seconds": 300.0, "value": 12.0},
        {"signal": "ttft_seconds", "window_seconds": 300.0, "value": None},
    ]
    assert shape["alternatives"] == [{"setting": "4", "ttft_p95_seconds": None, "meets_slo": True}]
    assert shape["do_nothing"] == {"ttft_p95_seconds": None}


@pytest.mark.parametrize(("ends_at", "state"), [(None, "firing"), (950.0, "resolved")])
def test_an_alert_says_whether_it_fires(ends_at: float | None, state: str) -> None:
    alert = Alert(ALERT.labels, ALERT.annotations, 900.0, ends_at)
    assert alert_json(alert) == {
        "state": state,
        "labels": {"alertname": "SLOBurnRate", "slo": "chat-ttft"},
        "annotations": {"summary": "burning"},
        "starts_at": 900.0,
        "ends_at": ends_at,
    }


def test_an_slo_brings_the_counts_behind_its_rates() -> None:
    """20 of 1000 bad at a budget of 1 %: the long window burns twice as fast as allowed; the short one saw nothing."""
    burn = Burn(PAIR, None, 2.0, Counts(), Counts(970.0, 20.0, 10.0), is_burning=False, reason="no_events")
    shape = slo_json(SloStatus(SLO, "ok", (burn,), Budget(None, Counts(), 0.0), None))
    assert shape["budget"] == {
        "remaining_ratio": None,
        "observed_remaining_ratio": None,
        "coverage_ratio": 0.0,
        "counts": {"good": 0.0, "bad": 0.0, "undecided": 0.0, "total": 0.0},
        "violated_minutes": None,
        "empty_slices": None,
        "violation_dollars": None,
    }
    assert shape["burns"] == [
        {
            "severity": "page", "tier": "fast", "short_seconds": 300.0, "long_seconds": 3600.0, "factor": 14.4,
            "short_rate": None, "long_rate": 2.0,
            "short_counts": {"good": 0.0, "bad": 0.0, "undecided": 0.0, "total": 0.0},
            "long_counts": {"good": 970.0, "bad": 20.0, "undecided": 10.0, "total": 1000.0},
            "is_burning": False, "reason": "no_events", "coverage_ratio": 1.0,
            "spent_ratio": None,
        }
    ]  # fmt: skip
    assert (shape["name"], shape["state"], shape["last_event_at"]) == ("chat-ttft", "ok", None)


def test_signals_keep_every_field_under_its_own_name() -> None:
    shape = signals_json(Signals(60.0))
    assert list(shape) == [field.name for field in fields(Signals)]
    assert shape["ttft_seconds"] is None
    assert shape["requests_finished_by_reason"] == {}


def test_signals_carry_figures_with_their_bounds() -> None:
    """A p99 in a histogram's last bucket has a low, but neither value nor high."""
    p99 = Figure(None, 10.0, None, 100.0)
    signals = Signals(
        60.0,
        ttft_seconds=Latency(None, None, None, p99, 0.5, 100.0),
        kv_usage_ratio=Level(0.5, 0.9, 0.4),
        over_threshold_ratio={"itl_seconds>0.05": Figure(0.0195, 0.0195, 0.0195, 1000.0)},
    )
    shape = signals_json(signals)
    assert shape["ttft_seconds"] == {
        "p50": None, "p90": None, "p95": None,
        "p99": {"value": None, "low": 10.0, "high": None, "count": 100.0, "ci_low": None, "ci_high": None},
        "mean": 0.5, "count": 100.0,
    }  # fmt: skip
    assert shape["kv_usage_ratio"] == {"mean": 0.5, "max": 0.9, "last": 0.4}
    assert json.loads(json.dumps(shape, allow_nan=False))["over_threshold_ratio"]["itl_seconds>0.05"]["low"] == 0.0195


def test_a_snapshot_is_one_document_of_plain_values() -> None:
    target = TargetStatus(
        "vllm-0", "vllm", "unknown", None, "connect_refused", "refused", "m", "aggregated", {"a": "b"}
    )
    status = SloStatus(SLO, "no_data", (), Budget(None, Counts(), 0.0), None)
    shape = snapshot_json(Snapshot(1000.0, (status,), (target,), (ALERT,), (ADVICE,)))
    again = json.loads(json.dumps(shape, allow_nan=False))
    assert again == shape
    assert again["targets"] == [target_json(target)]
    assert again["targets"][0]["last_seen"] is None
