"""`slo-agent advise`: the P/D case and the aggregated cliff of real H200s end to end, and the page for people."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from h200 import RECORDING, needs_h200

from agent.advice.replicas import Reason
from agent.cli import main
from agent.commands.advice_words import KEEPS
from agent.commands.advise import page

PD_RECORDING = RECORDING.with_name("pd_1p1d.jsonl.gz")
KEYS = {
    *("id", "at", "target", "action", "current", "proposed", "low", "high", "reason_code", "binding", "summary"),
    *("confidence", "meets_slo", "evidence", "alternatives", "do_nothing", "side_effects", "steps", "rollback"),
    *("verify_at", "verdict"),
}
WORDS = ("what", "why", "choices", "costs", "if nothing", "beware", "how sure", "do", "undo")


def config(folder: Path, threshold_seconds: float, sli: str = "itl") -> Path:
    path = folder / "agent.yaml"
    slo = f"{{name: chat, sli: {sli}, objective_ratio: 0.99, threshold_seconds: {threshold_seconds}}}"
    path.write_text(f"slos:\n  - {slo}\ncanaries: []\n", encoding="utf-8")
    return path


def advised(capsys: pytest.CaptureFixture[str], recording: Path, config_file: Path) -> list[dict[str, Any]]:
    assert main(["advise", "--recording", str(recording), "-c", str(config_file), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["recommendations"]
    return found


@needs_h200
def test_the_decode_tail_is_laid_to_post_time_and_larger_blocks_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """facts/h200.md: posts of 104 ms made a p99 of 118 ms; the run with blocks of 128 tokens then measured 17.2 ms."""
    advice = advised(capsys, PD_RECORDING, config(tmp_path, 0.05))[0]
    assert set(advice) >= KEYS
    assert (advice["action"], advice["reason_code"], advice["proposed"]) == ("knob", "nixl_post_time", 128)
    evidence = {item["signal"]: item["value"] for item in advice["evidence"]}
    assert evidence["nixl_post_seconds_mean"] == pytest.approx(0.104, abs=1e-3)
    assert evidence["long_gaps_explained_by_posts_ratio"] == pytest.approx(1.0, abs=0.1)
    assert evidence["predicted_itl_p99_seconds"] == pytest.approx(0.0172, abs=0.010)
    assert advice["do_nothing"]["itl_p99_seconds"] == pytest.approx(0.1177, abs=0.010)
    assert (advice["do_nothing"]["meets_slo"], advice["meets_slo"]) == (False, True)
    assert "TTFT pays" in advice["side_effects"][0]
    assert advice["alternatives"][-1]["setting"] == "the same engines aggregated"
    assert advice["alternatives"][-1]["ttft_p95_seconds"] > 0


@needs_h200
def test_the_aggregated_cliff_is_met_with_the_cheapest_knob_and_its_trade(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One H200 at 32 users: 1.95 % of the gaps over 50 ms. A smaller token budget keeps 99 %, and p95 rises."""
    advice = advised(capsys, RECORDING, config(tmp_path, 0.05))[0]
    assert (advice["action"], advice["reason_code"], advice["current"]) == ("knob", "token_budget", 8192)
    assert advice["proposed"] < 8192
    assert advice["meets_slo"] is True
    by_setting = {choice["setting"].split()[-1]: choice for choice in advice["alternatives"]}
    own, chosen = by_setting["8192"], by_setting[f"{advice['proposed']:.0f}"]
    assert own["meets_slo"] is False
    assert chosen["itl_p99_seconds"] < own["itl_p99_seconds"]
    assert chosen["itl_p95_seconds"] > own["itl_p95_seconds"]
    assert chosen["ttft_p95_seconds"] > own["ttft_p95_seconds"], "what it costs is told"


