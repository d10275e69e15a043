"""A span receiver beside a real vLLM: what its server says of each request of a bench, exactly."""

import asyncio
import threading

from live_process import until

from probes.spans.receiver import SpanReceiver
from probes.spans.result import SpanResult

WAIT_SECONDS = 60.0


def traced_environment(protocol: str) -> dict[str, str]:
    """What vLLM's exporter reads: the protocol ("grpc" or "http/protobuf"), and whose spans these are."""
    return {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_BSP_SCHEDULE_DELAY": "500",
        "OTEL_RESOURCE_ATTRIBUTES": "slo_agent.target=engine,gen_ai.request.model=tiny,k8s.pod.name=tiny-0",
    }


class Listening:
    """A receiver on a loop in a thread of its own, as the agent's loop is to vLLM."""

    def __init__(self) -> None:
        self.spans: list[SpanResult] = []
        self.receiver = SpanReceiver(deliver=self.spans.extend, grpc="127.0.0.1:0", http="127.0.0.1:0")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.receiver.start(), self._loop).result(WAIT_SECONDS)

    def options(self, protocol: str) -> tuple[str, ...]:
        """What `vllm serve` is told, so that it traces to us."""
        if protocol == "grpc":
            return ("--otlp-traces-endpoint", f"http://127.0.0.1:{self.receiver.grpc_port}")
        return ("--otlp-traces-endpoint", f"http://127.0.0.1:{self.receiver.http_port}/v1/traces")

    def of_bench(self, prefix: str, requests: int) -> list[SpanResult]:
        """The spans of one bench in its order. It sends its `--request-id-prefix` and a number as X-Request-Id."""
        ids = [f"{prefix}{number}" for number in range(requests)]

        def look() -> list[SpanResult] | None:
            by_id = {one.client_request_id: one for one in list(self.spans)}
            return [by_id[one] for one in ids] if by_id.keys() >= set(ids) else None

        return until(f"all {requests} spans of {prefix}* have come", WAIT_SECONDS, look)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.receiver.stop(), self._loop).result(WAIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()
