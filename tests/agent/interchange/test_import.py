"""Foreign specs become SLOs of ours by the series they read; what cannot be one is told with its reason."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.cli import main
from agent.config_file import parse_config
from agent.interchange.queries import UnmappableError, promise_of

TARGET = "targets: [{name: vllm-0, url: 'http://vllm-0:8000'}]\n"
BUCKET = 'vllm:time_to_first_token_seconds_bucket{model_name="m",le="2.5"}'
WITHIN = r'vllm:time_to_first_token_seconds_bucket{model_name="m",le=~"2\\.50*"}'
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
        ("Occurrences", "RatioTimeslices", "adds up parts of slices"),
        ("Occurrences", "Timeslices", "needs timeSliceTarget in each objective"),
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


@pytest.mark.parametrize("junk", ["5", "x", "{a: 1}", "[5]", "[null]", "[[]]", ".nan", "1e400", "-1"])
@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("version: prometheus/v1\nslos: JUNK\n", "slos"),
        (OPENSLO, "[{target: 0.99}, {targetPercent: 95}]"),
        (OPENSLO, "[{duration: 1M, isRolling: false, calendar: {timeZone: Europe/Berlin}}]"),
        (OPENSLO, "14.4"),
        (OPENSLO, "1h"),
        (OPENSLO.split("alertPolicies:", maxsplit=1)[0] + "alertPolicies: JUNK", "alertPolicies"),
        (OPENSLO.split("conditions:", maxsplit=1)[0] + "conditions: JUNK", "conditions"),
        (OPENSLO.replace("name: fast}", "name: fast, annotations: {vllm-slo-agent/short_seconds: JUNK}}"), "short"),
        (OPENSLO.replace("slo}", "slo, annotations: {vllm-slo-agent/slo: 'JUNK'}}"), "ours"),
    ],
)
def test_junk_in_a_spec_is_told_and_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, old: str, junk: str
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text.replace("JUNK", junk) if "JUNK" in text else text.replace(old, junk), encoding="utf-8")
    code, said = main(["slos", "import", str(path)]), capsys.readouterr()
    assert code == 2 or junk == "5"  # which some of these fields may be
    assert (code == 2) == ("expected" in said.err or 'SLO "' in said.err or "no SLO in" in said.err)
    parse_config(TARGET + said.out, "imported")


@pytest.mark.parametrize(
    ("latency", "seconds"), [("500ms", 0.5), ("2.5s", 2.5), ("1m30s", 90.0), ("2", None), ("1d", None), ("s", None)]
)
def test_pyrras_native_latency_is_a_duration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], latency: str, seconds: float | None
) -> None:
    native = f"latencyNative: {{latency: '{latency}', total: {{metric: 'vllm:e2e_request_latency_seconds'}}}}"
    text = PYRRA.split("    latency:", maxsplit=1)[0] + f"    {native}\n"
    tree, said = imported(tmp_path, capsys, text, code=0 if seconds else 2)
    assert [slo["threshold_seconds"] for slo in tree.get("slos", [])] == ([seconds] if seconds else [])
    assert ("expected a duration such as 500ms" in said) == (seconds is None)


@pytest.mark.parametrize(
    ("matcher", "seconds"),
    [
        ('le=~"2.5|5"', None), ('le="2.5abc"', None), ('le="500m"', None), ('le=~"2.*"', None), ('le!="2.5"', None),
        ('le=~"1(\\\\.0)?"', 1.0), ('le=~"30(\\\\.0*)?"', 30.0), ('le=~"2\\\\.50*"', 2.5),
        ('le="0*"', None), ('le=~"10*"', None), ('le=~"1|1.0"', 1.0), ('le="1e-3"', 0.001), ('le=~"2.5"', 2.5),
    ],
)  # fmt: skip
def test_a_bucket_matcher_names_one_bucket_or_none(matcher: str, seconds: float | None) -> None:
    query = f"sum(rate(vllm:time_to_first_token_seconds_bucket{{{matcher}}}[5m]))"
    if seconds is None:
        with pytest.raises(UnmappableError, match="no one bucket"):
            promise_of([query])
    else:
        assert promise_of([query])["threshold_seconds"] == seconds


def test_several_models_are_no_promise_about_all() -> None:
    for other in ('model_name="b"', 'model_name=~"a|b"', 'model_name!="b"'):
        with pytest.raises(UnmappableError, match="names no one model"):
            promise_of([BUCKET, f"vllm:time_to_first_token_seconds_count{{{other}}}"])
    assert "model" not in promise_of([BUCKET.replace('="m"', '=~".+"'), "vllm:time_to_first_token_seconds_count"])


def test_an_alert_policy_that_is_in_no_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its windows would silently be ours instead."""
    text = OPENSLO.split("    - kind: AlertPolicy", maxsplit=1)[0] + "    - alertPolicyRef: page-fast\n"
    _, said = imported(tmp_path, capsys, text)
    assert "alert policy page-fast is in none of the files" in said


