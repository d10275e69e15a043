"""How true are a canary's time stamps with 32 streams beside it: against the server's own, beside other clients.

Alternating rounds of ours, of `vllm bench serve` where a real vLLM is installed, and of a plain client that reads as
load generators do, `iter_any` and a look at the clock after it. The server is a process of its own that knows when it
wrote each token; a third process takes a third of a core, as a scraping agent may. The error of a TTFT is that of its
first token's stamp; gaps are compared with the gaps between the server's writes. Every client's p50 and p99 are those
of each round, and the median of the rounds is compared.
"""

# ruff: noqa: T201 - a benchmark prints its table

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

import aiohttp
import pytest

from probes.canary.prober import Prober
from probes.canary.report import percentile
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Answered, Visit, message, streamed
from probes.clock import SystemClock

STREAMS, ROUNDS, TOKENS = 32, 5, 24
FLOOR_SECONDS = 0.0001  # below it nobody asks whose error is smaller
INSTALLED = (
    Path(found) if (found := os.environ.get("SLO_AGENT_VLLM_DIR")) and Path(found, "installed").exists() else None
)
BUSY = """
import time
while True:
    end = time.perf_counter() + 0.006
    while time.perf_counter() < end: pass
    time.sleep(0.014)
"""
Written = tuple[float, float]  # before and after the server's write, seconds


@dataclass
class Measured:
    """Errors in seconds, one entry per stream or gap."""

    ttft: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)  # of all stamps of a stream

    def take(self, stamps: Sequence[float], truth: Sequence[Written], bound: float | None = None) -> None:
        assert len(stamps) == len(truth)
        errors = [_off(stamp, written) for stamp, written in zip(stamps, truth, strict=True)]
        self.ttft.append(abs(errors[0]))
        self.gaps += [abs(later - earlier) for earlier, later in pairwise(errors)]
        if bound is not None:
            self.bounds.append(bound)
            self.worst.append(max(map(abs, errors)))


def _off(stamp: float, written: Written) -> float:
    """Seconds that a stamp lies after (or before) the write, which happened some time between the two looks at it."""
    before, after = written
    return stamp - after if stamp > after else min(0.0, stamp - before)


@pytest.fixture
def port() -> Iterator[int]:
    """The server, and somebody who takes a third of a core, as a scraping agent may."""
    server = Path(__file__).with_name("stamping_server.py")
    with (
        subprocess.Popen([sys.executable, str(server)], stdout=subprocess.PIPE) as serving,
        subprocess.Popen([sys.executable, "-c", BUSY]) as busy,
    ):
        assert serving.stdout is not None
        try:
            yield int(serving.stdout.readline())
        finally:
            serving.kill()
            busy.kill()


async def ours(port: int) -> dict[str, tuple[list[float], float]]:
    """Stamps and error bound by request id."""
    prober = Prober(SystemClock())
    task = ProbeTask("t", f"http://127.0.0.1:{port}", model="m", max_tokens=TOKENS)

    async def one() -> Answered:
        ends_at = asyncio.get_running_loop().time() + 60.0
        visit = Visit(task, task.url, "m", 0.0, ends_at, prober.clock, prober.transport, prober.lag, prober.memory)
        return await visit.ask(CHAT_PATH, message("hi") | streamed(TOKENS))

    answers = await asyncio.gather(*(one() for _ in range(STREAMS)))
    assert {answer.fault for answer in answers} == {None}
    return {
        answer.request_id: ([event.at_seconds for event in answer.stream.token_events], answer.timing_error_seconds)
        for answer in answers
    }


