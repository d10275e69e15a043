"""What canaries come to, in words: faults that look alike in a health check are told apart, and a fault has a place."""
# ruff: noqa: E501 - a table reads by its lines

import pytest

from agent.findings import Finding, Place, findings
from probes.sample import ProbeResult


def result(
    target: str = "a", kind: str = "chat", outcome: str = "ok", ttft: float | None = 0.1, **more: object
) -> ProbeResult:
    return ProbeResult(target, kind, outcome, 0.0, 0.0, ttft_seconds=ttft, tpot_seconds=0.01, **more)  # type: ignore[arg-type]


MODELS = result(kind="models", ttft=None)


def told(*results: ProbeResult, places: dict[str, Place] | None = None) -> list[str]:
    return [f"{one.level}: {one.text}" for one in findings(results, places or {}, 2.5, 0.05)]


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([result(), MODELS], "good: serves well"),
        ([MODELS], "good: lists its models; no canary asks its engine"),
        ([result(ttft=4.2), MODELS], "watch: serves, but slowly: the first token took 4.2 s, a good request has it within"),
        ([result(outcome="first_token_timeout"), MODELS], "bad: half dead: its front end lists the models, but the engine"),
        ([result(outcome="stall_timeout")], "bad: does not answer: tokens, then none"),
        ([result(), result(kind="correctness", outcome="garbage_output", detail="all are '!'"), MODELS], "bad: talks gibber"),
        ([result(), result(kind="correctness", outcome="wrong_answer")], "bad: answers wrongly: the known answer was not"),
        ([result(flags=("buffered_stream",)), MODELS], "watch: answers, but not as a stream: the whole answer came at once"),
        ([result(outcome="not_streaming")], "bad: answers, but not as a stream"),
        ([result(outcome="connect_refused"), result(kind="models", outcome="connect_refused")], "bad: cannot be reached: not"),
        ([result(outcome="server_error"), MODELS], "bad: fails: another 5xx (server_error)"),
        ([result(), result(kind="models", outcome="unavailable")], "bad: does not list its models"),
        ([result(), result(outcome="server_error")], "good: serves well"),  # the newest counts
        ([result(outcome="skipped_paused"), result(ttft=4.2)], "watch: serves, but slowly"),  # what was not sent says nothing
    ],
)  # fmt: skip
def test_one_sentence_a_target(results: list[ProbeResult], words: str) -> None:
    (said,) = told(*results)
    assert said.startswith(words), said


@pytest.mark.parametrize(
    ("results", "words"),
    [  # newest first; ranks 1 and 0 are asked in turn
        ([result(rank="0"), result(rank="1", outcome="first_token_timeout"), MODELS], "bad: rank 1: half dead"),
        ([result(rank="1", outcome="first_token_timeout"), result(rank="0"), MODELS], "bad: rank 1: half dead"),
        ([result(rank="1"), result(rank="0"), result(rank="1", outcome="stall_timeout")], "good: serves well"),
        ([result(rank="1", ttft=9.0), result(rank="0")], "watch: rank 1: serves, but slowly"),
        ([result(model="m"), result(model="l1", outcome="model_not_found")], "bad: model l1: fails"),
        (
            [result(), result(), result(rank="1", outcome="server_error")],
            "good: serves well",
        ),  # ranks are asked no more
        ([result(ttft=9.0, flags=("client_lag",))], "good: serves well"),  # what we cannot time is not called slow
    ],
)
def test_each_rank_and_adapter_of_the_last_round_counts(results: list[ProbeResult], words: str) -> None:
    (said,) = told(*results)
    assert said.startswith(words), said


def test_what_was_never_run_has_no_sentence() -> None:
    assert findings([result(outcome="skipped_paused")], {}, 2.5, 0.05) == ()


PLACES = {name: Place("chat", vantage) for name, vantage in (("p", "engine"), ("s", "service"), ("g", "gateway"))}


@pytest.mark.parametrize(
    ("pod", "service", "gateway", "words"),
    [
        ("ok", "ok", "gateway_error", "bad: The fault of chat lies in the gateway, or the way from it to the Service: asked at"),
        ("ok", "connect_refused", "gateway_error", "bad: The fault of chat lies in the Service, or the way from it to the pods"),
        ("server_error", "server_error", "server_error", "bad: The fault of chat lies in the engine itself: everything outside"),
        ("server_error", "ok", "ok", "bad: The fault of chat lies in the engine itself: only it fails"),
    ],
)  # fmt: skip
def test_a_fault_is_located_by_comparison(pod: str, service: str, gateway: str, words: str) -> None:
    seen = [result(name, outcome=outcome) for name, outcome in (("p", pod), ("s", service), ("g", gateway))]
    said = [one.text for one in findings(seen, PLACES, 2.5, 0.05) if not one.target]
    assert [f"bad: {text}".startswith(words) for text in said] == [True], said


def test_a_place_that_adds_time_is_named() -> None:
    seen = [result("p", ttft=0.1), result("s", ttft=0.12), result("g", ttft=0.5)]
    (said,) = [one for one in findings(seen, PLACES, 2.5, 0.05) if not one.target]
    assert said == Finding(
        "watch", "",
        "The gateway, or the way from it to the Service, adds 0.38 s to the first token of chat: 0.50 s there, 0.12 s at "
        "the service",
    )  # fmt: skip


def test_views_of_one_kind_are_not_compared() -> None:
    assert not [one for one in findings([result("p")], PLACES, 2.5, 0.05) if not one.target]