@needs_h200
def test_an_objective_that_one_request_alone_breaks_is_called_infeasible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prompt of 8192 tokens alone takes 210 ms: no number of replicas makes it 100."""
    found = advised(capsys, RECORDING, config(tmp_path, 0.1, "ttft"))
    advice = next(one for one in found if one["reason_code"] == "infeasible_slo")
    assert (advice["action"], advice["binding"], advice["meets_slo"]) == ("none", "ttft", False)
    assert "No number of replicas" in advice["summary"]
    assert any("tensor parallelism" in way for way in advice["steps"])


SCALING = {
    "target": {"model": "m", "role": "aggregated"},
    "summary": "Scale m (aggregated) out, from 2 to 3 replicas.",
    "action": "scale",
    "current": 2,
    "proposed": 3,
    "low": 3,
    "high": 4,
    "alternatives": [
        {
            "setting": "2 replicas",
            "ttft_p95_seconds": None,
            "ttft_p95_interval_seconds": None,
            "itl_p99_seconds": 0.2,
            "itl_p99_interval_seconds": [0.18, 0.25],
            "dollars_per_hour": 11.5,
            "meets_slo": False,
        },
        {
            "setting": "3 replicas",
            "ttft_p95_seconds": 0.5,
            "ttft_p95_interval_seconds": [0.4, None],
            "itl_p99_seconds": 0.08,
            "itl_p99_interval_seconds": [0.07, 0.12],
            "dollars_per_hour": 17.25,
            "meets_slo": None,
        },
    ],
    "do_nothing": {"summary": "2 replicas carry 8.0 requests/s; the rest waits", "meets_slo": False},
    "side_effects": ["a new replica begins with an empty prefix cache"],
    "confidence": 0.72,
    "meets_slo": None,
    "steps": ["raise the replica count", "wait until they are ready"],
    "rollback": "set the replica count back to 2",
    "verify_at": 600.0,
    "verdict": None,
    "evidence": [
        {"signal": signal, "window_seconds": window, "value": value}
        for signal, window, value in (
            ("requests_waiting", 0.0, 392.0),
            ("forecast_arrival_rate_q90_per_second", 120.0, 12.34),
            ("readings_ratio", 300.0, 1.0),
            ("replicas_lost", 0.0, 0.0),
            ("carried_correction_ratio", 0.0, 0.93),
            ("burn_rate:chat", 3600.0, 4.4),
            ("itl_seconds>0.1", 300.0, 0.031),
            ("kv_load_seconds_p95", 300.0, 0.25),
            ("queue_share_ratio", 300.0, None),
            ("confidence_data_ratio", 0.0, 1.0),
            ("confidence_seen_ratio", 0.0, 0.8),
            ("confidence_reach_ratio", 0.0, 0.9),
        )
    ],
}
PAGE = """\
1970-01-01 00:00:00 UTC: 1 recommendation

1. Scale m (aggregated) out, from 2 to 3 replicas.

   what          replicas: 2 -> 3 (evidence allows 3 to 4)
   why           392 requests wait in the queues
                 with 90 % chance at most 12.3 requests/s
                 that is 93 % of what the model says: so it was seen
                 chat spends its error budget 4.4 times as fast as it may over 1 h
                 3.1 % of the gaps between tokens take longer than 0.1 s over 5 min
                 kv load p95: 250 ms over 5 min
                 queue share: not known over 5 min
   choices       2 replicas: ITL p99 200 ms (180 ms to 250 ms), $11.50/h; does not keep what is promised
                 3 replicas: ITL p99 80 ms (70 ms to 120 ms), TTFT p95 500 ms (400 ms to no end), $17.25/h;
                 may keep what is promised, not surely
   costs         $11.50/h now, $17.25/h then: $5.75/h more, about $4,198 a month
   if nothing    2 replicas carry 8.0 requests/s; the rest waits; does not keep what is promised
   beware        a new replica begins with an empty prefix cache
   how sure      72 %: a suggestion: try it on one replica first; may keep what is promised, not surely
                 less by how much was seen so far: 80 %
                 less by how far it goes beyond the loads that were seen: 90 %
   do            1. raise the replica count
                 2. wait until they are ready
   undo          set the replica count back to 2
   judged        at 1970-01-01 00:10:00 UTC: whether it came true"""


def test_the_whole_page_is_in_words_that_a_manager_understands() -> None:
    """What, why, cost, what if nothing is done, how sure, how to undo; nothing that only says that all is well, and no
    name of a signal: one that this version has no words for is put into some.
    """
    assert "\n".join(page([SCALING], 0.0)) == PAGE


def test_what_is_sure_and_not_enough_is_not_called_sure_enough_to_act_on() -> None:
    """A smaller token budget at 86 % beside a promise that it does not keep alone."""
    told = "\n".join(page([{**SCALING, "confidence": 0.86, "meets_slo": False}], 0.0))
    assert "how sure      86 %: sure of what it says, which is not enough alone; does not keep what is promised" in told
    assert "to act on" not in told


def test_on_a_terminal_a_line_tells_how_far_a_recording_was_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = tmp_path / "r.jsonl.gz"
    words = "--rate 1 --input-tokens 10 --output-tokens 10 --requests 20 --epoch 1700000000"
    assert main(["simulate", *words.split(), "--out", str(recording)]) == 0
    assert f"wrote {recording}: {recording.stat().st_size:,} bytes" in capsys.readouterr().out
    asked = ["advise", "--recording", str(recording), "-c", str(config(tmp_path, 0.05))]
    assert main(asked) == 0
    assert "played" not in capsys.readouterr().err
    monkeypatch.setattr("agent.commands.asking.TELL_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(asked) == 0
    assert "\rplayed up to 2023-11-14 22:13:" in capsys.readouterr().err


def wish(reason: str, *, rate: float | None = 4.2) -> dict[str, Any]:
    return {
        "target": {"model": "m", "role": "decode"}, "current": 1, "value": 1, "low": 1, "high": 2, "confidence": 0.7,
        "reason": reason, "rate_per_second": rate,
    }  # fmt: skip


def test_every_reason_to_change_nothing_has_its_words() -> None:
    """llm-d #970: all zero, and nobody could tell why."""
    for reason in set(get_args(Reason)) - {"grow", "shrink", "no_traffic"}:
        assert reason in KEEPS
    told = list(page([], 0.0, [wish("holding"), wish("no_model", rate=None)]))
    assert told[0] == "1970-01-01 00:00:00 UTC: nothing to advise."
    assert told[1].startswith("   m (decode): keep 1 replica: no more are needed; whether fewer would do is watched")
    assert told[1].endswith("4.2 requests/s come")
    assert "too little was seen yet to know what one carries" in " ".join(told[2:])


