"""Sends the spans of finished requests to an OTLP/HTTP endpoint, in batches, as vLLM's exporter does."""

import asyncio

import aiohttp

from agent.simulator.ask import Sequence
from agent.simulator.spans import export_body

BATCH_SECONDS = 1.0  # real; OpenTelemetry's batch processor waits five
LARGEST_BATCH = 512  # OTEL_BSP_MAX_EXPORT_BATCH_SIZE's default
LARGEST_QUEUE = 2048  # OTEL_BSP_MAX_QUEUE_SIZE's default; what overflows is lost without a word, as there
TIMEOUT = aiohttp.ClientTimeout(total=5)


class SpanExporter:
    """Takes finished sequences, and posts them until cancelled."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._queue: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        """One more finished request; dropped when the queue is full."""
        if sequence.state == "finished" and len(self._queue) < LARGEST_QUEUE:
            self._queue.append(sequence)

    async def run(self) -> None:
        """Post what has gathered, batch by batch; what an endpoint refuses is lost."""
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            while True:
                await asyncio.sleep(BATCH_SECONDS)
                while self._queue:
                    batch, self._queue = self._queue[:LARGEST_BATCH], self._queue[LARGEST_BATCH:]
                    await self._post(session, export_body(batch))

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> None:
        headers = {"Content-Type": "application/x-protobuf"}
        try:
            async with session.post(self._endpoint, data=body, headers=headers) as response:
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            return
