"""The JSON interface: what the agent knows, under the names that scripts rely on.

Every answer has `at` (the tick it describes, null before the first) and the list or object it is named after.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from http import HTTPStatus

from aiohttp import web

from agent.canary_log import KEPT
from agent.outputs.jsonable import signals_json, snapshot_json
from agent.view import SignalsView, View
from agent.web.guard import dumps, refusal
from agent.web.history import History
from agent.web.memo import SignalsMemo
from agent.web.outcome_words import WORDS
from agent.web.paging import Paging
from agent.web.paths import PATHS
from agent.web.verdict import has_ticked, verdict
from probes.canary.flags import FLAGS
from probes.canary.report import probe_json
from probes.sample import ProbeResult

WINDOWS_SECONDS = (60, 300, 3600)
DEFAULT_WINDOW_SECONDS = 300


def routes(view: View, history: History, paging: Paging, note: str | None) -> list[web.RouteDef]:
    """All of /api/v1."""
    memo = SignalsMemo(view)

    async def status(_request: web.Request) -> web.Response:
        return _json(_status(view, paging, note))

    async def signals(request: web.Request) -> web.Response:
        window_seconds = _window_seconds(request)
        if window_seconds is None:
            return refusal(
                HTTPStatus.BAD_REQUEST,
                f'window_seconds is "{request.query["window_seconds"]}"',
                request.path,
                "Write one of 60, 300, 3600.",
            )
        return _json({"at": _at(view), **_signals(memo.signals(window_seconds))})

    async def probes(_request: web.Request) -> web.Response:
        results = view.recent_probes()
        listed = [probe_json(probe) for probe in results]
        return _json(
            {"at": _at(view), "complete_from": _complete_from(results), "probes": listed, "findings": _findings(view)}
        )

    async def gpus(_request: web.Request) -> web.Response:
        return _json({"at": _at(view), "gpus": [asdict(gpu) for gpu in view.gpu_pods()]})

    async def past(_request: web.Request) -> web.Response:
        return _json(history.as_json())

    async def outcomes(_request: web.Request) -> web.Response:
        return _json({"outcomes": WORDS, "flags": FLAGS})

    async def index(_request: web.Request) -> web.Response:
        return _json({"paths": [{"path": path, "about": about} for path, about in PATHS.items()]})

    parts: dict[str, Sequence[str]] = {part: (part,) for part in ("targets", "slos", "alerts", "capacity")}
    parts["recommendations"] = ("recommendations", "replicas")
    return [
        web.get("/api/v1", index),
        web.get("/api/v1/", index),
        web.get("/api/v1/outcomes", outcomes),
        web.get("/api/v1/status", status),
        web.get("/api/v1/signals", signals),
        web.get("/api/v1/probes", probes),
        web.get("/api/v1/gpus", gpus),
        web.get("/api/v1/history", past),
        *(web.get(f"/api/v1/{part}", _parts_of_snapshot(view, names)) for part, names in parts.items()),
    ]


def _parts_of_snapshot(view: View, names: Sequence[str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_request: web.Request) -> web.Response:
        whole = snapshot_json(view.snapshot())
        return _json({"at": _at(view), **{name: whole[name] for name in names}})

    return answer


def _status(view: View, paging: Paging, note: str | None) -> dict[str, object]:
    snapshot, now_seconds = view.snapshot(), view.now_seconds()
    said = verdict(snapshot, now_seconds, paging.sentence(now_seconds))
    return {
        "at": _at(view),
        "now": now_seconds,
        "version": view.version(),
        "ready": has_ticked(snapshot),
        "note": note,
        "verdict": {"level": said.level, "text": said.text, "details": list(said.details)},
        "targets": len(snapshot.targets),
        "slos": len(snapshot.slos),
        "alerts_firing": sum(alert.is_firing and alert.name != "Watchdog" for alert in snapshot.alerts),
    }


def _findings(view: View) -> list[dict[str, object]]:
    return [{"level": f.level, "target": f.target, "text": f.text} for f in view.canary_findings()]


def _complete_from(results: Sequence[ProbeResult]) -> float | None:
    """The stamp before which results were dropped, of the good or of the others; None while all are there."""
    logs: dict[tuple[str, bool], list[float]] = {}
    for one in results:
        logs.setdefault((one.target, one.is_ok), []).append(one.at_seconds)
    return max((min(stamps) for stamps in logs.values() if len(stamps) >= KEPT), default=None)


def _signals(seen: SignalsView) -> dict[str, object]:
    return {
        "window_seconds": seen.window_seconds,
        "targets": {name: {"signals": signals_json(signals)} for name, signals in seen.targets.items()},
        "total": {"signals": signals_json(seen.total)},
    }


def _window_seconds(request: web.Request) -> float | None:
    text = request.query.get("window_seconds", str(DEFAULT_WINDOW_SECONDS))
    return next((float(seconds) for seconds in WINDOWS_SECONDS if text == str(seconds)), None)


def _at(view: View) -> float | None:
    snapshot = view.snapshot()
    return snapshot.at_seconds if has_ticked(snapshot) else None


def _json(body: dict[str, object]) -> web.Response:
    response = web.json_response(body, dumps=dumps)
    response.enable_compression()
    return response
