"""A month in a recording, the same as OpenMetrics, and a real Prometheus that has it all in its blocks."""

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from live_http import get_json, get_text
from live_parts import ROOT, free_port, program
from live_process import Server

sys.path.insert(0, str(ROOT / "tests" / "agent"))

import h200
from fake_engine import FakeEngine

from probes.recording import Entry, RecordingWriter, read_entries

RECORDING, needs_h200 = h200.RECORDING, h200.needs_h200
DAY, SCRAPE_SECONDS = 86_400.0, 60.0
T0 = 1_799_971_200.0  # a midnight, and on the grid of every window
INSTANCE = "vllm-0:8000"
RECORDED = re.compile(r'(slo:\w+:\w+)\{slo="([^"]+)",service="[^"]+"\}')
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
INCIDENTS = [  # day, hour, minutes, bad share
    (5.0, 10, 12, 1.0),
    (9.0, 3, 240, 0.3),
    (14.0, 15, 600, 0.12),
    (20.0, 20, 35, 0.5),
    (26.0, 9, 45, 1.0),
]
RESTARTS = (3.25, 14.7, 22.0)  # days


def write_month(path: Path, days: float) -> None:
    """One engine, scraped each minute: more traffic by day than by night, incidents, and processes that begin anew."""
    writer, engine = RecordingWriter(path), FakeEngine("vllm-0", started_at_seconds=T0 - 3600)
    engine.finish(10_000_000)  # a counter near 0 is extrapolated otherwise by increase() than one that is far from it
    restarts = [T0 + day * DAY for day in RESTARTS]
    for step in range(int(days * DAY / SCRAPE_SECONDS) + 1):
        at = T0 + step * SCRAPE_SECONDS
        if restarts and at > restarts[0]:
            engine = FakeEngine("vllm-0", started_at_seconds=restarts.pop(0))
        hour = at % DAY / 3600
        count = round(60 * (4 + 3.7 * math.sin((hour - 9) / 24 * 2 * math.pi))) + step * 7919 % 5
        bad = min(count, round(count * _bad_share(at)) + (step % 97 == 0))
        engine.finish(count - bad, ttft=0.2, tpot=0.02, e2e=3.0)
        engine.finish(bad, ttft=7.0, tpot=0.2, e2e=40.0)
        kept = (line for line in engine.page().splitlines(keepends=True) if "iteration_tokens" not in line)
        writer.write(Entry(at, "vllm-0", "vllm", "".join(kept)))
    writer.close()


def _bad_share(at: float) -> float:
    for day, hour, minutes, share in INCIDENTS:
        began = T0 + day * DAY + hour * 3600
        if began < at <= began + minutes * 60:
            return share
    return 0.0002


def write_openmetrics(
    recording: Path, path: Path, instance_of: Callable[[str], str] = lambda _target: INSTANCE
) -> None:
    """A recording's pages as OpenMetrics with their times, and `up`: what a Prometheus would have scraped."""
    with path.open("w") as out:
        for entry in read_entries(recording):
            who = f'job="vllm",instance="{instance_of(entry.target)}"'
            stamp = f"{entry.at_seconds:.3f}"
            if entry.source == "scrape":
                out.write(f"up{{{who}}} 0 {stamp}\n")
            elif entry.source == "vllm":
                out.writelines(_lines(entry.body, who, stamp))
                out.write(f"up{{{who}}} 1 {stamp}\n")
        out.write("# EOF\n")


def _lines(page: str, who: str, stamp: str) -> Iterator[str]:
    for line in page.splitlines():
        sample = SAMPLE.match(line)
        if sample is not None and not sample[1].endswith("_created"):
            labels = f"{who},{sample[2]}" if sample[2] else who
            yield f"{sample[1]}{{{labels}}} {sample[3]} {stamp}\n"


class HistoryServer:
    """A real Prometheus over blocks; `adopt` adds further ones and starts it again."""

    def __init__(self, folder: Path) -> None:
        self.data, self._folder = folder / "data", folder
        self.url, self._server = "", Server([], folder / "prometheus.log")

    def load(self, openmetrics: Path) -> None:
        """Blocks of any length: one pass over the file for each."""
        command = [program("promtool"), "tsdb", "create-blocks-from", "--max-block-duration=960h"]
        command += ["openmetrics", openmetrics, self.data]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert ended.returncode == 0, ended.stderr[-2000:]

    def restart(self) -> None:
        self._server.stop()
        config = self._folder / "prometheus.yaml"
        config.write_text("global: {evaluation_interval: 1m}\n")
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        command = [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._server = Server(command, self._folder / "prometheus.log")
        self._server.start_until("Prometheus is ready", 120, lambda: get_text(f"{self.url}/-/ready"))

    def stop(self) -> None:
        self._server.stop()

    def values(self, expression: str, start: float, end: float, step: float) -> dict[float, float]:
        """The one series that the expression gives, by time."""
        found: dict[float, float] = {}
        while start <= end:
            until = min(end, start + 10_000 * step)
            query = {"query": expression, "start": f"{start}", "end": f"{until}", "step": f"{step}"}
            answer: dict[str, Any] = get_json(f"{self.url}/api/v1/query_range", **query)
            series = answer["data"]["result"]
            assert len(series) <= 1, expression
            found |= {float(at): float(value) for one in series for at, value in one["values"]}
            start = until + step
        return found


class Rules:
    """A rendered rule file whose recordings stand written out in every expression, so that any moment can be asked."""

    def __init__(self, rendered: str) -> None:
        rules = [rule for group in yaml.safe_load(rendered)["groups"] for rule in group["rules"]]
        self._recorded = {(rule["record"], rule["labels"]["slo"]): rule["expr"] for rule in rules if "record" in rule}
        self.alerts = [rule for rule in rules if rule.get("alert") == "SLOBurnRate"]

    def recorded(self, name: str, slo: str) -> str:
        return self.written_out(self._recorded[name, slo])

    def written_out(self, expression: str) -> str:
        """Each recorded series replaced by what it is recorded from."""
        return RECORDED.sub(lambda found: f"({self.recorded(found[1], found[2])})", expression)
