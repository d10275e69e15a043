"""The models canary, the cheapest: is the front end alive, and what does it list? It asks the engine nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from pydantic import Field

from probes.canary.failure import failure_of_body
from probes.canary.item import CanaryItem, Cost
from probes.canary.visit import Visit
from probes.canary.whole import Whole, whole_answer
from probes.sample import ProbeResult
from probes.stream import StreamFault
from probes.units import Seconds

MODELS_PATH: Final = "/v1/models"
_MAX_NAME_CHARACTERS: Final = 512


class ModelsCanary(CanaryItem):
    """GET /v1/models: costs no token. Beside chat it tells a dead engine from a dead server."""

    is_dear: ClassVar[bool] = False

    kind: Literal["models"] = "models"
    interval_seconds: Seconds = Field(30, description="Planned time between two canaries on one target, seconds.")

    def cost(self) -> Cost:
        """Nothing of the engine."""
        return Cost(requests=1)


@dataclass(frozen=True, slots=True)
class Listed:
    """The names a server lists, at least one, or the fault why there is none."""

    names: tuple[str, ...]
    fault: StreamFault | None
    whole: Whole
    parents: Mapping[str, str] = field(default_factory=dict)  # of LoRA adapters: the model they belong to


async def run(visit: Visit) -> ProbeResult:
    """One look at the list. A model that the config names and the list lacks is `model_not_found`."""
    found = await listed(visit)
    fault, wanted = found.fault, visit.task.model
    if fault is None and wanted is not None and wanted not in found.names:
        fault = StreamFault("model_not_found", f"/v1/models does not list {wanted}")
    whole = found.whole
    return ProbeResult(
        target=visit.task.target,
        kind=visit.task.kind,
        outcome="ok" if fault is None else fault.outcome,
        planned_at_seconds=visit.task.planned_at_seconds,
        at_seconds=visit.at_seconds,
        model=wanted or (found.names[0] if found.names else ""),
        timing_error_seconds=whole.timing_error_seconds,
        phases=whole.done.phases(),
        detail="" if fault is None else visit.redacted(fault.detail),
        figures={
            "response_seconds": whole.took_seconds if found.fault is None else None,
            "models": float(len(found.names)) if found.fault is None else None,
        },
    )


async def listed(visit: Visit) -> Listed:
    """The models of a server."""
    whole = await whole_answer(visit, visit.request(MODELS_PATH))
    if whole.done.fault is not None:
        return Listed((), whole.done.fault, whole)
    content = bytes(whole.body.content)
    try:
        cards = json.loads(content)["data"]
        names = tuple(card["id"] for card in cards)
        parents = {card["id"]: card["parent"] for card in cards if _is_name(card.get("parent"))}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        names, parents = (), {}
    names = tuple(name for name in names if _is_name(name))
    if names:
        return Listed(names, None, whole, parents)
    if content.lstrip().startswith(b"{"):
        return Listed((), StreamFault("no_model", "lists no model"), whole)
    return Listed((), failure_of_body(whole.body.content_type, content), whole)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARACTERS and name.isprintable()
