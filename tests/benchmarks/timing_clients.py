"""Other clients of the stamping server: a plain one, `vllm bench serve`, AIPerf. Stamps of each token by request id.

Their clocks are CLOCK_MONOTONIC, which all processes of a machine share. `vllm bench serve` needs a real vLLM
(SLO_AGENT_VLLM_DIR), AIPerf an installation of its own: `python -m venv DIR && DIR/bin/pip install aiperf`, then
SLO_AGENT_AIPERF=DIR/bin/aiperf, or `aiperf` on the PATH. Who is not installed is None, and not compared.
"""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import aiohttp

from probes.canary.visit import CHAT_PATH

STREAMS, TOKENS = 32, 24
RUN_SECONDS = 300.0
LIVE = Path(__file__).parents[1] / "live"
Stamps = dict[str, list[float]]


def installed_vllm() -> Path | None:
    """What real_vllm.sh installed."""
    named = os.environ.get("SLO_AGENT_VLLM_DIR")
    return Path(named) if named and Path(named, "installed").exists() else None


def installed_aiperf() -> Path | None:
    """The command of AIPerf, beside the Python that has it."""
    named = os.environ.get("SLO_AGENT_AIPERF") or shutil.which("aiperf")
    return Path(named).resolve() if named else None


async def plain(port: int, number: int) -> Stamps:
    """As a load generator takes them: `iter_any`, and a look at the clock after it."""
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


def bench(vllm: Path, port: int, number: int, folder: Path) -> Stamps:
    """As `vllm bench serve` takes them."""
    result = folder / f"bench-{number}.json"
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
    command = ["bash", str(LIVE / "real_vllm.sh"), "bench", str(vllm), str(port), "--save-result", "--save-detailed"]
    _run([*command, "--disable-tqdm", *words])
    told = json.loads(result.read_text())
    return {
        f"bench-{number}-{n}": list(accumulate([ttft, *gaps], initial=start))[1:]
        for n, (start, ttft, gaps) in enumerate(zip(told["start_times"], told["ttfts"], told["itls"], strict=True))
    }


def aiperf(command: Path, port: int, number: int, folder: Path) -> Stamps:
    """As AIPerf takes them: its raw records have the time of each message, and the id that it gave the request.

    It wants a tokenizer, which it would fetch: it is given one that its own Python makes.
    """
    tokenizer, results = folder / "tokenizer", folder / f"aiperf-{number}"
    if not tokenizer.exists():
        _run([str(command.with_name("python")), str(LIVE / "make_tiny_model.py"), str(tokenizer)])
    options = {
        "model": "m",
        "url": f"http://127.0.0.1:{port}",
        "endpoint-type": "chat",
        "concurrency": STREAMS,
        "request-count": STREAMS,
        "tokenizer": tokenizer,
        "prompt-input-tokens-mean": 8,
        "prompt-output-tokens-mean": TOKENS,
        "num-dataset-entries": 1,
        "export-level": "raw",
        "output-artifact-dir": results,
        "ui": "none",
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    flags = ("streaming", "use-server-token-count", "no-gpu-telemetry", "no-server-metrics")
    _run([str(command), "profile", *words, *(f"--{flag}" for flag in flags)])
    records = [json.loads(line) for line in (results / "profile_export_raw.jsonl").read_text().splitlines()]
    return {
        record["metadata"]["x_request_id"]: [
            response["perf_ns"] / 1e9
            for response in record["responses"]
            for packet in response["packets"]
            if '"content"' in (packet["value"] or "")
        ]
        for record in records
    }


def _run(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