async def plain(port: int, number: int) -> dict[str, list[float]]:
    """Stamps by request id, as a load generator takes them."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(name: str) -> tuple[str, list[float]]:
            stamps: list[float] = []
            url, held = f"http://127.0.0.1:{port}{CHAT_PATH}", b""
            async with session.post(url, json={}, headers={"X-Request-Id": name}) as response:
                async for piece in response.content.iter_any():
                    now = time.perf_counter()
                    *events, held = (held + piece).split(b"\n\n")
                    stamps += [now for event in events if b'"content"' in event and json.loads(event[6:])]
            return name, stamps

        return dict(await asyncio.gather(*(one(f"plain-{number}-{n}") for n in range(STREAMS))))


async def truth(port: int) -> dict[str, list[Written]]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/truth") as response:
        told: dict[str, list[Written]] = await response.json()
        return told


def bench(port: int, number: int, folder: Path) -> dict[str, list[float]]:
    """Stamps by request id, as `vllm bench serve` takes them: its clock is the one that all processes here share."""
    script, result = Path(__file__).parents[1] / "live" / "real_vllm.sh", folder / f"bench-{number}.json"
    options = {
        "backend": "openai-chat",
        "endpoint": CHAT_PATH,
        "num-prompts": STREAMS,
        "random-input-len": 8,
        "random-output-len": TOKENS,
        "request-id-prefix": f"bench-{number}-",
        "ready-check-timeout-sec": 0,
        "result-filename": result,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    command = ["bash", str(script), "bench", str(INSTALLED), str(port), "--save-result", "--save-detailed", *words]
    ended = subprocess.run([*command, "--disable-tqdm"], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    told = json.loads(result.read_text())
    return {
        f"bench-{number}-{n}": list(accumulate([ttft, *gaps], initial=start))[1:]
        for n, (start, ttft, gaps) in enumerate(zip(told["start_times"], told["ttfts"], told["itls"], strict=True))
    }


async def test_stamps_are_true_and_their_error_bars_hold(port: int, tmp_path: Path) -> None:
    """The bar holds the worst stamp of a stream in 99 of 100 streams, and is no more than 3 times as wide as needed.

    Below a tenth of a millisecond nobody asks how wide it is. What the network stack holds back when the machine has no
    time for it comes before the kernel's stamp, and stands in every client's figures: so 99 is printed, and 95 judged.
    """
    rounds: dict[str, list[Measured]] = {name: [] for name in ("ours", "plain client", "vllm bench serve")}
    for number in range(ROUNDS):
        mine, theirs = await ours(port), await plain(port, number)
        benchs = await asyncio.to_thread(bench, port, number, tmp_path) if INSTALLED is not None else {}
        told = await truth(port)
        one = Measured()
        for name, (stamps, bound) in mine.items():
            one.take(stamps, told[name], bound)
        rounds["ours"].append(one)
        for client, seen in (("plain client", theirs), ("vllm bench serve", benchs)):
            other = Measured()
            for name, stamps in seen.items():
                other.take(stamps, told[name])
            rounds[client] += [other] if seen else []
    canary = rounds["ours"]
    bounds = [bound for one in canary for bound in one.bounds]
    worst = [error for one in canary for error in one.worst]
    held = sum(bound >= error for bound, error in zip(bounds, worst, strict=True)) / len(bounds)
    width, needed = at(bounds, 0.5), at(worst, 0.95)
    print(f"\n{STREAMS} streams, {ROUNDS} rounds; median of the rounds, ms")
    print(f"{'':<18}{'|TTFT error| p50':>18}{'p99':>9}{'|ITL error| p50':>18}{'p99':>9}")
    figures = {
        name: [_middle(found, of, q) for of in ("ttft", "gaps") for q in (0.5, 0.99)]
        for name, found in rounds.items()
        if found
    }
    for name, (ttft, ttft_tail, gap, gap_tail) in figures.items():
        print(f"{name:<18}{ttft * 1e3:>18.3f}{ttft_tail * 1e3:>9.3f}{gap * 1e3:>18.3f}{gap_tail * 1e3:>9.3f}")
    print(f"bar holds in {held:.1%} of streams (wanted: 99 %)")
    print(f"median bar {width * 1e3:.3f} ms, true p95 {needed * 1e3:.3f} ms")
    best = [min(values) for values in zip(*(found for name, found in figures.items() if name != "ours"), strict=True)]
    assert held >= 0.95
    assert width <= max(3 * needed, 0.0001)
    for mine_, theirs_ in zip(figures["ours"], best, strict=True):
        assert mine_ <= max(1.1 * theirs_, FLOOR_SECONDS)


def _middle(rounds: Sequence[Measured], of: str, ratio: float) -> float:
    return at([at(getattr(one, of), ratio) for one in rounds], 0.5)


def at(values: Sequence[float], ratio: float) -> float:
    found = percentile(sorted(values), ratio)
    assert found is not None
    return found
