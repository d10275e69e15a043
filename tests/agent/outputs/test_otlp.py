"""OTLP: the same names and values as on the Prometheus page, and nobody waits for a collector."""

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from fake_alertmanager import until
from filled_view import FILLED, FakeView, histogram
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client import CollectorRegistry

from agent.config_outputs import OtlpOutput
from agent.outputs.otlp import OtlpExport
from agent.outputs.prometheus import ViewCollector
from agent.outputs.self_metrics import SelfMetrics
from agent.signals.model import LatencyTotal


class FakeCollector:
    """Takes OTLP/HTTP exports; `gate` holds its answers back until it is set."""

    def __init__(self) -> None:
        self.exports: list[ExportMetricsServiceRequest] = []
        self.status = 200
        self.gate = asyncio.Event()
        self.gate.set()
        self.app = web.Application()
        self.app.router.add_post("/v1/metrics", self._take)

    async def _take(self, request: web.Request) -> web.Response:
        self.exports.append(ExportMetricsServiceRequest.FromString(await request.read()))
        await self.gate.wait()
        return web.Response(status=self.status)

    def metrics(self) -> dict[str, Metric]:
        """The newest export by metric name."""
        scopes = self.exports[-1].resource_metrics[0].scope_metrics
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector()


@pytest.fixture
async def endpoint(aiohttp_server: Callable[..., Awaitable[Any]], collector: FakeCollector) -> str:
    return str((await aiohttp_server(collector.app)).make_url("/v1/metrics"))


@pytest.fixture
def own() -> SelfMetrics:
    return SelfMetrics(CollectorRegistry())


def outcomes(own: SelfMetrics) -> dict[str, float]:
    return {point.labels[1]: point.value for point in own.points() if point.labels[0] == "otlp"}


async def test_the_export_has_every_name_of_the_prometheus_page(
    collector: FakeCollector, endpoint: str, own: SelfMetrics
) -> None:
    registry = CollectorRegistry()
    ViewCollector(FILLED, registry)
    own.job_missed("tick")
    export = OtlpExport(OtlpOutput(endpoint=endpoint), FILLED, own, node="gpu-7")
    export.push()
    await until(lambda: outcomes(own) == {"ok": 1.0})
    await export.stop()
    on_the_page = {f"{f.name}_total" if f.type == "counter" else f.name for f in registry.collect()}
    assert set(collector.metrics()) == on_the_page | {"slo_agent_missed_jobs_total"}
    resource = collector.exports[0].resource_metrics[0].resource
    assert {one.key: one.value.string_value for one in resource.attributes} == {
        "service.name": "slo-agent",
        "service.version": "1.2.3",
        "host.name": "gpu-7",
    }


async def test_counters_are_cumulative_sums_and_gauges_are_gauges(
    collector: FakeCollector, endpoint: str, own: SelfMetrics
) -> None:
    export = OtlpExport(OtlpOutput(endpoint=endpoint), FILLED, own)
    export.push()
    await until(lambda: outcomes(own) == {"ok": 1.0})
    await export.stop()
    events = collector.metrics()["slo_agent_events_total"]
    assert (events.sum.is_monotonic, events.sum.aggregation_temporality) == (True, 2)
    assert [point.as_double for point in events.sum.data_points] == [900.0, 90.0, 10.0]
    assert all(0 < point.start_time_unix_nano <= point.time_unix_nano for point in events.sum.data_points)
    budget = collector.metrics()["slo_agent_error_budget_remaining_ratio"]
    assert (budget.unit, [point.as_double for point in budget.gauge.data_points]) == ("1", [0.25])
    assert collector.metrics()["slo_agent_burn_rate"].unit == ""


async def test_a_histogram_keeps_its_buckets(collector: FakeCollector, endpoint: str, own: SelfMetrics) -> None:
    """Cumulative 2, 5, 6 over 0.1 s, 1 s and infinity is 2, 3 and 1 by bucket; a sum that is not known is absent."""
    latencies = [
        LatencyTotal("a", "engine", histogram("ttft_seconds", (2.0, 5.0, 6.0))),
        LatencyTotal("b", "engine", histogram("ttft_seconds", (2.0, 5.0, 6.0), total=None)),
    ]
    export = OtlpExport(OtlpOutput(endpoint=endpoint), FakeView(latencies=latencies), own)
    export.push()
    await until(lambda: outcomes(own) == {"ok": 1.0})
    await export.stop()
    known, unknown = collector.metrics()["slo_agent_ttft_seconds"].histogram.data_points
    assert (list(known.bucket_counts), list(known.explicit_bounds)) == ([2, 3, 1], [0.1, 1.0])
    assert (known.count, known.sum) == (6, 6.5)
    assert (unknown.count, unknown.HasField("sum"), unknown.HasField("min")) == (6, False, False)


