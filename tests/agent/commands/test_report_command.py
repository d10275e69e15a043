"""`slo-agent report` and `replay` on a small recording whose figures are known."""

import json
from pathlib import Path

import pytest
from h200 import RECORDING, needs_h200
from recorded import START, page, recording

from agent.cli import main
from probes.recording import Entry, RecordingWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return recording(tmp_path / "r.jsonl.gz")


def test_json_over_exactly_one_stretch(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seconds 10 to 40 at 2 requests of 10 tokens each: 60 requests, 600 tokens, 2/s and 20/s."""
    code = main(["report", str(path), "--from", str(START + 10), "--to", str(START + 40), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert list(document) == ["from", "to", "targets", "total", "explanations"]
    assert (document["from"], document["to"]) == (START + 10, START + 40)
    signals = document["targets"]["a"]["signals"]
    assert signals == document["total"]["signals"]
    assert signals["generation_tokens"] == 600
    assert signals["requests_finished"] == 60
    assert signals["request_rate_per_second"] == pytest.approx(2)
    assert signals["generation_tokens_per_second"] == pytest.approx(20)
    figure = signals["ttft_seconds"]["p50"]
    assert list(figure) == ["value", "low", "high", "count", "ci_low", "ci_high"]
    assert (figure["low"], figure["high"], figure["count"]) == (0.06, 0.1, 60)
    assert signals["ttft_seconds"]["mean"] == pytest.approx(0.08)
    assert signals["itl_seconds"] is None, "what the page lacks is null"
    assert signals["power_watts"] is None
    expected = "ttft_seconds itl_seconds tpot_seconds e2e_seconds queue_seconds over_threshold_ratio"
    expected += " request_rate_per_second prompt_tokens_per_second generation_tokens_per_second generation_tokens"
    expected += " requests_finished goodput_per_second goodput_ratio prefix_cache_hit_ratio external_cache_hit_ratio"
    expected += " kv_usage_ratio requests_running requests_waiting preemptions failed_ratio gpu_utilization_ratio"
    expected += " power_watts tokens_per_joule tokens_per_dollar"
    assert set(expected.split()) <= set(signals)


def test_thresholds_and_price(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No TTFT was over 0.1 s, all were over 0.06; 20 tokens/s at 3.6 dollars an hour are 20,000 a dollar."""
    words = ["report", str(path), "--threshold", "ttft_seconds=0.1", "--threshold", "ttft_seconds=0.06"]
    assert main([*words, "--gpu-price", "3.6", "--json"]) == 0
    signals = json.loads(capsys.readouterr().out)["total"]["signals"]
    over = signals["over_threshold_ratio"]
    assert (over["ttft_seconds>0.1"]["low"], over["ttft_seconds>0.1"]["high"]) == (0, 0)
    assert (over["ttft_seconds>0.06"]["low"], over["ttft_seconds>0.06"]["high"]) == (1, 1)
    assert signals["tokens_per_dollar"] == pytest.approx(20_000)


def test_text_is_for_people(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(path)]) == 0
    out = capsys.readouterr().out
    assert "a  (60.0 s covered by readings)" in out
    assert "total" not in [line.split("  ")[0] for line in out.splitlines()], "one target is not told twice"
    assert out.startswith("from 2023-11-14T22:13:20.000Z to 2023-11-14T22:14:20.000Z\n")
    assert out.splitlines()[-1].startswith("goodput is unknown: give thresholds with --goodput ttft:2.5,tpot:0.05")
    assert "[60..100]" in next(line for line in out.splitlines() if "ttft_seconds" in line)
    assert "None" not in out
    assert sum("unknown" in line for line in out.splitlines()) == 2, "what it lacks stands in one place; and the hint"
    assert "e+" not in out
    assert "nan" not in out


def test_a_recording_in_which_nobody_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two looks, both refused: no stretch of it has more, so no times are told."""
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    for second in range(2):
        refused = json.dumps({"outcome": "connect_refused", "detail": "", "source": "vllm"})
        writer.write(Entry(START + second, "a", "scrape", refused))
    writer.close()
    assert main(["report", str(tmp_path / "r.jsonl.gz")]) == 2
    assert "in the whole recording no target that is asked about answered once" in capsys.readouterr().err


@needs_h200
def test_of_a_gpu_forty_signals_of_engines_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(RECORDING), "--target", "gpu-0"]) == 0
    out = capsys.readouterr().out
    assert "power_watts                      370" in out
    assert "  unknown: all else, as no engine was read here (--json names it)\n" in out
    assert "ttft_seconds" not in out


def test_two_targets_have_a_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    for second in range(3):
        for target in ("a", "b"):
            writer.write(Entry(START + second, target, "vllm", page(second)))
    writer.close()
    assert main(["report", str(tmp_path / "r.jsonl.gz"), "--goodput", "ttft:2.5,tpot:0.05"]) == 0
    out = capsys.readouterr().out
    assert "\ntotal  (" in out
    assert "goodput is unknown" not in out


@pytest.mark.parametrize("start", ["2023-11-14T22:13:30Z", "2023-11-14T23:13:30+01:00", "1700000010"])
def test_a_time_is_iso_or_unix_seconds(start: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(path), "--from", start, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["from"] == START + 10


def test_text_shows_long_times_without_exponents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a minute to the first token is 30,000 ms, not 3e+04."""
    page = "".join(
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="m",le="{le}"}} %d\n'
        for le in ("20", "40", "+Inf")
    )
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    for second, counts in enumerate(((0, 0, 0), (0, 9, 9))):
        life = 'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n'
        writer.write(Entry(START + second, "a", "vllm", life + page % counts))
    writer.close()
    assert main(["report", str(tmp_path / "r.jsonl.gz")]) == 0
    out = capsys.readouterr().out
    assert "[20,000..40,000]" in out
    assert "e+" not in out


def test_replay_prints_json_lines_and_one_summary(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("slos: [{name: s, sli: ttft, objective_ratio: 0.99, threshold_seconds: 0.1}]\n")
    assert main(["replay", str(path), "-c", str(config), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in lines] == [{"summary"}]
    summary = lines[0]["summary"]
    assert (summary["alerts"], summary["pages"], summary["recommendations"]) == (0, 0, 0)
    assert [slo["name"] for slo in summary["slos"]] == ["s"]


def test_replay_of_bad_times_pages_and_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every request is over the threshold for 20 minutes: it pages, and the exit code says so."""
    path = recording(tmp_path / "bad.jsonl.gz", seconds=1200)
    config = tmp_path / "c.yaml"
    config.write_text("slos: [{name: s, sli: ttft, objective_ratio: 0.99, threshold_seconds: 0.06}]\n")
    assert main(["replay", str(path), "-c", str(config), "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(line.get("alert", {}).get("labels", {}).get("severity") == "page" for line in lines)
    assert lines[-1]["summary"]["pages"] >= 1


def test_replay_in_words_has_the_cause_and_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(tmp_path / "bad.jsonl.gz", seconds=1200)
    config = tmp_path / "c.yaml"
    config.write_text("slos: [{name: s, sli: ttft, objective_ratio: 0.99, threshold_seconds: 0.06}]\n")
    assert main(["replay", str(path), "-c", str(config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    fired = next(number for number, line in enumerate(lines) if "firing    SLOBurnRate" in line)
    assert "s (llm): the error budget burns at" in lines[fired + 1]
    assert lines[fired + 2].strip().startswith("why: ")
    summary = next(line for line in lines if " evaluations: " in line)
    assert " page" in summary
    assert any(line.startswith("  s: ") and "error budget" in line for line in lines)
