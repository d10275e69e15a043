"""The embedding canary: the vector of one fixed text, which must be a vector, and the same one every time."""

import json
import math
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from probes.canary.failure import failure_of_body
from probes.canary.item import CanaryItem, Cost, text_tokens
from probes.canary.task import ProbeTask
from probes.canary.visit import Visit, fresh_request_id
from probes.canary.whole import Body, Whole, whole_answer
from probes.sample import ProbeResult, SentRequest
from probes.stream import StreamFault
from probes.units import Seconds

EMBEDDINGS_PATH: Final = "/v1/embeddings"
LEAST_COSINE: Final = 0.98  # of one text's vectors by one model; batching moves digits, a broken model moves the vector


class EmbeddingCanary(CanaryItem):
    """The vector of one fixed text: for embedding models, which answer no chat."""

    is_dear: ClassVar[bool] = False

    kind: Literal["embedding"] = "embedding"
    interval_seconds: Seconds = Field(60, description="Planned time between two canaries on one target, seconds.")
    prompt: str = Field("The quick brown fox jumps over the lazy dog.", min_length=1, description="What is embedded.")

    def cost(self) -> Cost:
        """The text alone; nothing is generated."""
        return Cost(1, text_tokens(self.prompt), 0, 0)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The text."""
        return replace(CanaryItem.fill(self, task), prompt=self.prompt)


async def run(visit: Visit) -> ProbeResult:
    """One vector. What is no list of finite numbers is `protocol`; zeros, or another length than before, are wrong."""
    said = {"model": visit.model, "input": visit.task.prompt, "encoding_format": "float"}
    request_id = fresh_request_id()
    whole = await whole_answer(visit, visit.request(EMBEDDINGS_PATH, said, request_id))
    done = whole.done
    document = _document(bytes(whole.body.content)) if done.fault is None else None
    vector = _vector(document)
    fault = done.fault or _fault_of_body(whole.body, document, vector)
    first = visit.memory.vectors.setdefault((visit.base, visit.model, visit.task.prompt), vector) if vector else None
    fault = fault or _fault_of_vector(vector, first)
    if fault is not None and first is vector:
        visit.memory.vectors.pop((visit.base, visit.model, visit.task.prompt), None)  # a broken one is no measure
    sent = _sent(visit, whole, document)
    return ProbeResult(
        target=visit.task.target,
        kind=visit.task.kind,
        outcome="ok" if fault is None else fault.outcome,
        planned_at_seconds=visit.task.planned_at_seconds,
        at_seconds=visit.at_seconds,
        model=visit.model,
        e2e_seconds=whole.took_seconds if fault is None else None,
        prompt_tokens=_count(document, "prompt_tokens"),
        output_tokens=0 if fault is None else None,
        timing_error_seconds=whole.timing_error_seconds,
        phases=done.phases(),
        detail="" if fault is None else visit.redacted(fault.detail),
        figures={
            "dimension": float(len(vector)) if vector else None,
            "norm": math.hypot(*vector) if vector else None,
            "cosine": _cosine(vector, first),
        },
        sent=() if sent is None else (sent,),
        rank=visit.task.rank,
        request_id=request_id,
    )


def _sent(visit: Visit, whole: Whole, document: Any) -> SentRequest | None:
    """What the engine has counted of it; None where nothing was sent.

    vLLM counts a pooling request as one that ends with its first token: the same TTFT and E2E, no token, a TPOT of 0,
    "stop". Measured on 0.32 (tests/live/test_real_embedding.py). The head of such an answer comes with its end, and
    says nothing of the time before the engine's clock began.
    """
    stamps, took, clock = whole.done.stamps, whole.took_seconds, visit.clock
    if "sent" not in stamps:
        return None
    to_unix = clock.now_seconds() - clock.monotonic_seconds()
    sent_at, is_answered = stamps["sent"] + to_unix, whole.done.status == 200 and took is not None
    return SentRequest(
        sent_at_seconds=sent_at,
        ended_at_seconds=clock.now_seconds(),
        model=visit.model,
        first_token_at_seconds=sent_at + took if is_answered and took is not None else None,
        ttft_seconds=took,
        e2e_seconds=took,
        prompt_tokens=_count(document, "prompt_tokens"),
        cached_tokens=_count(document, "prompt_tokens_details", "cached_tokens"),
        output_tokens=0,
        finish_reason="stop" if is_answered else "",
        timing_error_seconds=whole.timing_error_seconds or 0.0,
        rank=visit.task.rank,
        target=visit.task.target,
    )


def _count(document: Any, *path: str) -> int | None:
    """A count of the answer's usage; None where there is none."""
    found = document
    for name in ("usage", *path):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _document(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _vector(document: Any) -> tuple[float, ...] | None:
    """The first vector of an answer, where it is a list of finite numbers."""
    try:
        numbers = document["data"][0]["embedding"]
    except (LookupError, TypeError):
        return None
    if not isinstance(numbers, list) or not numbers:
        return None
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers):
        return None
    return tuple(float(n) for n in numbers)


def _fault_of_body(body: Body, document: Any, vector: tuple[float, ...] | None) -> StreamFault | None:
    if vector is not None:
        return None
    if isinstance(document, dict) and "data" in document:
        return StreamFault("protocol", "the embedding is no list of finite numbers")
    return failure_of_body(body.content_type, bytes(body.content))


def _fault_of_vector(vector: tuple[float, ...] | None, first: tuple[float, ...] | None) -> StreamFault | None:
    if vector is None:
        return None
    if not any(vector):
        return StreamFault("wrong_answer", "the embedding is all zeros")
    if first is not None and len(first) != len(vector):
        return StreamFault("wrong_answer", f"the embedding has {len(vector)} numbers, it had {len(first)} before")
    cosine = _cosine(vector, first)
    if cosine is not None and cosine < LEAST_COSINE:
        return StreamFault("drift", f"the embedding of one text has a cosine of {cosine:.3f} with the one of before")
    return None


def _cosine(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> float | None:
    if not one or not other or len(one) != len(other):
        return None
    norms = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / norms if norms else None
