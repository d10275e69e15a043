"""What is read of an export: each request exactly, and nothing that cannot be true."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from span_bodies import START_SECONDS, captured, export, named_span, span

from probes.spans.decode import Decoded, decode_export
from probes.spans.limits import SpanLimits
from probes.spans.request_id import CANARY_PREFIX
from probes.spans.result import SpanResult, read_span, span_body

CANARIES = Path(__file__).parents[3] / "probes" / "canary"

# The captured run, read by eye from the attributes: TTFT, decode time (32 tokens each) and prompt of requests 0 to 11.
CAPTURED_MS_TOKENS = (
    (28.248, 123.419, 128),
    (51.072, 107.993, 128),
    (50.787, 107.993, 128),
    (12.761, 118.544, 128),
    (31.249, 100.350, 128),
    (29.938, 100.350, 130),
    (15.412, 101.754, 129),
    (25.676, 92.647, 128),
    (25.623, 92.647, 130),
    (11.679, 99.243, 128),
    (20.318, 86.780, 128),
    (20.268, 86.780, 128),
)


def decoded(body: bytes, **limits: int) -> Decoded:
    return decode_export(body, SpanLimits(**limits))


def only(**changed: Any) -> SpanResult:
    (result,) = decoded(export([span(**changed)])).spans
    return result


def test_reads_the_captured_run_request_by_request() -> None:
    spans = decoded(captured("004")).spans
    assert [one.client_request_id for one in spans] == [f"bench-334c8b08-{number}" for number in range(12)]
    told = [(one.ttft_seconds, one.tpot_seconds, one.prompt_tokens) for one in spans]
    for (ttft, tpot, prompt), (ttft_ms, decode_ms, tokens) in zip(told, CAPTURED_MS_TOKENS, strict=True):
        assert (ttft, tpot) == pytest.approx((ttft_ms / 1e3, decode_ms / 1e3 / 31), abs=1e-6)
        assert prompt == tokens
    assert {one.output_tokens for one in spans} == {32}
    assert {(one.outcome, one.is_canary, one.model) for one in spans} == {("ok", False, "")}


def test_reads_all_of_the_captured_runs_first_request() -> None:
    first = decoded(captured("004")).spans[0]
    assert (first.trace_id, first.request_id) == ("4f3e77b986eb7a6a78752a010212d878", "cmpl-bench-334c8b08-0-0")
    assert (first.start_at_seconds, first.end_at_seconds) == pytest.approx((1795969397.3801897, 1795969397.531886))
    times = (first.e2e_seconds, first.queue_seconds, first.prefill_seconds, first.decode_seconds)
    assert times == pytest.approx((0.151212692, 0.000033720, 0.018493513, 0.123418643), abs=1e-9)
    assert (first.service, first.instance) == ("unknown_service:python", "80d5582d-9282-4d00-83d8-694f586b67b9")


@pytest.mark.parametrize(("name", "spans", "kinds"), [("001", 3, 3), ("002", 6, 5), ("003", 2, 2)])
def test_counts_the_captured_start_up_spans_by_name(name: str, spans: int, kinds: int) -> None:
    found = decoded(captured(name))
    assert (found.spans, found.others.total(), len(found.others)) == ([], spans, kinds)


def test_reads_a_request() -> None:
    """Ten tokens after the first in 2 s: 0.2 s each."""
    result = only()
    assert result.ttft_seconds == 0.5
    assert result.tpot_seconds == pytest.approx(0.2)
    assert (result.e2e_seconds, result.queue_seconds, result.prefill_seconds, result.decode_seconds) == (
        *(2.5, 0.125, 0.25, 2.0),
    )
    assert (result.prompt_tokens, result.output_tokens, result.cached_tokens) == (100, 11, None)
    assert (result.start_at_seconds, result.end_at_seconds) == (START_SECONDS, START_SECONDS + 2.5)
    assert result.is_ok


def test_reads_the_newer_names() -> None:
    old = {"gen_ai__usage__prompt_tokens": None, "gen_ai__usage__completion_tokens": None}
    new = {"gen_ai__usage__input_tokens": 7, "gen_ai__usage__output_tokens": 5}
    result = only(**old, **new, gen_ai__usage__cache_read__input_tokens=4)
    assert (result.prompt_tokens, result.output_tokens, result.cached_tokens) == (7, 5, 4)
    assert result.tpot_seconds == 0.5


def test_one_token_has_no_pace() -> None:
    result = only(gen_ai__usage__completion_tokens=1, gen_ai__latency__time_in_model_decode=0.0)
    assert (result.tpot_seconds, result.ttft_seconds, result.outcome) == (None, 0.5, "ok")


def test_a_failed_request_has_no_phases() -> None:
    """vLLM fills them with its uptime, of either sign; only the time from arrival to the end is true."""
    uptime = 51_234.5
    result = only(
        gen_ai__usage__completion_tokens=0,
        gen_ai__latency__time_to_first_token=0.0,
        gen_ai__latency__time_in_queue=-uptime,
        gen_ai__latency__time_in_model_prefill=uptime,
        gen_ai__latency__time_in_model_decode=0.0,
    )
    assert result.outcome == "failed"
    phases = (result.ttft_seconds, result.tpot_seconds, result.queue_seconds, result.prefill_seconds)
    assert (*phases, result.decode_seconds) == (None,) * 5
    assert result.e2e_seconds == 2.5


@pytest.mark.parametrize(
    "told", [{"error__type": "timeout"}, {"gen_ai__response__finish_reasons": ["stop", "abort"]}], ids=str
)
def test_a_failure_that_is_told_is_one(told: dict[str, Any]) -> None:
    assert only(**told).outcome == "failed"


def test_a_status_of_error_is_a_failure() -> None:
    failed = span()
    failed.status.code = Status.STATUS_CODE_ERROR
    (result,) = decoded(export([failed])).spans
    assert result.outcome == "failed"


@pytest.mark.parametrize(
    "told",
    [
        {"gen_ai__usage__completion_tokens": 0, "gen_ai__request__n": None},  # an embedding has no tokens either
        {"gen_ai__usage__completion_tokens": None},
    ],
    ids=str,
)
def test_what_is_not_told_is_not_known(told: dict[str, Any]) -> None:
    result = only(**told)
    assert (result.outcome, result.ttft_seconds, result.tpot_seconds) == ("unknown", None, None)


@pytest.mark.parametrize("absurd", [-0.001, float("nan"), float("inf"), -float("inf"), 90_000.0, "0.5", True, [0.5]])
@pytest.mark.parametrize(
    ("attribute", "field"),
    [
        ("gen_ai__latency__time_to_first_token", "ttft_seconds"),
        ("gen_ai__latency__e2e", "e2e_seconds"),
        ("gen_ai__latency__time_in_queue", "queue_seconds"),
        ("gen_ai__latency__time_in_model_prefill", "prefill_seconds"),
        ("gen_ai__latency__time_in_model_decode", "tpot_seconds"),
    ],
)
def test_an_absurd_duration_is_unknown(attribute: str, field: str, absurd: Any) -> None:
    assert getattr(only(**{attribute: absurd}), field) is None


@pytest.mark.parametrize("absurd", [-1, 2**40, 2**63 - 1, 1.5, float("nan"), "11", True])
def test_an_absurd_count_is_unknown(absurd: Any) -> None:
    assert only(gen_ai__usage__completion_tokens=absurd).output_tokens is None


def test_no_phase_outlasts_its_request() -> None:
    """2.5 s in all: 3.4 s may be the difference of two clocks, 3.6 s is an uptime."""
    assert only(gen_ai__latency__time_in_model_prefill=3.4).prefill_seconds == 3.4
    assert only(gen_ai__latency__time_in_model_prefill=3.6).prefill_seconds is None


def test_a_first_token_after_no_time_was_never_measured() -> None:
    assert only(gen_ai__latency__time_to_first_token=0.0).ttft_seconds is None


def test_stamps_of_a_clock_that_was_never_set_are_unknown() -> None:
    early, backwards = span(), span()
    early.start_time_unix_nano = 5
    backwards.end_time_unix_nano = backwards.start_time_unix_nano - 1_000_000
    results = decoded(export([early, backwards])).spans
    assert [(one.start_at_seconds, one.end_at_seconds) for one in results] == [
        (None, START_SECONDS + 2.5),
        (START_SECONDS, None),
    ]


@pytest.mark.parametrize(
    ("request_id", "client"),
    [
        ("cmpl-user-7-0", "user-7"),
        ("chatcmpl-user-7", "user-7"),
        ("embd-user-7-0", "user-7"),
        ("generate-tokens-user-7", "user-7"),
        ("user-7", "user-7"),
        ("", ""),
    ],
)
def test_finds_the_clients_id(request_id: str, client: str) -> None:
    assert only(gen_ai__request__id=request_id).client_request_id == client


@pytest.mark.parametrize(
    ("request_id", "is_canary"),
    [
        ("chatcmpl-slo-canary-1f", True),
        ("cmpl-slo-canary-1f-0", True),
        ("slo-canary-1f", True),
        ("chatcmpl-my-slo-canary-1f", False),
        ("chatcmpl-1f", False),
    ],
)
def test_knows_our_canaries_by_their_id(request_id: str, *, is_canary: bool) -> None:
    assert only(gen_ai__request__id=request_id).is_canary is is_canary


def test_the_canaries_prefix_is_the_one_they_send() -> None:
    sent = re.findall(r'REQUEST_ID_PREFIX: Final = "(.+)"', "".join(file.read_text() for file in CANARIES.glob("*.py")))
    assert sent == [CANARY_PREFIX]


def test_the_resource_says_who_served() -> None:
    who = {
        "service__name": "chat",
        "slo_agent__target": "vllm-0",
        "k8s__pod__name": "chat-7d",
        "llm-d.ai/role": "decode",
    }
    (result,) = decoded(export([span()], **who, model_name="llama")).spans
    said = (result.service, result.target, result.pod, result.role, result.model)
    assert said == ("chat", "vllm-0", "chat-7d", "decode", "llama")


def test_each_span_has_its_own_resource() -> None:
    """Two messages one after the other are one message with both lists: so a Collector's body looks."""
    spans = decoded(export([span()], model="a") + export([span(), span()], model="b")).spans
    assert [one.model for one in spans] == ["a", "b", "b"]


