"""The span receiver of an agent: listening where its config says, for as long as the agent runs."""

import aiohttp

from agent.config_watching import Spans
from agent.errors import UsageError
from agent.runtime import Agent
from probes.spans.forward import ForwardTarget
from probes.spans.receiver import ListenError, SpanReceiver


async def receive_spans(spans: Spans, agent: Agent, session: aiohttp.ClientSession) -> SpanReceiver:
    """The receiver, at work where the config wants one; the caller stops it. UsageError where it cannot listen."""
    forward = None
    if spans.forward is not None:
        forward = ForwardTarget(spans.forward.url, spans.forward.headers(), spans.forward.timeout_seconds)
    receiver = SpanReceiver(agent.take_spans, spans.grpc, spans.http, forward, session)
    if spans.grpc is None and spans.http is None:
        return receiver
    try:
        await receiver.start()
    except ListenError as error:
        raise UsageError(str(error), "Is another collector there? Set spans.grpc and spans.http.") from None
    agent.view.spans.is_listening = True
    agent.metrics.watch_spans(receiver.counts)
    return receiver