def test_groups_without_advice_are_told_behind_the_others() -> None:
    told = list(page([SCALING], 0.0, [wish("within_band"), {**wish("grow"), "target": SCALING["target"]}]))
    assert told[-2:] == ["", "   m (decode): keep 1 replica: the load asks for no other number; 4.2 requests/s come"]


@needs_h200
def test_the_page_says_what_why_cost_risk_and_how_to_undo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--recording", str(PD_RECORDING), "-c", str(config(tmp_path, 0.05))]) == 0
    told = capsys.readouterr().out
    for word in WORDS:
        assert f"\n   {word}" in told
    assert max(map(len, told.splitlines())) <= 110
    assert "does not keep what is promised" in told


def test_four_engines_are_split_where_no_token_budget_keeps_the_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gaps of at most 15 ms: even a budget of 512 tokens adds 13 ms of prefill to a step of 5 to 6 ms."""
    path = tmp_path / "four.jsonl.gz"
    load = (
        "--replicas",
        "4",
        "--rate",
        "8",
        "--input-tokens",
        "4000",
        "--output-tokens",
        "300",
        "--range-ratio",
        "0.3",
    )
    assert main(["simulate", *load, "--duration", "100", "--out", str(path), "--json"]) == 0
    capsys.readouterr()
    found = advised(capsys, path, config(tmp_path, 0.015))
    advice = next(one for one in found if one["action"] == "topology")
    assert advice["meets_slo"] is True
    assert 1 <= advice["low"] <= advice["proposed"] <= advice["high"] <= 3
    assert len(advice["alternatives"]) == 4, "aggregated, and every way to split four"
    assert advice["alternatives"][0]["meets_slo"] is False
    assert "TTFT pays" in advice["summary"]
    assert not any(one["reason_code"] == "token_budget" and one["meets_slo"] for one in found)


def test_nothing_to_advise_is_said_in_words() -> None:
    assert "nothing to advise" in "\n".join(page([], 1_700_000_000.0))


@pytest.mark.parametrize(
    "arguments", [(), ("--agent", "http://x", "--recording", "y"), ("--recording", "y"), ("--prometheus", "http://x")]
)
def test_without_one_source_it_says_what_to_write(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *arguments]) == 2
    assert "Write --agent URL, or --recording REC -c FILE, or --prometheus URL -c FILE." in capsys.readouterr().err


def test_an_agent_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--agent", "http://127.0.0.1:9"]) == 2
    assert "Is this the address of a running agent?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["advise", "replay"])
def test_a_target_that_the_recording_does_not_know_is_told(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`simulate` calls its engine sim-0: the config's vllm-0 would be a replica that never answers, and nobody knew."""
    path, recording = tmp_path / "agent.yaml", tmp_path / "rec.jsonl.gz"
    load = f"--rate 1 --input-tokens 10 --output-tokens 10 --duration 30 --out {recording}"
    assert main(["simulate", *load.split()]) == 0
    slo = "{name: s, sli: ttft, objective_ratio: 0.99, threshold_seconds: 2.5}"
    source = ["--recording", str(recording)] if command == "advise" else [str(recording)]
    for name, warns in (("vllm-0", True), ("sim-0", False)):
        path.write_text(f"targets: [{{name: {name}, url: 'http://a'}}]\nslos: [{slo}]\n", encoding="utf-8")
        main([command, *source, "-c", str(path)])
        said = capsys.readouterr().err
        assert (f"tells nothing of {name}, which the config names" in said) == warns
