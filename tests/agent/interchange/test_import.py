"""Foreign specs become SLOs of ours by the series they read; what cannot be one is told with its reason."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.cli import main
from agent.config_file import parse_config

TARGET = "targets: [{name: vllm-0, url: 'http://vllm-0:8000'}]\n"
BUCKET = 'vllm:time_to_first_token_seconds_bucket{model_name="m",le="2.5"}'
COUNT = 'vllm:time_to_first_token_seconds_count{model_name="m"}'

SLOTH = f"""
version: prometheus/v1
service: shop
slos:
  - name: ttft
    objective: 99.5
    sli:
      events:
        error_query: sum(rate({COUNT}[{{{{.window}}}}])) - sum(rate({BUCKET}[{{{{.window}}}}]))
        total_query: sum(rate({COUNT}[{{{{.window}}}}]))
    alerting: {{page_alert: {{disable: true}}}}
"""
SLOTH_KUBERNETES = """
apiVersion: sloth.slok.dev/v1
kind: PrometheusServiceLevel
metadata: {name: shop}
spec:
  service: shop
  slos:
    - name: answers
      objective: 99.9
      sli:
        events:
          errorQuery: sum(rate(vllm:request_success_total{finished_reason=~"abort|error"}[{{.window}}]))
          totalQuery: sum(rate(vllm:request_success_total[{{.window}}]))
"""
PYRRA = """
apiVersion: pyrra.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: shop-e2e, labels: {pyrra.dev/service: shop}}
spec:
  target: '95'
  window: 4w
  indicator:
    latency:
      success: {metric: 'vllm:e2e_request_latency_seconds_bucket{le="30"}'}
      total: {metric: vllm:e2e_request_latency_seconds_count}
"""
OPENSLO = f"""
apiVersion: openslo/v1
kind: SLI
metadata: {{name: first-token}}
spec:
  ratioMetric:
    counter: true
    good: {{metricSource: {{type: Prometheus, spec: {{query: 'sum({BUCKET})'}}}}}}
    total: {{metricSource: {{type: Prometheus, spec: {{query: 'sum({COUNT})'}}}}}}
---
apiVersion: openslo/v1
kind: SLO
metadata: {{name: first-token-slo}}
spec:
  service: shop
  indicatorRef: first-token
  timeWindow: [{{duration: 1M, isRolling: false, calendar: {{timeZone: Europe/Berlin}}}}]
  budgetingMethod: Occurrences
  objectives: [{{target: 0.99}}, {{targetPercent: 95}}]
  alertPolicies:
    - kind: AlertPolicy
      metadata: {{name: fast}}
      spec:
        conditions:
          - kind: AlertCondition
            metadata: {{name: c}}
            spec: {{severity: page, condition: {{kind: burnrate, op: lte, threshold: 14.4, lookbackWindow: 1h}}}}
"""


def imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *texts: str, code: int = 0
) -> tuple[dict[str, Any], str]:
    """The YAML that is printed, which our config takes, and what is said beside it."""
    files = []
    for place, text in enumerate(texts):
        files.append(tmp_path / f"{place}.yaml")
        files[-1].write_text(text, encoding="utf-8")
    assert main(["slos", "import", *map(str, files)]) == code
    said = capsys.readouterr()
    parse_config(TARGET + said.out, "imported")
    return yaml.safe_load(said.out) or {}, said.err


def test_sloth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, said = imported(tmp_path, capsys, SLOTH, SLOTH_KUBERNETES)
    assert tree["slos"] == [
        {
            "name": "ttft", "service": "shop", "sli": "ttft", "threshold_seconds": 2.5, "model": "m",
            "objective_ratio": 0.995, "tickets_only": True,
        },
        {
            "name": "answers", "service": "shop", "sli": "availability", "threshold_seconds": 480.0,
            "objective_ratio": 0.999,
        },
    ]  # fmt: skip
    assert "the period is taken to be 30 days" in said


def test_pyrra(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, _ = imported(tmp_path, capsys, PYRRA)
    assert tree["slos"] == [
        {
            "name": "shop-e2e", "service": "shop", "sli": "e2e", "threshold_seconds": 30.0, "objective_ratio": 0.95,
            "period_seconds": 28 * 86_400.0,
        }
    ]  # fmt: skip


def test_openslo_with_a_reference_a_calendar_and_a_lone_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two objectives are two SLOs; a burn window of an hour gets the short one of 5 minutes, and both are told."""
    tree, said = imported(tmp_path, capsys, OPENSLO)
    month = {"calendar": "month", "time_zone": "Europe/Berlin"}
    promise = {"service": "shop", "sli": "ttft", "threshold_seconds": 2.5, "model": "m"}
    assert tree["slos"] == [
        {"name": "first-token-slo-1", **promise, "objective_ratio": 0.99, **month},
        {"name": "first-token-slo-2", **promise, "objective_ratio": 0.95, **month},
    ]
    assert tree["burn"]["windows"] == [
        {"tier": "fast", "severity": "page", "short_seconds": 300.0, "long_seconds": 3600.0, "factor": 14.4}
    ]
    assert "op lte of a burn rate is read as: alerts above" in said
    assert "no short one: 300 s" in said


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (COUNT, "http_requests_total", "reads no series of vLLM's"),
        ('le="2.5"', 'le="+Inf"', "must name one bucket"),
        ("99.5", "100", "it leaves no budget"),
        ("99.5", "high", 'objective is "high"; expected a number'),
        ("events:", "plugin: {id: x}\n      events:", "an SLI plugin's queries stand elsewhere"),
    ],
)
def test_what_of_sloth_cannot_be_mapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, why: str
) -> None:
    text = SLOTH.replace(old, new).replace(BUCKET, new if old == COUNT else BUCKET)
    tree, said = imported(tmp_path, capsys, text, code=2)
    assert tree == {}
    assert why in said
    assert 'Sloth SLO "ttft"' in said


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Occurrences", "Timeslices", "counts slices of time"),
        ("apiVersion: openslo/v1", "apiVersion: openslo/v1alpha", "openslo/v1alpha is not read"),
        ("target: 0.99", "target: 99", "target is 99: expected a ratio"),
        ("duration: 1M", "duration: 2M", "a calendar period of 2M is none of"),
        ("indicatorRef: first-token", "indicatorRef: another", "it has no indicator"),
    ],
)
def test_what_of_openslo_cannot_be_mapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, why: str
) -> None:
    tree, said = imported(tmp_path, capsys, OPENSLO.replace(old, new), code=2)
    assert tree == {}
    assert why in said


