"""Goodput from a real vLLM's spans beside `vllm bench serve --goodput` on the same run, request by request.

Every request of the bench has its X-Request-Id in its span, so the two are joined by it. The client's clock starts
earlier and stops later than the server's; by how much is measured and told, and only so near to a threshold may the
two verdicts differ.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from live_figures import tell
from live_http import get_text
from live_parts import VLLM_SCRIPT, free_port, vllm_folder
from live_process import Server, until
from live_spans import WAIT_SECONDS, Listening, traced_environment

from probes.canary.process import CanaryProcess
from probes.canary.task import ProbeTask
from probes.clock import SystemClock
from probes.page import SystemPage
from probes.sample import ProbeResult
from probes.spans.coverage import coverage
from probes.spans.result import SpanResult
from probes.spans.sketch import LatencySketch

pytestmark = pytest.mark.real
START_SECONDS = 420.0
BENCH_SECONDS = 600.0
REQUESTS = 80
WARM_UP = 8  # what is compiled at a first request is no threshold
LOAD = ["--max-concurrency", "2", "--seed", "7"]  # more, and a small machine measures its own scheduler
LOAD += ["--random-input-len", "600", "--random-output-len", "60", "--random-range-ratio", "0.9"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as its client and its server saw it, seconds."""

    number: int
    span: SpanResult
    client_ttft: float
    client_tpot: float
    input_tokens: int
    output_tokens: int

    def gaps(self) -> tuple[float, float]:
        """The client's TTFT and TPOT less the server's. Raises AssertionError where the span has none."""
        assert self.span.ttft_seconds is not None
        assert self.span.tpot_seconds is not None or self.output_tokens < 2
        return self.client_ttft - self.span.ttft_seconds, self.client_tpot - (self.span.tpot_seconds or 0.0)

    def client_keeps(self, ttft: float, tpot: float) -> bool:
        """The bench's own rule."""
        return self.client_ttft <= ttft and self.client_tpot <= tpot


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the bench against thresholds that an earlier run has set, seconds."""

    protocol: str
    bench: dict[str, Any]
    requests: Sequence[Request]
    thresholds: tuple[float, float]
    finished: float
    others: dict[str, int]
    canary: ProbeResult
    canary_span: SpanResult


@pytest.fixture(scope="module", params=["grpc", "http/protobuf"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A vLLM that traces to us over this protocol, warmed; a run for the thresholds, and the run that is judged."""
    installed, folder = vllm_folder(), tmp_path_factory.mktemp("spans")
    listening, port = Listening(), free_port()
    command = ["bash", VLLM_SCRIPT, "serve", installed, str(port), *listening.options(request.param)]
    vllm = Server(command, folder / "vllm.log", traced_environment(request.param)).start()
    try:
        url = f"http://127.0.0.1:{port}"
        vllm.until("vLLM answers /health", START_SECONDS, lambda: get_text(f"{url}/health") == "")
        bench(installed, folder, port, "warm-", WARM_UP)
        first = bench(installed, folder, port, "first-", REQUESTS)
        before = joined(first, "first-", listening)
        thresholds = (median(one.client_ttft for one in before), median(one.client_tpot for one in before))
        finished_before = finished(url)
        goodput = [f"{name}:{seconds * 1e3!r}" for name, seconds in zip(("ttft", "tpot"), thresholds, strict=True)]
        second = bench(installed, folder, port, "judged-", REQUESTS, "--goodput", *goodput)
        requests = joined(second, "judged-", listening)
        done = finished(url) - finished_before
        others = dict(listening.receiver.counts.others)
        canary = asyncio.run(one_canary(url))
        canary_span = until("its span has come", WAIT_SECONDS, lambda: canary_in(listening.spans, canary.request_id))
        yield Run(request.param, second, requests, thresholds, done, others, canary, canary_span)
    finally:
        vllm.stop()
        listening.stop()