async def test_pushes_to_a_collector_that_hangs_wait_for_nothing_and_are_bounded(
    collector: FakeCollector, endpoint: str, own: SelfMetrics
) -> None:
    """One is under way, one waits, three were replaced by newer ones."""
    collector.gate.clear()
    export = OtlpExport(OtlpOutput(endpoint=endpoint, timeout_seconds=30), FakeView(), own)
    export.push()
    await until(lambda: len(collector.exports) == 1)
    begun = time.monotonic()
    for _ in range(4):
        export.push()
    assert time.monotonic() - begun < 0.2
    assert outcomes(own) == {"dropped": 3.0}
    collector.gate.set()
    await until(lambda: outcomes(own) == {"dropped": 3.0, "ok": 2.0})
    await export.stop()


@pytest.mark.parametrize("waiting", [0, 1])
async def test_stop_returns_in_time_though_the_collector_hangs(
    collector: FakeCollector, endpoint: str, own: SelfMetrics, waiting: int
) -> None:
    collector.gate.clear()
    export = OtlpExport(OtlpOutput(endpoint=endpoint, timeout_seconds=0.3), FakeView(), own)
    export.push()
    await until(lambda: len(collector.exports) == 1)
    for _ in range(waiting):
        export.push()
    begun = time.monotonic()
    await export.stop()
    assert time.monotonic() - begun < 0.3 + 0.3
    collector.gate.set()


async def test_stop_sends_what_still_waits(collector: FakeCollector, endpoint: str, own: SelfMetrics) -> None:
    export = OtlpExport(OtlpOutput(endpoint=endpoint), FakeView(), own)
    export.push()
    await export.stop()
    assert len(collector.exports) == 1


async def test_trouble_and_its_end_are_one_log_line_each(
    collector: FakeCollector, endpoint: str, own: SelfMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collector.status = 400
    export = OtlpExport(OtlpOutput(endpoint=endpoint), FakeView(), own)
    for tries in (1.0, 2.0):
        export.push()
        await until(lambda tries=tries: outcomes(own).get("failed") == tries)
    collector.status = 200
    export.push()
    await until(lambda: outcomes(own).get("ok") == 1.0)
    await export.stop()
    lines = [record.getMessage().split(" collector=")[0] for record in caplog.records if record.levelno >= logging.INFO]
    assert [line for line in lines if "otlp" in line] == ["otlp collector not reached", "otlp collector reached again"]


BLACK_HOLE = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
connection.sendall(b"HTTP/1.1 200 OK\\r\\n")
for number in range(300):
    connection.sendall(b"X-Header-%d: x\\r\\n" % number)
    time.sleep(0.2)
"""


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A server in a process of its own whose answer never ends: every read gets something, so none times out."""
    process = subprocess.Popen([sys.executable, "-c", BLACK_HOLE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1/metrics"
    process.kill()
    process.wait()
    process.stdout.close()


STOPPING_AGENT = """
import asyncio, sys
sys.path.insert(0, {folder!r})
from filled_view import FakeView
from prometheus_client import CollectorRegistry
from agent.config_outputs import OtlpOutput
from agent.outputs.otlp import OtlpExport
from agent.outputs.self_metrics import SelfMetrics

async def main():
    config = OtlpOutput(endpoint={endpoint!r}, timeout_seconds=0.5)
    export = OtlpExport(config, FakeView(), SelfMetrics(CollectorRegistry()))
    export.push()
    await export.stop()

asyncio.run(main())
"""


def test_the_process_ends_though_the_collector_is_a_black_hole(black_hole: str) -> None:
    """Start-up and stop together; an export that is abandoned keeps no process alive."""
    code = STOPPING_AGENT.format(folder=str(__file__.rpartition("/")[0]), endpoint=black_hole)
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=15, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
