"""The strings behind the stage: scale the fleet, change the load, see how it stands."""

import json
from typing import Any, get_args

from aiohttp import web

from agent.simulator.ask import Sequence
from agent.simulator.faults import Fault, Kind
from agent.simulator.lmcache_page import lmcache_page
from agent.simulator.real_time import RealTime
from agent.simulator.tier import CacheTier
from agent.simulator.workload import OpenLoop


class ControlApi:
    """Routes to change the fleet and its load, and to see the truth.

    `POST /control/replicas {"count": N, "role": R}`, `POST /control/load {"rate_per_second": R}`,
    `POST /control/fault {"kind": K, "index": I, "seconds": S, "value": V}`, `GET /control/status`;
    `GET /control/requests` is the truth per request, as far as it came over HTTP; beside a cache tier,
    `GET /control/lmcache/metrics` is the page of its server.
    """

    def __init__(self, real_time: RealTime, tiers: tuple[CacheTier, ...] = ()) -> None:
        self._real_time = real_time
        self._tiers = tiers

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/control/replicas", self.replicas),
            web.post("/control/load", self.load),
            web.post("/control/fault", self.fault),
            web.get("/control/status", self.status),
            web.get("/control/requests", self.requests),
            web.get("/control/lmcache/metrics", self.lmcache),
        ]

    async def replicas(self, request: web.Request) -> web.Response:
        """Have so many replicas; new ones answer after their cold start."""
        count = await _number(request, "count")
        role = (await request.json()).get("role") if count is not None else None
        if count is None or count < 0 or count != int(count) or count > 64:
            return _wrong('expected {"count": N} with a whole number from 0 to 64')
        self._real_time.catch_up()
        self._real_time.fleet.scale(int(count), self._real_time.clock.now_seconds(), role)
        return web.json_response(self._state())

    async def load(self, request: web.Request) -> web.Response:
        """From now on, so many requests per second come from the workload inside."""
        rate = await _number(request, "rate_per_second")
        workload = self._real_time.fleet.workload
        if rate is None or rate < 0:
            return _wrong('expected {"rate_per_second": R} with R >= 0')
        if not isinstance(workload, OpenLoop):
            return _wrong("this simulation has no open-loop load to change; start it with --scenario or --rate")
        self._real_time.catch_up()
        workload.arrivals.rate = lambda _: rate
        return web.json_response(self._state())

    async def fault(self, request: web.Request) -> web.Response:
        """Begin a fault now: its kind, a replica's (or tier's) index, how long, and its value (see faults.py)."""
        try:
            body = await request.json()
            kind, index = body["kind"], int(body.get("index", 0))
            seconds, value = body.get("seconds"), float(body.get("value", 0.0))
            until = None if seconds is None else float(seconds)
        except (json.JSONDecodeError, KeyError, TypeError, ValueError):
            return _wrong('expected {"kind": K, "index": I, "seconds": S, "value": V}; all but kind may be missing')
        if kind not in get_args(Kind):
            return _wrong(f"kind is {kind!r}; expected one of {', '.join(get_args(Kind))}")
        if kind.startswith("tier_") and index >= len(self._tiers):
            return _wrong("this simulation has no such cache tier")
        self._real_time.catch_up()
        fleet = self._real_time.fleet
        Fault(kind, 0.0, index, until, value).lay_on(fleet, self._tiers, fleet.now_seconds)
        self._real_time.catch_up()
        return web.json_response(self._state())

    async def status(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        self._real_time.catch_up()
        return web.json_response(self._state())

    async def requests(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        """The truth of the last requests that came over HTTP: what each of them felt inside the simulator."""
        self._real_time.catch_up()
        return web.json_response({"requests": [_truth(sequence) for sequence in self._real_time.served]})

    async def lmcache(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        """The metrics page of the cache tier; 404 where there is none."""
        if not self._tiers:
            return web.json_response({"error": "this simulation has no cache tier"}, status=404)
        self._real_time.catch_up()
        replicas = self._real_time.fleet.replicas
        model = replicas[0].engine.config.model if replicas else ""
        return web.Response(text=lmcache_page(self._tiers[0], model))

    def _state(self) -> dict[str, Any]:
        fleet = self._real_time.fleet
        workload = fleet.workload
        rate = None
        if isinstance(workload, OpenLoop):
            rate = workload.arrivals.rate_at(fleet.now_seconds)
        return {
            "at": fleet.now_seconds,
            "lag_seconds": self._real_time.lag_seconds(),
            "rate_per_second": rate,
            "wanted": fleet.wanted,
            "cold_start_seconds": fleet.cold_start_seconds,
            "refused": fleet.refused,
            "replicas": [
                {
                    "index": replica.index,
                    "name": replica.name,
                    "role": replica.role,
                    "phase": replica.phase,
                    "ready_at": replica.ready_at_seconds,
                    "requests_running": replica.engine.requests_running,
                    "requests_waiting": replica.engine.requests_waiting,
                    "kv_usage_ratio": replica.engine.pool.usage_ratio,
                }
                for replica in fleet.replicas
            ],
        }


def _truth(sequence: Sequence) -> dict[str, Any]:
    first, last = sequence.first_token_at_seconds, sequence.last_token_at_seconds
    tokens = sequence.generated_tokens
    tpot = None if first is None or last is None or tokens < 2 else (last - first) / (tokens - 1)
    ended = sequence.ended_at_seconds
    return {
        "id": sequence.ask.id,
        "replica": sequence.replica,
        "state": sequence.state,
        "arrived_at": sequence.arrived_at_seconds,
        "prompt_tokens": sequence.ask.prompt_tokens,
        "cached_tokens": sequence.cached_tokens,
        "output_tokens": tokens,
        "preemptions": sequence.preemptions,
        "ttft_seconds": sequence.client_ttft_seconds,
        "tpot_seconds": tpot,
        "e2e_seconds": None if ended is None else ended - sequence.arrived_at_seconds,
    }


async def _number(request: web.Request, name: str) -> float | None:
    try:
        value = (await request.json())[name]
    except (json.JSONDecodeError, KeyError, TypeError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _wrong(message: str) -> web.Response:
    return web.json_response({"error": message}, status=400)
