"""`vllm bench serve` against the simulator: what the bench measures beside the simulator's own truth per request.

Run: python tests/benchmarks/simulator_bench_serve.py --vllm-python PYTHON --tokenizer DIR, where PYTHON has vllm's
bench client installed. Judged: the medians of TTFT, TPOT and E2E agree to 2 ms. Exit code 1 when they do not.
"""

# ruff: noqa: T201 - a benchmark prints, and starts the programs it compares

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

AGREEMENT_SECONDS = 0.002


def main() -> int:
    """Serve, let the bench run, and print three medians from both sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm-python", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--port", type=int, default=18_470)
    parser.add_argument("--num-prompts", type=int, default=60)
    parser.add_argument("--request-rate", default="4")
    args = parser.parse_args()
    base = f"http://127.0.0.1:{args.port}"
    server = [sys.executable, "-m", "agent.simulator.command", "--serve", "--port", str(args.port), "--model", "tiny"]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(server) as serving:
        try:
            _wait(base)
            _bench(args, base, folder)
            told = json.loads((Path(folder) / "bench.json").read_text(encoding="utf-8"))
            truth = _get(base + "/control/requests")["requests"][-args.num_prompts :]
        finally:
            serving.terminate()
    theirs = {
        "ttft": statistics.median(told["ttfts"]),
        "tpot": told["median_tpot_ms"] / 1000,
        "e2e": told["median_e2el_ms"] / 1000,
    }
    good = told["completed"] == args.num_prompts
    for name, measured in theirs.items():
        own = statistics.median(request[f"{name}_seconds"] for request in truth)
        off = measured - own
        good = good and abs(off) <= AGREEMENT_SECONDS
        print(f"median {name}: bench {measured * 1000:.2f} ms, simulator {own * 1000:.2f} ms, off {off * 1000:+.2f} ms")
    return 0 if good else 1


def _bench(args: argparse.Namespace, base: str, folder: str) -> None:
    command = [args.vllm_python, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai"]
    command += ["--base-url", base, "--model", "tiny", "--tokenizer", args.tokenizer, "--dataset-name", "random"]
    command += ["--random-input-len", "512", "--random-output-len", "100", "--ignore-eos"]
    command += ["--num-prompts", str(args.num_prompts), "--request-rate", args.request_rate]
    command += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--save-detailed"]
    command += ["--result-dir", folder, "--result-filename", "bench.json"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait(base: str) -> None:
    for _ in range(100):
        try:
            _get(base + "/v1/models")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(base)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own server
        return json.load(response)


if __name__ == "__main__":
    raise SystemExit(main())