def test_a_bad_span_costs_itself_only() -> None:
    bad = span()
    raw = export([span(), bad, span()])
    found = decoded(raw.replace(b"llm_request", b"llm_\xff\xfequest", 1))  # not UTF-8
    assert (len(found.spans), found.lost) == (2, {"malformed": 1})


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_body_never_gives_a_wrong_request(share: float) -> None:
    whole = export([span() for _ in range(50)])
    found = decoded(whole[: int(len(whole) * share)])
    assert found.lost["malformed"] >= 1
    assert all(one.tpot_seconds == pytest.approx(0.2) for one in found.spans)


def test_100_000_attributes_are_one_oversized_span() -> None:
    many = named_span("llm_request", {f"attribute.{number}": number for number in range(100_000)})
    found = decoded(export([many, span()]))
    assert (len(found.spans), found.lost) == (1, {"oversized": 1})


def test_only_the_first_attributes_are_read() -> None:
    many = named_span("llm_request", {**{f"a{number}": 1 for number in range(128)}, "gen_ai.usage.prompt_tokens": 5})
    (result,) = decoded(export([many])).spans
    assert result.prompt_tokens is None


def test_long_texts_are_cut() -> None:
    assert only(gen_ai__request__id="x" * 10_000).request_id == "x" * 256


