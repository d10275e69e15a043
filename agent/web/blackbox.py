"""/probe?target=URL: one canary per scrape, answered as Prometheus text, as blackbox_exporter does.

`target` is the base address of a watched target, or its name; other addresses only where the agent was started to allow
them, since every canary costs tokens and an open /probe would let anyone aim requests from inside the network.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.aiohttp import make_aiohttp_handler

from agent.web.actions import Actions
from agent.web.guard import refusal
from probes.canary.report import probe_json
from probes.sample import ProbeResult

MOST_AT_ONCE = 4
"""Canaries that /probe may have running; more are turned away rather than queued, or they would measure each other."""
DEFAULT_TIMEOUT_SECONDS = 60.0
TIMEOUT_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
TIMEOUT_MARGIN_SECONDS = 0.5  # as blackbox_exporter's --timeout-offset: the answer must still reach Prometheus
DEFAULT_PORTS = {"http": 80, "https": 443}


def routes(actions: Actions, *, any_address: bool) -> list[web.RouteDef]:
    """/probe; `any_address` opens it to addresses that are not configured."""
    running = asyncio.Semaphore(MOST_AT_ONCE)

    async def probe(request: web.Request) -> web.StreamResponse:
        asked = request.query.get("target", "")
        if not asked:
            fix = "Write /probe?target=http://vllm-0:8000."
            return refusal(HTTPStatus.BAD_REQUEST, "no target is given", request.path, fix)
        url = _known_url(asked, actions.target_urls())
        if url is None and _origin(asked) is None:
            fix = "Write an address such as http://vllm-0:8000, or the name of a watched target."
            return refusal(HTTPStatus.BAD_REQUEST, f'target is "{asked}"', request.path, fix)
        if url is None and not any_address:
            fix = "Add it to targets in the config, then reload."
            return refusal(HTTPStatus.FORBIDDEN, f'"{asked}" is not a watched target', request.path, fix)
        if running.locked():
            fix = "Ask again when they have ended."
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, f"{MOST_AT_ONCE} probes are running", request.path, fix)
        async with running:
            loop = asyncio.get_running_loop()
            started = loop.time()
            result = await _result(actions, url or asked, request)
            figures = _figures(result, loop.time() - started)
        return await make_aiohttp_handler(figures)(request)

    return [web.get("/probe", probe)]


async def _result(actions: Actions, url: str, request: web.Request) -> ProbeResult | str:
    try:
        async with asyncio.timeout(_timeout_seconds(request)):
            return await actions.probe(url, request.query.get("model") or None)
    except TimeoutError:
        return "scrape_timeout"


def _timeout_seconds(request: web.Request) -> float:
    try:
        asked = float(request.headers.get(TIMEOUT_HEADER, ""))
    except ValueError:
        return DEFAULT_TIMEOUT_SECONDS
    return max(asked - TIMEOUT_MARGIN_SECONDS, TIMEOUT_MARGIN_SECONDS) if asked > 0 else DEFAULT_TIMEOUT_SECONDS


def _known_url(asked: str, urls: Mapping[str, str]) -> str | None:
    """The configured address meant by a name or by the same address in another spelling."""
    if asked in urls:
        return urls[asked]
    origin = _origin(asked)
    return next((url for url in urls.values() if origin is not None and _origin(url) == origin), None)


def _origin(url: str) -> tuple[str, str, int, str] | None:
    """Scheme, host, port and path; None for what is no plain http(s) address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username or parts.password or parts.query:
        return None
    return parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/")


def _figures(result: ProbeResult | str, duration_seconds: float) -> CollectorRegistry:
    """A registry of this one probe; what is not known has no series."""
    registry = CollectorRegistry()
    is_ok = isinstance(result, ProbeResult) and result.is_ok
    outcome = result.outcome if isinstance(result, ProbeResult) else result
    Gauge("probe_success", "1 if the canary was served well, else 0.", registry=registry).set(is_ok)
    Gauge("probe_duration_seconds", "How long the whole probe took.", registry=registry).set(duration_seconds)
    told = Gauge("slo_agent_probe_outcome", "1 for how the probe ended.", ["outcome"], registry=registry)
    told.labels(outcome).set(1)
    if isinstance(result, ProbeResult):
        _add_figures(registry, probe_json(result))
    return registry


def _add_figures(registry: CollectorRegistry, probe: Mapping[str, object]) -> None:
    for name, meaning in (
        ("ttft_seconds", "From sending the request to its first token."),
        ("first_event_seconds", "From sending the request to its first event, be it without a token."),
        ("first_text_seconds", "From sending the request to its first visible text."),
        ("tpot_seconds", "Mean time per output token after the first."),
        ("e2e_seconds", "From sending the request to its last token."),
        ("output_tokens", "Tokens in the answer."),
        ("prompt_tokens", "Tokens in the prompt."),
        ("cached_tokens", "Prompt tokens that came from a cache."),
        ("timing_error_seconds", "How far the client itself can have moved a time stamp."),
    ):
        value = probe[name]
        if isinstance(value, int | float):
            Gauge(f"slo_agent_probe_{name}", meaning, registry=registry).set(value)
    _add_parts(registry, probe["itl_seconds"], "itl_seconds", "stat", "Gaps between tokens: p50, p99, max.")
    _add_parts(registry, probe["phases"], "phase_seconds", "phase", "Parts of the time before the answer's head.")


def _add_parts(registry: CollectorRegistry, parts: object, name: str, label: str, meaning: str) -> None:
    known = {k: v for k, v in parts.items() if isinstance(v, int | float)} if isinstance(parts, Mapping) else {}
    if known:
        gauge = Gauge(f"slo_agent_probe_{name}", meaning, [label], registry=registry)
        for part, value in known.items():
            gauge.labels(part).set(value)
