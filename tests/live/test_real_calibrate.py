"""`slo-agent calibrate` on a real vLLM: end to end, and the largest number of users told before it was tried."""

import json
from pathlib import Path

import pytest
from live_agent import slo_agent
from live_figures import tell
from live_vllm import RealVllm

pytestmark = pytest.mark.real


MOST_OFF = 0.5  # a quarter is what we promise and what is told; client, front end and engine share two processors here


def test_a_held_out_number_of_users_is_told_before_it_is_tried(vllm: RealVllm, tmp_path: Path) -> None:
    """Learned from 1, 2 and 3 users; measured at 4 by the client that vLLM brings."""
    out = tmp_path / "calibration"
    quiet = "env HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1"
    command = f"{quiet} {vllm.installed}/venv/bin/python -m vllm.entrypoints.cli.main"
    load = ("--concurrency", "1,2,3,4", "--input-tokens", "512", "--output-tokens", "128", "--range-ratio", "0.5")
    words = (
        "calibrate",
        vllm.url,
        "--model",
        "tiny",
        "--tokenizer",
        str(vllm.installed / "model"),
        "--vllm",
        command,
        "--requests",
        "72",
    )
    ended = slo_agent(*words, *load, "--out", str(out))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    profile = json.loads((out / "profile.json").read_text(encoding="utf-8"))
    assert {row["run"] for row in profile["runs"]} == {"c1", "c2", "c3", "c4"}
    assert (out / "report.html").stat().st_size > 1000
    tpot = profile["held_out"]["tpot_mean_seconds"]
    said, measured = tpot["predicted"], tpot["measured"]
    off = 100 * (said / measured - 1)
    tell(f"calibrate: 4 users held out: TPOT {said * 1e3:.1f} ms said, {measured * 1e3:.1f} measured ({off:+.0f} %)")
    if refusals := profile["domain"]["refusals"]:
        tell(f"calibrate: this machine was too busy to learn from, and the profile says so: {refusals[0]}")
        return
    assert said == pytest.approx(measured, rel=MOST_OFF)
