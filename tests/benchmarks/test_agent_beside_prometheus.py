"""What the whole agent costs, beside a real Prometheus that scrapes the same eight busy engines every second.

CPU seconds and memory of all processes over the same stretch: seconds of a core, whatever else the machine does. Memory
is the proportional set size, in which pages that processes share count once; its peak is the largest of those seen.
"""

# ruff: noqa: T201 - a benchmark prints

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "live"))
from live_http import get_json, get_text
from live_parts import free_port, program
from live_process import Server, command_line, descendants

TARGETS = 8
WARM_SECONDS, SECONDS = 20.0, float(os.environ.get("SLO_AGENT_BENCH_SECONDS", "60"))
ASK_SECONDS = 10.0  # so often somebody reads the agent's own /metrics
MOST_CORE_RATIO, MOST_BYTES = 0.05, 150e6
TICKS = os.sysconf("SC_CLK_TCK")
SLOS = [
    {"name": "up", "sli": "availability", "objective_ratio": 0.999, "threshold_seconds": 300},
    {"name": "canary-up", "sli": "availability", "source": "canary", "objective_ratio": 0.99},
    {"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5},
    {"name": "tpot", "sli": "tpot", "objective_ratio": 0.99, "threshold_seconds": 0.05},
    {"name": "e2e", "sli": "e2e", "objective_ratio": 0.99, "threshold_seconds": 30},
    {"name": "goodput", "sli": "goodput", "objective_ratio": 0.95},
]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process: seconds of a core since its start, and the memory it has."""

    cpu_seconds: float
    memory_bytes: float


def cost(pid: int) -> Cost:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    pss = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
    return Cost((int(fields[11]) + int(fields[12])) / TICKS, float(pss) * 1024)


def costs(*roots: int) -> dict[int, Cost]:
    """Of these processes and all that they have started."""
    return {pid: cost(pid) for root in roots for pid in (root, *descendants(root))}


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[str]]:
    """Eight simulated engines behind ports of their own, all at work."""
    for first in range(19_100, 19_900, 100):
        load = ["--rate", "16", "--input-tokens", "500", "--output-tokens", "100", "--cold-start", "1"]
        where = ["--serve", "--replicas", str(TARGETS), "--port", str(first)]
        command = [sys.executable, "-m", "agent.cli", "simulate", *where, *load]
        server = Server(command, tmp_path / f"simulator-{first}.log")
        urls = [f"http://127.0.0.1:{first + number}" for number in range(TARGETS)]
        try:
            server.start_until("the engines answer", 60, lambda urls=urls: all(get_text(f"{u}/metrics") for u in urls))
        except AssertionError:
            server.kill()
            continue
        yield urls
        server.kill()
        return
    pytest.fail("no free ports for the engines")


def agent_on(urls: list[str], folder: Path) -> tuple[Server, str]:
    address = f"127.0.0.1:{free_port()}"
    config = {
        "targets": [{"name": f"v{number}", "url": url} for number, url in enumerate(urls)],
        "scrape": {"interval_seconds": 1, "timeout_seconds": 1},
        "slos": SLOS,
        "state": {"path": str(folder / "state.db")},
        "server": {"listen": address},
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(config))
    server = Server([sys.executable, "-m", "agent.cli", "run", "-c", folder / "agent.yaml"], folder / "agent.log")
    return server.start_until(
        "the agent answers", 60, lambda: get_text(f"http://{address}/metrics")
    ), f"http://{address}"


def prometheus_on(urls: list[str], folder: Path) -> Server:
    engines = [{"targets": [url.removeprefix("http://") for url in urls]}]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "vllm", "static_configs": engines}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [program("prometheus"), f"--config.file={folder / 'prometheus.yaml'}",
               f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]  # fmt: skip
    server = Server(command, folder / "prometheus.log")
    return server.start_until("Prometheus is ready", 60, lambda: get_text(f"http://{address}/-/ready"))


@pytest.mark.real
def test_the_whole_agent_costs_little_beside_a_prometheus(engines: list[str], tmp_path: Path) -> None:
    """8 targets at 1 s with tick, SLOs, canaries, state file and /metrics: under 5 % of a core and 150 MB."""
    agent, url = agent_on(engines, tmp_path)
    other = prometheus_on(engines, tmp_path)
    try:
        time.sleep(WARM_SECONDS)
        before, began = costs(agent.pid, other.pid), time.monotonic()
        pages, peaks = scrapes(url), dict.fromkeys(before, 0.0)
        while time.monotonic() - began < SECONDS:
            time.sleep(ASK_SECONDS)
            get_text(f"{url}/metrics")
            peaks = {pid: max(peak, cost(pid).memory_bytes) for pid, peak in peaks.items()}
        seconds, after = time.monotonic() - began, costs(agent.pid, other.pid)
        pages = scrapes(url) - pages
        names = {pid: command_line(pid) for pid in after}
        page = get_text(f"{engines[0]}/metrics")
        signals = get_json(f"{url}/api/v1/signals", window="60")
    finally:
        agent.stop()
        other.stop()
    spent = {pid: Cost(after[pid].cpu_seconds - was.cpu_seconds, peaks[pid]) for pid, was in before.items()}
    theirs = spent.pop(other.pid)
    whole = Cost(sum(part.cpu_seconds for part in spent.values()), sum(part.memory_bytes for part in spent.values()))
    lines = page.count("\n")
    print(
        f"\n{TARGETS} targets, {pages / seconds:.1f} pages/s of {len(page):,} bytes, {lines} lines, for {seconds:.0f} s"
    )
    table = [(names[pid][-60:], part) for pid, part in spent.items()]
    for name, one in [*table, ("the whole agent", whole), ("prometheus", theirs)]:
        print(f"  {name:<62} {one.cpu_seconds / seconds:6.2%} of a core  {one.memory_bytes / 1e6:6.1f} MB")
    ratios = whole.cpu_seconds / theirs.cpu_seconds, whole.memory_bytes / theirs.memory_bytes
    print(f"  agent / prometheus: {ratios[0]:.2f} times the CPU, {ratios[1]:.2f} times the memory")
    assert signals["total"]["signals"]["request_rate_per_second"] > 0
    assert pages / seconds > 0.9 * TARGETS, "it did not keep up"
    assert whole.cpu_seconds / seconds < MOST_CORE_RATIO
    assert whole.memory_bytes < MOST_BYTES


def scrapes(url: str) -> float:
    """Pages that the agent has read."""
    ok = [x for x in get_text(f"{url}/metrics").splitlines() if x.startswith('slo_agent_scrapes_total{outcome="ok"')]
    return sum(float(line.split()[-1]) for line in ok)
