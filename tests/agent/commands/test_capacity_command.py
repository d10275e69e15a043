"""`slo-agent capacity` on simulated recordings: its JSON, its words, and what it refuses."""

import json
from pathlib import Path

import pytest
from h200 import RECORDING, needs_h200

from agent.cli import main

KEYS = {
    *("step_overhead_seconds", "prefill_seconds_per_token", "decode_seconds_per_kv_token"),
    *("decode_seconds_per_sequence", "decode_seconds_per_step", "fit_error_ratio", "samples", "kv_capacity_tokens"),
    *("domain", "prediction"),
}
PREDICTED = {
    *("itl_mean_seconds", "itl_p95_seconds", "itl_p99_seconds", "ttft_mean_seconds", "ttft_p95_seconds"),
    *("over_threshold_ratio", "output_tokens_per_second", "max_rate_per_second", "max_concurrency", "binding"),
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 requests at 2 a second on the simulated H200."""
    path = tmp_path_factory.mktemp("capacity") / "busy.jsonl.gz"
    load = ("--rate", "2", "--input-tokens", "2000", "--output-tokens", "300", "--range-ratio", "0.5")
    assert main(["simulate", *load, "--requests", "150", "--out", str(path), "--json"]) == 0
    return path


def test_the_document_has_the_promised_keys_and_the_true_constants(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["capacity", str(recording), "--rate", "3", "--threshold", "itl_seconds=0.05", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) >= KEYS
    assert set(document["prediction"]) >= PREDICTED
    assert document["step_overhead_seconds"] == pytest.approx(4.66e-3, rel=0.05)
    assert document["prefill_seconds_per_token"] == pytest.approx(25.1e-6, rel=0.10)
    figure = document["prediction"]["itl_p99_seconds"]
    assert figure["low"] <= figure["value"] <= figure["high"]
    assert set(document["prediction"]["over_threshold_ratio"]) == {"itl_seconds>0.05"}


def test_without_a_load_it_says_what_the_engine_carries(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["capacity", str(recording)]) == 0
    told = capsys.readouterr().out
    assert "per prompt token that is computed" in told
    assert "users at once" in told
    assert "observed mean" in told


@needs_h200
def test_what_a_prompt_token_takes_is_unknown_where_none_is_computed(capsys: pytest.CaptureFixture[str]) -> None:
    """A decode engine gets its prompts from the prefill side: 0.0 us would be a claim."""
    assert main(["capacity", str(RECORDING.with_name("pd_1p1d.jsonl.gz")), "--target", "vllm-8001"]) == 0
    told = capsys.readouterr().out
    assert "0.0 us" not in told
    assert "+ something unknown (hardly any was computed here) per prompt token" in told


def test_an_objective_no_engine_keeps_is_carried_by_no_load(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2000 tokens take 55 ms."""
    capsys.readouterr()
    assert main(["capacity", str(recording), "--ttft-p95", "0.02", "--json"]) == 0
    prediction = json.loads(capsys.readouterr().out)["prediction"]
    assert prediction["max_rate_per_second"]["value"] == 0
    assert prediction["binding"] == "ttft"


def test_out_of_domain_is_told_with_the_reason(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["capacity", str(recording), "--rate", "0.1", "--input-tokens", "50000", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["prediction"] is None
    assert "beyond 32k" in document["domain"]["refusals"][0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--concurrency", "0"), "--concurrency is 0"),
        (("--output-tokens", "0.001"), "--output-tokens is 0.001, expected at least 1"),
        (("--concurrency", "1000000000"), "expected at most 100000"),
        (("--concurrency", "3", "--rate", "2"), "exclude each other"),
        (("--range-ratio", "1"), "--range-ratio is 1.0"),
        (("--prefix-hit-ratio", "1.5"), "--prefix-hit-ratio is 1.5"),
        (("--threshold", "e2e_seconds=1"), "Write SIGNAL=SECONDS with one of ttft_seconds"),
        (("--target", "nobody"), "no target is called nobody"),
        (("--to", "1000"), "nothing was read"),
    ],
)
def test_mistakes_are_told_and_end_with_2(
    recording: Path, arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capacity", str(recording), *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_two_engines_in_one_recording_need_a_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.jsonl.gz"
    load = ("--rate", "2", "--input-tokens", "500", "--output-tokens", "50", "--replicas", "2", "--requests", "10")
    assert main(["simulate", *load, "--out", str(path), "--json"]) == 0
    assert main(["capacity", str(path)]) == 2
    assert "choose one with --target" in capsys.readouterr().err


def test_an_idle_engine_teaches_nothing_and_says_what_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idle.jsonl.gz"
    load = ("--rate", "0.2", "--input-tokens", "500", "--output-tokens", "50", "--requests", "8")
    assert main(["simulate", *load, "--out", str(path), "--json"]) == 0
    assert main(["capacity", str(path)]) == 2
    assert "Record under load, with a reading a second" in capsys.readouterr().err
