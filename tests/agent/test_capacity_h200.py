"""`slo-agent capacity` on the recording of a real H200: what it learns, and what it says before it happens."""

import json
from typing import Any

import pytest
from h200 import RECORDING, client, needs_h200, stretches

from agent.cli import main

pytestmark = needs_h200
LENGTHS = ("--input-tokens", "8192", "--output-tokens", "1024")
UP_TO_8 = str(stretches()[8][1] + 5) if RECORDING.is_file() else ""
SHARES = {16: 0.0087, 32: 0.0195}  # facts/h200.md: gaps over 50 ms, from the engine's own histogram


def capacity(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """The answer, through the command line."""
    assert main(["capacity", str(RECORDING), "--json", *more]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_whole_recording_gives_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """facts/h200.md: T0 4.66 ms, c_p 25.1 us; decode cost at 32 x 8,700 KV tokens 30.6 ns x 278,400 = 8.52 ms."""
    learned = capacity(capsys, "--concurrency", "32", *LENGTHS)
    assert learned["step_overhead_seconds"] == pytest.approx(4.66e-3, rel=0.05)
    assert learned["prefill_seconds_per_token"] == pytest.approx(25.1e-6, rel=0.05)
    decode = learned["decode_seconds_per_step"]
    assert decode["at_sequences"] == 32
    assert decode["value"] * 32 * 8700 / decode["at_kv_tokens"] == pytest.approx(8.52e-3, rel=0.05)
    assert learned["kv_capacity_tokens"] == 571_024
    assert learned["decode_seconds_per_kv_token"] is None, "8k prompts alone cannot tell it from the cost a sequence"
    assert learned["fit_error_ratio"] < 0.012


def test_eight_users_tell_what_sixteen_and_thirty_two_will_feel(capsys: pytest.CaptureFixture[str]) -> None:
    """Fitted on concurrency 1 to 8 only; the clients' own figures of 16 and 32 are the truth."""
    for users in (16, 32):
        asked = ("--to", UP_TO_8, "--concurrency", str(users), *LENGTHS, "--threshold", "itl_seconds=0.05")
        said, truth = capacity(capsys, *asked)["prediction"], client(users)
        assert said["itl_p50_seconds"]["value"] * 1e3 == pytest.approx(truth["p50_itl_ms"], rel=0.10)
        assert said["tpot_mean_seconds"]["value"] * 1e3 == pytest.approx(truth["mean_tpot_ms"], rel=0.10)
        share = said["over_threshold_ratio"]["itl_seconds>0.05"]
        assert share["value"] == pytest.approx(SHARES[users], rel=0.30)
        if users == 16:
            assert said["itl_p99_seconds"]["value"] < 0.025
            assert said["itl_p99_seconds"]["high"] > 0.1, "so near the cliff the pessimistic end is beyond it"
        else:
            assert said["itl_p99_seconds"]["value"] * 1e3 == pytest.approx(truth["p99_itl_ms"], rel=0.15)


def test_it_says_before_it_happens_that_thirty_two_users_break_the_objective(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = capacity(capsys, "--to", UP_TO_8, "--concurrency", "32", *LENGTHS, "--itl-p99", "0.1")
    prediction = said["prediction"]
    assert prediction["meets_slo"] is False
    assert prediction["binding"] == "itl"
    assert 8 <= prediction["max_concurrency"]["value"] < 32
    assert 7 <= said["proven"]["requests_running"] <= 8, "eight users were seen to keep it"
    assert main(["capacity", str(RECORDING), "--to", UP_TO_8, "--concurrency", "32", *LENGTHS, "--itl-p99", "0.1"]) == 0
    told = capsys.readouterr().out
    assert "no: itl breaks" in told
    assert "itl breaks at 17" in told
    assert "requests/s; beyond it, itl breaks" in told


def test_a_smaller_token_budget_trades_p99_for_p95(capsys: pytest.CaptureFixture[str]) -> None:
    """One 8k prompt in 4 or 5 steps of 2048: gaps of 60 ms instead of 215, and every 20th gap is one."""
    said = capacity(capsys, "--concurrency", "32", *LENGTHS, "--max-num-batched-tokens", "2048")
    small, own = said["prediction"], said["as_is"]
    assert small["itl_p99_seconds"]["value"] < 0.4 * own["itl_p99_seconds"]["value"]
    assert small["itl_p95_seconds"]["value"] > 2 * own["itl_p95_seconds"]["value"]
    assert said["assumed"]["current_max_num_batched_tokens"]["value"] == 8192


def test_a_decode_instance_is_learned_through_its_stalls(capsys: pytest.CaptureFixture[str]) -> None:
    """The posts of NIXL transfers are no step time: without them the same T0 and decode cost come out."""
    asked = ["capacity", str(RECORDING.with_name("pd_1p1d.jsonl.gz")), "--target", "vllm-8001", "--json"]
    assert main([*asked, "--concurrency", "32"]) == 0
    learned = json.loads(capsys.readouterr().out)
    assert learned["step_overhead_seconds"] == pytest.approx(4.66e-3, rel=0.05)
    assert learned["decode_seconds_per_step"]["value"] == pytest.approx(8.52e-3, rel=0.05)
    assert learned["fit_error_ratio"] < 0.03
