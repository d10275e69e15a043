"""Tasks and results as JSON lines between the agent and the process that probes."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from probes.canary.task import Elsewhere, ProbeTask, Route
from probes.sample import ProbeResult, SentRequest


def task_line(number: int, task: ProbeTask) -> bytes:
    """One task; its token goes through the pipe, never through arguments or the environment."""
    return _line({"number": number, "task": asdict(task)})


def result_line(number: int, result: ProbeResult) -> bytes:
    """One result."""
    return _line({"number": number, "result": asdict_result(result)})


def read_task(line: bytes) -> tuple[int, ProbeTask]:
    """The task of a line that `task_line` wrote."""
    document = json.loads(line)
    task = document["task"]
    there = task["elsewhere"]
    elsewhere = None if there is None else Elsewhere(**{**there, "route": _route_of(there["route"])})
    return document["number"], ProbeTask(**{**task, "route": _route_of(task["route"]), "elsewhere": elsewhere})


def read_result(line: bytes) -> tuple[int, ProbeResult]:
    """The result of a line that `result_line` wrote."""
    document = json.loads(line)
    return document["number"], result_of(document["result"])


def asdict_result(result: ProbeResult) -> dict[str, Any]:
    """A result as plain JSON values, every field of it; `result_of` reads it back."""
    return {**asdict(result), "phases": dict(result.phases), "figures": dict(result.figures)}


def result_of(document: Mapping[str, Any]) -> ProbeResult:
    """The result that `asdict_result` wrote down."""
    tuples = {name: tuple(document[name]) for name in ("itl_gaps_seconds", "flags")}
    sent = tuple(_sent_of(one) for one in document.get("sent", ()))  # older recordings have none
    return ProbeResult(**{**document, **tuples, "sent": sent})


def _route_of(document: Mapping[str, Any]) -> Route:
    return Route(**{**document, "headers": tuple((name, value) for name, value in document["headers"])})


def _sent_of(document: Mapping[str, Any]) -> SentRequest:
    return SentRequest(**{**document, "itl_gaps_seconds": tuple(document["itl_gaps_seconds"])})


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