def test_what_can_be_mapped_is_printed_beside_what_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, said = imported(tmp_path, capsys, PYRRA, "kind: Pod\napiVersion: v1\n", "[1", code=2)
    assert [slo["name"] for slo in tree["slos"]] == ["shop-e2e"]
    assert "v1 is none of openslo/v1" in said
    assert "is no YAML" in said


CONFIG = """
targets: [{name: vllm-0, url: "http://vllm-0:8000"}]
slos:
  - {name: Chat_TTFT.1, service: shop, sli: ttft, objective_ratio: 0.95, threshold_seconds: 2.5, model: m}
  - {name: up, sli: availability, objective_ratio: 0.999, threshold_seconds: 300, calendar: week, policy: stop}
  - {name: seen, sli: availability, source: canary, objective_ratio: 0.99, epoch: 2026-01-31T12:00:00Z}
  - {name: both, sli: goodput, objective_ratio: 0.9, period_seconds: 604800}
"""


WINDOWS = "burn: {windows: [{severity: page, tier: slow, short_seconds: 600, long_seconds: 7200, factor: 6}]}\n"


@pytest.mark.parametrize("windows", ["", WINDOWS])
def test_what_we_export_comes_back_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str], windows: str) -> None:
    (tmp_path / "agent.yaml").write_text(CONFIG + windows, encoding="utf-8")
    assert main(["slos", "export", "-c", str(tmp_path / "agent.yaml")]) == 0
    exported = capsys.readouterr().out
    tree, said = imported(tmp_path, capsys, exported)
    first, again = parse_config(CONFIG + windows, "f"), parse_config(TARGET + yaml.safe_dump(tree), "g")
    assert again.slos == first.slos
    assert again.burn == first.burn
    assert said == ""


def test_the_export_is_openslo_v1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.yaml").write_text(CONFIG, encoding="utf-8")
    assert main(["slos", "export", "-c", str(tmp_path / "agent.yaml")]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    slo = next(d for d in documents if d["kind"] == "SLO")
    assert {d["apiVersion"] for d in documents} == {"openslo/v1"}
    assert slo["metadata"]["name"] == "chat-ttft-1"
    metric = slo["spec"]["indicator"]["spec"]["ratioMetric"]
    assert metric["good"]["metricSource"]["spec"]["query"] == f"sum({BUCKET})"
    assert metric["total"]["metricSource"]["spec"]["query"] == f"sum({COUNT})"
    assert slo["spec"]["timeWindow"] == [{"duration": "30d", "isRolling": True}]
    assert all(len(policy["spec"]["conditions"]) == 1 for policy in slo["spec"]["alertPolicies"])
    del slo["metadata"]["annotations"]
    tree, _ = imported(tmp_path, capsys, yaml.safe_dump(slo))
    assert tree["slos"][0]["threshold_seconds"] == 2.5, "another's reader finds the same promise in the queries"
