"""`slo-agent report` on a prefill and a decode instance of real H200s, joined by NIXL."""

import json
from pathlib import Path
from typing import Any

import pytest
from h200 import RECORDING, needs_h200

from agent.cli import main

pytestmark = needs_h200
PD_RECORDING = RECORDING.with_name("pd_1p1d.jsonl.gz")


def report(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["report", str(PD_RECORDING), "--json", *more]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_transfers_are_told_with_their_post_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured there: 169 transfers of 1.0 GB and 30,400 pieces, 137 ms each, of which 104 ms are post time."""
    transfer = report(capsys)["targets"]["vllm-8001"]["signals"]["kv_transfer"]
    assert transfer["transfers"] == 169
    assert transfer["transfer_seconds"]["mean"] == pytest.approx(0.137, abs=5e-4)
    assert transfer["post_seconds"]["mean"] == pytest.approx(0.104, abs=5e-4)
    assert transfer["transferred_bytes"] / 169 == pytest.approx(0.996e9, rel=1e-3)
    assert transfer["descriptors"] / 169 == pytest.approx(30_406, abs=1)
    assert transfer["failed"] == 0


def test_who_transfers_nothing_has_no_transfer(capsys: pytest.CaptureFixture[str]) -> None:
    """The GPUs have no page of NIXL; the prefill instance has one, and starts no transfer."""
    targets = report(capsys)["targets"]
    assert targets["gpu-0"]["signals"]["kv_transfer"] is None
    assert targets["vllm-8000"]["signals"]["kv_transfer"]["transfer_seconds"] is None


def stretches() -> dict[int, tuple[float, float]]:
    """Concurrency -> from, to: from one run's start to the next one's; the engines are idle between them."""
    lines = PD_RECORDING.with_name("pd_1p1d.marks.txt").read_text().splitlines()
    starts = {int(line.split()[1].removeprefix("c=")): float(line.split()[3]) for line in lines}
    ends = [*list(starts.values())[1:], 2e9]
    return {c: (start, end) for (c, start), end in zip(starts.items(), ends, strict=True)}


def client(concurrency: int) -> dict[str, float]:
    """What `vllm bench serve` measured in front of both."""
    results = json.loads(PD_RECORDING.with_name("pd_1p1d.client.json").read_text(encoding="utf-8"))
    found: dict[str, float] = results[f"pd_c{concurrency}"]
    return found


def test_requests_and_tokens_count_once(capsys: pytest.CaptureFixture[str]) -> None:
    """25 + 48 requests, and 92 of the last 96 (the recording ends before four did): 24 x 1024 + 8 + 49,152 + 98,252
    tokens. Prompts count as often as requests do, not once for each half.
    """
    total = report(capsys)["total"]["signals"]
    assert total["requests_finished"] == 25 + 48 + 92
    assert total["generation_tokens"] == 24 * 1024 + 8 + 49_152 + 98_252
    assert total["prompt_tokens"] == 1_376_328
    assert (total["pd"]["prefill_targets"], total["pd"]["decode_targets"]) == (["vllm-8000"], ["vllm-8001"])


@pytest.mark.parametrize("concurrency", [16, 32])
def test_what_users_waited_lies_within_the_bounds_of_both_halves(
    capsys: pytest.CaptureFixture[str], concurrency: int
) -> None:
    """Prefill's E2E and decode's TTFT, added: every percentile of the client's TTFT lies within its bounds, and the
    means differ by the way between and before, 23 and 33 ms here.
    """
    start, end = stretches()[concurrency]
    total, truth = report(capsys, "--from", str(start), "--to", str(end))["total"]["signals"], client(concurrency)
    for quantile in ("p50", "p90", "p95", "p99"):
        figure = total["ttft_seconds"][quantile]
        assert figure["value"] is None
        assert figure["low"] <= truth[f"{quantile}_ttft_ms"] / 1000 <= figure["high"]
    assert 0 < truth["mean_ttft_ms"] / 1000 - total["ttft_seconds"]["mean"] < 0.05


def test_a_cache_that_has_every_prompt_by_construction_is_no_hit_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """Decode's own counters say 100 %; prefill's prefix cache found 6.7 % of the prompts, and they count once."""
    document = report(capsys)
    assert document["targets"]["vllm-8001"]["signals"]["external_cache_hit_ratio"] is None
    assert document["total"]["signals"]["external_cache_hit_ratio"] == 0
    assert document["total"]["signals"]["prefix_cache_hit_ratio"] == pytest.approx(0.067, abs=1e-3)
    assert document["targets"]["vllm-8000"]["signals"]["tpot_seconds"] is None


def test_post_time_is_named_as_the_cause_of_the_decode_tail(capsys: pytest.CaptureFixture[str]) -> None:
    """Posts of over 0.1 s times the requests running then are about as many as the gaps of over 0.1 s."""
    (explanation,) = report(capsys)["explanations"]
    assert explanation["code"] == "nixl_post_time"
    assert explanation["words"].startswith(
        "Post time is the cause of the decode tail: 2,735 of 171,819 gaps between tokens (1.59%) were over 0.1 s. "
        "157 KV transfers were posted for over 0.1 s each"
    )
    values = {item["signal"]: item["value"] for item in explanation["evidence"]}
    assert values["itl_seconds>0.1"] == pytest.approx(2_735 / 171_819)
    assert values["gaps_explained_ratio"] == pytest.approx(1.055, abs=0.01)
    assert values["nixl_descriptors_per_transfer"] == pytest.approx(30_406, abs=1)


def test_parts_of_the_wait_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A transfer of 137 ms in a mean TTFT of 1,342 ms."""
    pd = report(capsys)["total"]["signals"]["pd"]
    assert pd["transfer_share_ratio"] == pytest.approx(0.102, abs=1e-3)
    assert pd["post_share_ratio"] == pytest.approx(0.077, abs=1e-3)
    assert pd["prefill_waiting"]["max"] == 22


def test_the_report_for_people_holds_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(PD_RECORDING)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Post time is the cause of the decode tail: 2,735 of 171,819 gaps between tokens" in text
    assert "pd.decode_targets vllm-8001" in text


def test_what_the_config_says_of_a_target_comes_before_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whoever says that both serve alone gets both counted."""
    config = tmp_path / "agent.yaml"
    one = '{{name: vllm-{0}, url: "http://127.0.0.1:{0}", role: aggregated}}'
    config.write_text(f"targets: [{one.format(8000)}, {one.format(8001)}]\ncanaries: []\n")
    total = report(capsys, "-c", str(config))["total"]["signals"]
    assert total["requests_finished"] == 169 + 165
    assert total["pd"] is None