def bench(installed: Path, folder: Path, port: int, prefix: str, count: int, *more: str) -> dict[str, Any]:
    """One `vllm bench serve`, and nothing before it; its detailed result."""
    result = folder / f"{prefix}bench.json"
    command = ["bash", VLLM_SCRIPT, "bench", installed, str(port), "--ready-check-timeout-sec", "0", "--disable-tqdm"]
    command += ["--save-result", "--save-detailed", "--result-filename", result, "--request-id-prefix", prefix]
    ended = subprocess.run(
        [*command, "--num-prompts", str(count), *LOAD, *more],
        capture_output=True,
        text=True,
        timeout=BENCH_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answer: dict[str, Any] = json.loads(result.read_text())
    assert (answer["completed"], answer["failed"]) == (count, 0)
    return answer


def joined(result: dict[str, Any], prefix: str, listening: Listening) -> list[Request]:
    """Each of the bench's requests with its span."""
    by_number = listening.of_bench(prefix, REQUESTS)
    requests = []
    for number in range(REQUESTS):
        ttft, tokens = result["ttfts"][number], result["output_lens"][number]
        tpot = (result["latencies"][number] - ttft) / (tokens - 1) if tokens > 1 else 0.0
        span = by_number[number]
        requests.append(Request(number, span, ttft, tpot, result["input_lens"][number], tokens))
    return requests


async def one_canary(url: str) -> ProbeResult:
    """One of the agent's own, as the agent sends it."""
    process = CanaryProcess(SystemClock())
    await process.start()
    try:
        return await process.probe(ProbeTask("engine", url))
    finally:
        await process.stop()


def canary_in(spans: Sequence[SpanResult], request_id: str) -> SpanResult | None:
    return next((one for one in list(spans) if one.client_request_id == request_id), None)


def finished(url: str) -> float:
    """Requests that vLLM's own counter says it finished."""
    reading = SystemPage("vllm").read(get_text(f"{url}/metrics"), "engine", 0.0)
    return sum(one.value for one in reading.samples if one.signal == "requests_finished_total")


def test_every_request_has_its_span(run: Run) -> None:
    """Joined by id, and the same request on both sides: lengths are the client's, one by one."""
    assert [(r.span.prompt_tokens, r.span.output_tokens) for r in run.requests] == [
        (r.input_tokens, r.output_tokens) for r in run.requests
    ]
    assert {(r.span.outcome, r.span.target, r.span.model, r.span.pod) for r in run.requests} == {
        ("ok", "engine", "tiny", "tiny-0")
    }
    assert len({r.span.trace_id for r in run.requests}) == REQUESTS


def test_coverage_is_full(run: Run) -> None:
    """The counter and the spans of the judged run: nothing was lost, nothing came twice."""
    share = coverage(len(run.requests), run.finished)
    tell(f"spans over {run.protocol}: coverage {share}, start-up spans {sum(run.others.values())}")
    assert share == 1.0


def test_our_own_canary_is_known(run: Run) -> None:
    """By the id it sent, over the chat route, and as the same answer on both sides; no user is taken for one."""
    canary, its_span = run.canary, run.canary_span
    assert (canary.outcome, its_span.outcome, its_span.is_canary) == ("ok", "ok", True)
    assert (its_span.prompt_tokens, its_span.output_tokens) == (canary.prompt_tokens, canary.output_tokens)
    assert canary.ttft_seconds is not None
    assert its_span.ttft_seconds is not None
    assert its_span.ttft_seconds < canary.ttft_seconds
    assert not any(r.span.is_canary for r in run.requests)


def test_our_rule_is_the_benchs(run: Run) -> None:
    """Its count of good requests is ours of its figures: the verdicts below are the ones it gave."""
    good = sum(r.client_keeps(*run.thresholds) for r in run.requests)
    assert good == pytest.approx(run.bench["request_goodput"] * run.bench["duration"])


def test_client_and_server_time_the_same_thing(run: Run) -> None:
    """No client sees a token before the server made it; the rest is HTTP, and a client that is slow to look."""
    ttft, tpot = gaps(run)
    for name, values in (("TTFT", ttft), ("TPOT", tpot)):
        low, middle, high = (values[int(share * (len(values) - 1))] * 1e3 for share in (0, 0.5, 1))
        tell(f"  {name}: client less server {low:.3f} to {high:.3f} ms, median {middle:.3f} ms")
    assert ttft[0] > 0
    assert median(ttft) < 0.05
    assert abs(median(tpot)) < 0.001


@pytest.mark.parametrize("at", ["its --goodput", "its own medians"])
def test_verdicts_are_the_benchs(run: Run, at: str) -> None:
    """They differ only where a figure of the client's is so near to its threshold as client and server are apart.

    By how much those are apart is the 95th percentile of the run; a request beyond it is named by its own gap.
    """
    medians = (median(r.client_ttft for r in run.requests), median(r.client_tpot for r in run.requests))
    ttft, tpot = run.thresholds if at == "its --goodput" else medians
    ttft_gap, tpot_gap = (sorted(map(abs, values))[int(0.95 * REQUESTS)] for values in gaps(run))
    ours = [r.span.keeps(ttft, tpot) for r in run.requests]
    theirs = [r.client_keeps(ttft, tpot) for r in run.requests]
    differing = [r for r, our, their in zip(run.requests, ours, theirs, strict=True) if our is not their]
    near = [r for r in run.requests if abs(r.client_ttft - ttft) <= ttft_gap or abs(r.client_tpot - tpot) <= tpot_gap]
    tell(
        f"spans over {run.protocol}, {REQUESTS} requests, TTFT <= {ttft * 1e3:.2f} ms and TPOT <= {tpot * 1e3:.3f} ms "
        f"({at}): good by spans {ours.count(True)}, by the bench {theirs.count(True)}; "
        f"{len(differing)} verdicts differ, "
        f"{len(near)} requests are within a gap of {ttft_gap * 1e3:.2f} or {tpot_gap * 1e3:.3f} ms (p95) of a threshold"
    )
    for r in differing:
        own_ttft_gap, own_tpot_gap = r.gaps()
        tell(
            f"  request {r.number} differs: client TTFT {r.client_ttft * 1e3:.2f} ms, {own_ttft_gap * 1e3:.2f} over "
            f"the server's; TPOT {r.client_tpot * 1e3:.3f} ms, {own_tpot_gap * 1e3:.3f} over the server's"
        )
        is_near = abs(r.client_ttft - ttft) <= max(ttft_gap, own_ttft_gap)
        assert is_near or abs(r.client_tpot - tpot) <= max(tpot_gap, own_tpot_gap)
    if at == "its own medians":
        assert 0.1 < ours.count(True) / REQUESTS < 0.9, "one verdict is so rare that nothing was compared"


def gaps(run: Run) -> tuple[list[float], list[float]]:
    """By how much the client's figures are above the server's, ascending: TTFT, TPOT."""
    ttft, tpot = zip(*(r.gaps() for r in run.requests), strict=True)
    return sorted(ttft), sorted(tpot)


def test_percentiles_from_the_sketch_hold_the_exact_ones(run: Run) -> None:
    """The p50 and p99 of the run's own spans."""
    times = sorted(r.span.ttft_seconds or 0.0 for r in run.requests)
    sketch = LatencySketch()
    for one in times:
        sketch.add(one)
    for quantile in (0.5, 0.99):
        rank = quantile * (len(times) - 1)
        exact = times[int(rank)] + (times[int(rank) + 1] - times[int(rank)]) * (rank - int(rank))
        bounds = sketch.bounds(quantile)
        assert bounds is not None
        assert bounds[0] <= exact <= bounds[1]
