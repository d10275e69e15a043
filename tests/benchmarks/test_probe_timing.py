"""How true are a canary's time stamps with 32 streams beside it: against the server's own, beside a plain client.

Alternating rounds; the plain client reads as load generators do, `iter_any` and a look at the clock after it. The error
of a TTFT is that of its first token's stamp; gaps are compared with the gaps between the server's writes.
"""

# ruff: noqa: T201 - a benchmark prints its table

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from probes.canary.prober import Prober
from probes.canary.report import percentile
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Answered, Visit, message, streamed
from probes.clock import SystemClock

STREAMS, ROUNDS, TOKENS = 32, 5, 24
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


async def test_stamps_are_true_and_their_error_bars_hold(port: int) -> None:
    """The bar holds the worst stamp of a stream in 99 of 100 streams, and is no more than 3 times as wide as needed.

    Below a tenth of a millisecond nobody asks how wide it is. What the network stack holds back when the machine has no
    time for it comes before the kernel's stamp, and stands in both clients' figures: so 99 is printed, and 95 judged.
    """
    canary, client = Measured(), Measured()
    for number in range(ROUNDS):
        mine, theirs = await ours(port), await plain(port, number)
        told = await truth(port)
        for name, (stamps, bound) in mine.items():
            canary.take(stamps, told[name], bound)
        for name, stamps in theirs.items():
            client.take(stamps, told[name])
    held = sum(bound >= worst for bound, worst in zip(canary.bounds, canary.worst, strict=True)) / len(canary.bounds)
    width, needed = at(canary.bounds, 0.5), at(canary.worst, 0.95)
    print(f"\n{STREAMS} streams, {ROUNDS} rounds    canary p50 / p99 ms    plain client p50 / p99 ms")
    for name, mine_, theirs_ in (("|TTFT error|", canary.ttft, client.ttft), ("|ITL error|", canary.gaps, client.gaps)):
        print(
            f"{name:<24} {at(mine_, 0.5) * 1e3:9.3f} / {at(mine_, 0.99) * 1e3:7.3f}"
            f"      {at(theirs_, 0.5) * 1e3:9.3f} / {at(theirs_, 0.99) * 1e3:7.3f}"
        )
    print(f"bar holds in {held:.1%} of streams (wanted: 99 %)")
    print(f"median bar {width * 1e3:.3f} ms, true p95 {needed * 1e3:.3f} ms")
    assert held >= 0.95
    assert width <= max(3 * needed, 0.0001)
    assert at(canary.ttft, 0.99) <= 1.1 * at(client.ttft, 0.99)
    assert at(canary.gaps, 0.9) <= 1.1 * at(client.gaps, 0.9)


def at(values: Sequence[float], ratio: float) -> float:
    found = percentile(sorted(values), ratio)
    assert found is not None
    return found
