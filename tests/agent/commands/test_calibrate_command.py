"""`slo-agent calibrate`: the runs it asks for, what it writes, and what it says when something is wrong."""

import json
from pathlib import Path

import pytest

from agent.advice.rehearsal import Load
from agent.cli import main
from agent.commands.bench_runs import BenchResult, BenchRun, BenchSettings, bench_words
from agent.commands.calibrate import RECORDING, report

SETTINGS = BenchSettings("http://127.0.0.1:8000", "llama8b", "vllm", None, 1024, 128, 0.25, 0.5, 24, 60.0)


def test_open_loops_ask_for_a_rate_with_burstiness() -> None:
    words = bench_words(SETTINGS, BenchRun(rate=1.5), 0, Path("r.json"))
    text = " ".join(words)
    assert "vllm bench serve" in text
    assert "--request-rate 1.5 --burstiness 0.5" in text
    assert "--random-range-ratio 0.25" in text
    assert "--max-concurrency" not in words


def test_closed_loops_ask_for_users_and_at_least_three_requests_each() -> None:
    text = " ".join(bench_words(SETTINGS, BenchRun(concurrency=16), 3, Path("c.json")))
    assert "--max-concurrency 16 --request-rate inf" in text
    assert "--num-prompts 48" in text
    assert "--seed 3" in text, "every run has its own prompts"


def test_the_report_compares_every_run_and_holds_the_largest_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording of the simulator in place of the bench: open arrivals for two minutes, the last 20 s held out."""
    load = ("--rate", "2", "--input-tokens", "1000", "--output-tokens", "300", "--range-ratio", "0.5")
    made = ("--requests", "200", "--out", str(tmp_path / RECORDING), "--epoch", "1700000000", "--json")
    assert main(["simulate", *load, *made]) == 0
    capsys.readouterr()
    client = {"mean_tpot_ms": 4.9, "mean_ttft_ms": 50.0, "p99_itl_ms": 30.0}
    results = [
        BenchResult(BenchRun(rate=2.0), 1_700_000_000.0, 1_700_000_060.0, client),
        BenchResult(BenchRun(concurrency=2), 1_700_000_080.0, 1_700_000_100.0, client),
    ]
    assert report(tmp_path, results, Load(1000.0, 300.0, spread_ratio=0.5), as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in document["runs"]] == ["r2", "c2"]
    assert document["held_out"]["run"] == "c2"
    assert document["held_out"]["tpot_mean_seconds"]["predicted"] == pytest.approx(4.9e-3, rel=0.1)
    assert json.loads((tmp_path / "profile.json").read_text()) == document
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Held out" in page
    assert "http" not in page, "nothing is loaded from anywhere"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--input-tokens", "0"), "--input-tokens is 0"),
        (("--output-tokens", "1"), "one token has no gap"),
        (("--burstiness", "0"), "--burstiness is 0"),
        (("--range-ratio", "1"), "--range-ratio is 1.0"),
        (("--concurrency", ""), "neither --rates nor --concurrency"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["calibrate", "http://127.0.0.1:9", "--model", "m", "--out", str(out), *arguments]) == 2
    assert complaint in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "http://127.0.0.1:9", "--model", "m", "--out", str(tmp_path)]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["calibrate", "http://127.0.0.1:9", "--model", "m", "--out", str(tmp_path / "out")]
    assert main(asked) == 2
    assert "Is a vLLM serving there?" in capsys.readouterr().err