def test_what_can_be_mapped_is_printed_beside_what_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, said = imported(tmp_path, capsys, PYRRA, "kind: Pod\napiVersion: v1\n", "[1", code=2)
    assert [slo["name"] for slo in tree["slos"]] == ["shop-e2e"]
    assert "v1 is none of openslo/v1" in said
    assert "is no YAML" in said


def test_a_file_that_is_no_spec_is_told_what_specs_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = imported(tmp_path, capsys, "targets: []\n", code=2)
    assert "a document names no apiVersion; known are openslo/v1, version: prometheus/v1 (Sloth) and pyrra.dev" in said


CONFIG = """
targets: [{name: vllm-0, url: "http://vllm-0:8000"}]
slos:
  - {name: Chat_TTFT.1, service: shop, sli: ttft, objective_ratio: 0.95, threshold_seconds: 2.5, model: m}
  - {name: up, sli: availability, objective_ratio: 0.999, threshold_seconds: 300, calendar: week, policy: stop}
  - {name: seen, sli: availability, source: canary, objective_ratio: 0.99, epoch: 2026-01-31T12:00:00Z}
  - {name: minutes, sli: ttft, objective_ratio: 0.99, threshold_seconds: 1, slice_seconds: 300, slice_good_ratio: 0.95}
  - {name: paces, sli: tpot, objective_ratio: 0.99, threshold_seconds: 0.05, slice_seconds: 300, slice_good_ratio: 0.9}
  - {name: all-minutes, sli: composite, objective_ratio: 0.9, all_of: [minutes, paces]}
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
    assert metric["good"]["metricSource"]["spec"]["query"] == f"sum({WITHIN})"
    assert metric["total"]["metricSource"]["spec"]["query"] == f"sum({COUNT})"
    assert slo["spec"]["timeWindow"] == [{"duration": "30d", "isRolling": True}]
    assert all(len(policy["spec"]["conditions"]) == 1 for policy in slo["spec"]["alertPolicies"])
    del slo["metadata"]["annotations"]
    tree, _ = imported(tmp_path, capsys, yaml.safe_dump(slo))
    assert tree["slos"][0]["threshold_seconds"] == 2.5, "another's reader finds the same promise in the queries"


@pytest.mark.parametrize(
    ("selected", "matcher"),
    [('engine: "1"', 'engine="1"'), ("labels: {tier: premium}", 'tier="premium"'), ("role: decode", 'role="decode"')],
)
def test_what_an_slo_selects_stands_in_its_exported_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], selected: str, matcher: str
) -> None:
    """Another's reader would count every engine otherwise. vLLM writes le="30.0", Prometheus 2 keeps what it finds."""
    slo = f"{{name: x, sli: e2e, objective_ratio: 0.95, threshold_seconds: 30, {selected}}}"
    (tmp_path / "agent.yaml").write_text(f"{TARGET}slos: [{slo}]\n", encoding="utf-8")
    assert main(["slos", "export", "-c", str(tmp_path / "agent.yaml")]) == 0
    exported = next(d for d in yaml.safe_load_all(capsys.readouterr().out) if d["kind"] == "SLO")
    for part in exported["spec"]["indicator"]["spec"]["ratioMetric"].values():
        assert part is True or matcher in part["metricSource"]["spec"]["query"]
    good = exported["spec"]["indicator"]["spec"]["ratioMetric"]["good"]["metricSource"]["spec"]["query"]
    pattern = re.search(r'le=~"([^"]*)"', good)
    assert pattern is not None
    assert all(re.fullmatch(pattern[1].replace("\\\\", "\\"), edge) for edge in ("30", "30.0"))


def test_openslo_time_slices_are_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read from its own fields, and written so that another's reader finds them."""
    sliced = "timeSliceTarget: 0.95, timeSliceWindow: 5m"
    text = OPENSLO.replace("Occurrences", "Timeslices").replace("[{target", f"[{{{sliced}, target")
    text = text.replace("{targetPercent", f"{{{sliced.replace('5m', '5')}, targetPercent")
    tree, _ = imported(tmp_path, capsys, text)
    assert [(slo["slice_seconds"], slo["slice_good_ratio"]) for slo in tree["slos"]] == [(300.0, 0.95)] * 2
    (tmp_path / "agent.yaml").write_text(CONFIG, encoding="utf-8")
    assert main(["slos", "export", "-c", str(tmp_path / "agent.yaml")]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    spec = next(d["spec"] for d in documents if d["metadata"]["name"] == "minutes")
    assert spec["budgetingMethod"] == "Timeslices"
    assert spec["objectives"][0]["timeSliceTarget"] == 0.95
    assert spec["objectives"][0]["timeSliceWindow"] == "5m"
