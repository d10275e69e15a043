"""`slo-agent report` on the recording of a real H200: what the clients measured lies within its bounds."""

import json
from typing import Any

import pytest
from h200 import RECORDING, client, needs_h200, stretches

from agent.cli import main
from probes.names.vllm import DEFAULT_EDGES

pytestmark = needs_h200
CONCURRENCIES = (1, 2, 4, 8, 16, 32)
CLIENT_NAMES = {"ttft_seconds": "ttft", "tpot_seconds": "tpot", "itl_seconds": "itl", "e2e_seconds": "e2el"}


def report(capsys: pytest.CaptureFixture[str], concurrency: int, *more: str) -> dict[str, Any]:
    """The signals of one stretch, through the command line."""
    start, end = stretches()[concurrency]
    code = main(["report", str(RECORDING), "--from", str(start), "--to", str(end), "--json", *more])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(document) == {"from", "to", "targets", "total", "explanations"}
    signals: dict[str, Any] = document["targets"]["vllm-0"]["signals"]
    return signals


def test_at_concurrency_32_the_bounds_hold_the_cliff_and_are_one_bucket_wide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Measured at the client: ITL p50 12.86 ms, p99 215.2 ms; 1.95 % of the gaps over 50 ms; 98,304 tokens."""
    signals = report(capsys, 32, "--threshold", "itl_seconds=0.05")
    p50, p99 = signals["itl_seconds"]["p50"], signals["itl_seconds"]["p99"]
    assert p99["low"] <= 0.2152 <= p99["high"]
    assert p50["low"] <= 0.0129 <= p50["high"]
    edges = (0.0, *DEFAULT_EDGES["itl_seconds"])
    for figure in (p50, p99):
        assert edges.index(figure["high"]) == edges.index(figure["low"]) + 1
    over = signals["over_threshold_ratio"]["itl_seconds>0.05"]
    assert round(over["value"], 4) == 0.0195
    assert over["low"] == over["value"] == over["high"]
    assert signals["generation_tokens"] == client(32)["total_output_tokens"] == 98_304


@pytest.mark.parametrize("concurrency", CONCURRENCIES)
def test_tokens_and_requests_equal_the_clients(capsys: pytest.CaptureFixture[str], concurrency: int) -> None:
    signals, truth = report(capsys, concurrency), client(concurrency)
    assert signals["generation_tokens"] == truth["total_output_tokens"]
    assert signals["requests_finished"] == truth["completed"]
    assert signals["requests_finished_by_reason"]["error"] == 0
    assert signals["failed_ratio"] == 0


@pytest.mark.parametrize("concurrency", CONCURRENCIES)
def test_every_client_percentile_lies_within_the_bounds(capsys: pytest.CaptureFixture[str], concurrency: int) -> None:
    """The client's TTFT and E2E hold its own path too: the mean difference to the server's is subtracted."""
    signals, truth, checked = report(capsys, concurrency), client(concurrency), 0
    for signal, name in CLIENT_NAMES.items():
        latency = signals[signal]
        is_request_time = signal in ("ttft_seconds", "e2e_seconds")
        path = truth[f"mean_{name}_ms"] / 1000 - latency["mean"] if is_request_time else 0.0
        for quantile in ("p50", "p90", "p95", "p99"):
            measured = truth.get(f"{quantile}_{name}_ms")
            if measured is not None:
                figure, seconds = latency[quantile], measured / 1000 - path
                assert figure["low"] <= seconds <= figure["high"], (signal, quantile, seconds, figure)
                checked += 1
    assert checked >= 11


def test_goodput_bounds_hold_what_the_histograms_of_both_can_prove(capsys: pytest.CaptureFixture[str]) -> None:
    """All 96 requests at concurrency 32 had a TPOT below 25 ms, so joint goodput is that of TTFT alone."""
    signals = report(capsys, 32, "--goodput", "ttft:2.5,tpot:0.05", "--threshold", "ttft_seconds=2.5")
    in_time = 1 - signals["over_threshold_ratio"]["ttft_seconds>2.5"]["value"]
    figure = signals["goodput_ratio"]
    assert figure["low"] == figure["value"] == figure["high"] == pytest.approx(in_time)
    assert figure["count"] == 96


def test_what_the_recording_does_not_have_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    signals = report(capsys, 8)
    unknown = ("canary_ttft_seconds", "canaries", "goodput_ratio", "tokens_per_dollar", "external_cache_hit_ratio")
    assert [signals[name] for name in unknown] == [None] * len(unknown)


def test_a_price_gives_tokens_per_dollar(capsys: pytest.CaptureFixture[str]) -> None:
    """5.76 dollars an hour are 0.0016 a second."""
    signals = report(capsys, 32, "--gpu-price", "5.76")
    assert signals["tokens_per_dollar"] == pytest.approx(signals["generation_tokens_per_second"] / 0.0016)


def test_energy_gives_tokens_per_joule_over_engine_and_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    start, end = stretches()[32]
    assert main(["report", str(RECORDING), "--from", str(start), "--to", str(end), "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]["signals"]
    assert total["tokens_per_joule"] == pytest.approx(
        total["generation_tokens_per_second"] / total["power_watts"], rel=1e-6
    )
    assert 600 < total["power_watts"] < 701


def test_an_empty_stretch_is_told_with_what_the_recording_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(RECORDING), "--from", "5", "--to", "6"]) == 2
    assert "nothing was read between 5.0 and 6.0; the recording has from 17959" in capsys.readouterr().err