def test_spans_beyond_the_limit_are_told() -> None:
    found = decoded(export([span() for _ in range(6)]), spans_per_body=5)
    assert (len(found.spans), found.lost) == (5, {"too_many": 1})


@pytest.mark.parametrize("layer", [b"\x0a\x00", b"\x0a\x02\x12\x00", b"\x0a\x04\x12\x02\x12\x00", b"\x08\x00"])
def test_millions_of_empty_layers_are_not_walked(layer: bytes) -> None:
    """8 MB of them; the limit is generous for a busy machine, and reading all of them takes 20 times as long."""
    body = layer * ((8 << 20) // len(layer))
    began = time.process_time()
    found = decoded(body)
    assert time.process_time() - began < 5
    assert found.lost["too_many"] == 1


def test_a_span_survives_its_recording() -> None:
    result = only(model="llama")
    assert read_span({**span_body(result), "from_a_later_version": 1}) == result


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({}, True),
        ({"gen_ai__latency__time_to_first_token": 0.51}, False),
        ({"gen_ai__latency__time_in_model_decode": 2.01}, False),
        ({"gen_ai__latency__time_to_first_token": None}, None),
        ({"gen_ai__latency__time_to_first_token": None, "gen_ai__latency__time_in_model_decode": 2.01}, False),
        ({"gen_ai__usage__completion_tokens": 1, "gen_ai__latency__time_in_model_decode": 0.0}, True),
        ({"gen_ai__usage__completion_tokens": 0}, False),
        ({"gen_ai__usage__completion_tokens": None}, None),
    ],
    ids=str,
)
def test_good_by_both_thresholds(told: dict[str, Any], verdict: bool | None) -> None:  # noqa: FBT001  a row of the table
    """Thresholds at the good request's own figures: 0.5 s and 0.2 s."""
    assert only(**told).keeps(ttft_seconds=0.5, tpot_seconds=0.2) is verdict


def test_an_empty_export_is_empty() -> None:
    assert decoded(ExportTraceServiceRequest().SerializeToString()) == Decoded()
