"""OpenTelemetry metrics, pushed over OTLP/HTTP from a thread of its own: a collector that hangs holds up nobody."""

import asyncio
import logging
import queue
import threading
import time
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource

from agent.config_outputs import OtlpOutput
from agent.outputs.otlp_form import metrics_data
from agent.outputs.points import AnyPoint, presentable
from agent.outputs.self_metrics import SelfMetrics
from agent.outputs.view_points import view_points
from agent.view import View

log = logging.getLogger(__name__)


class OtlpExport:
    """At most one export is under way and one waits; a newer one replaces the one that waits, and that is counted.

    `node` is the name of this node, None for a fleet's agent. Outcomes ("ok", "failed", "dropped") go to
    `own.delivered("otlp", ...)`.
    """

    def __init__(self, config: OtlpOutput, view: View, own: SelfMetrics, *, node: str | None = None) -> None:
        self._config, self._view, self._own = config, view, own
        attributes = {"service.name": "slo-agent", "service.version": view.version()}
        self._resource = Resource(attributes | ({"host.name": node} if node else {}))
        self._started_at_seconds = time.time()
        self._exporter = OTLPMetricExporter(endpoint=config.endpoint, timeout=config.timeout_seconds)
        # The exporter logs every failed try; we log when the collector's state changes, and count the rest.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)
        self._waiting: queue.Queue[list[AnyPoint] | None] = queue.Queue(maxsize=1)
        self._is_reached = True
        self._thread = threading.Thread(target=self._export_all, name="otlp-export", daemon=True)
        self._thread.start()

    def push(self) -> None:
        """Read the view, and hand the points to the exporting thread. Never waits; call it where the view is safe."""
        self._replace_waiting([*presentable(view_points(self._view)), *presentable(self._own.points())])

    async def stop(self) -> None:
        """Give what waits a last chance; returns within `timeout_seconds`, whatever the collector does."""
        last_call = await asyncio.to_thread(self._finish, self._config.timeout_seconds)
        if not last_call:
            log.warning("otlp export abandoned timeout_seconds=%g", self._config.timeout_seconds)

    def _finish(self, timeout_seconds: float) -> bool:
        deadline_seconds = time.monotonic() + timeout_seconds
        try:
            self._waiting.put(None, timeout=timeout_seconds)
        except queue.Full:
            self._replace_waiting(None)
        self._thread.join(max(0.0, deadline_seconds - time.monotonic()))
        self._exporter.shutdown()
        return not self._thread.is_alive()

    def _replace_waiting(self, points: list[AnyPoint] | None) -> None:
        try:
            self._waiting.put_nowait(points)
        except queue.Full:
            self._own.delivered("otlp", "dropped")
            try:
                self._waiting.get_nowait()
                self._waiting.put_nowait(points)
            except (queue.Empty, queue.Full):
                return  # the thread took it in this very moment, or stop() came in between

    def _export_all(self) -> None:
        while (points := self._waiting.get()) is not None:
            data = metrics_data(points, self._resource, self._started_at_seconds, time.time())
            is_ok = self._exporter.export(data) is MetricExportResult.SUCCESS
            self._own.delivered("otlp", "ok" if is_ok else "failed")
            self._note(is_reached=is_ok)

    def _note(self, *, is_reached: bool) -> None:
        if is_reached == self._is_reached:
            return
        self._is_reached = is_reached
        where = urlsplit(self._config.endpoint).netloc.rpartition("@")[2]
        if is_reached:
            log.info("otlp collector reached again collector=%s", where)
        else:
            log.warning("otlp collector not reached collector=%s", where)
