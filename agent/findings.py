"""What the canaries of each target come to, in one sentence, and what comparing targets shows: where a fault lies.

A target's label `vantage` says what it is a view of: engine (a pod), service (its Service) or gateway. Targets of one
service with different vantages are compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final, Literal

from probes.canary.flags import FLAGS
from probes.canary.outcomes import OUTCOMES, is_bad
from probes.sample import ProbeResult

VANTAGES: Final = ("engine", "service", "gateway")
PLACES: Final = {  # what lies between a vantage and the one before it
    "engine": "the engine itself",
    "service": "the Service, or the way from it to the pods",
    "gateway": "the gateway, or the way from it to the Service",
}
NO_TOKEN: Final = ("head_timeout", "first_token_timeout", "stall_timeout", "total_timeout", "write_timeout")
UNREACHED: Final = ("dns_", "connect_", "tls_", "proxy_")
COMPARED: Final = 5  # newest canaries of a target
ADDS_RATIO: Final = 0.5  # a vantage whose median TTFT is by so much above the one before it adds what is worth a word
ADDS_SECONDS: Final = 0.1
Level = Literal["bad", "watch", "good"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one target, or ("" for `target`) about several."""

    level: Level
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """What comparing needs of a target: whom it serves, and what it is a view of."""

    service: str
    vantage: str


def findings(
    results: Sequence[ProbeResult], places: Mapping[str, Place], ttft_seconds: float, tpot_seconds: float
) -> tuple[Finding, ...]:
    """Sentences about the newest canaries (`results` newest first); slow is what breaks the goodput's thresholds.

    Targets without a canary that was run have none.
    """
    by_target: dict[str, list[ProbeResult]] = defaultdict(list)
    for result in results:
        by_target[result.target].append(result)
    each = [_of_target(name, own, ttft_seconds, tpot_seconds) for name, own in sorted(by_target.items())]
    return (*(one for one in each if one is not None), *_compared(by_target, places))


def _of_target(name: str, results: Sequence[ProbeResult], ttft: float, tpot: float) -> Finding | None:
    newest = _last_round_of_each_kind(results)
    if not newest:
        return None
    asking = [result for result in newest if result.kind != "models"]
    front = next((result for result in newest if result.kind == "models"), None)
    failed = next((result for result in asking if _is_bad(result)), None)
    if failed is not None:
        text = _unreached(failed, front) or _half_dead(failed, front) or _broken(failed)
        return Finding("bad", name, _whose(failed, asking) + text)
    if front is not None and _is_bad(front):
        return Finding("bad", name, f"does not list its models: {_meaning(front)}")
    words = [
        _whose(result, asking) + text for result in asking if (text := _unstreamed(result) or _slow(result, ttft, tpot))
    ]
    if words:
        return Finding("watch", name, words[0])
    return Finding("good", name, "serves well" if asking else "lists its models; no canary asks its engine")


def _last_round_of_each_kind(results: Iterable[ProbeResult]) -> list[ProbeResult]:
    """Of those that say something about the service. Ranks and adapters are asked in turn: back to where one comes
    again, each was asked once.
    """
    rounds: dict[str, dict[tuple[str, str], ProbeResult]] = defaultdict(dict)
    complete: set[str] = set()
    for result in results:
        if result.kind in complete or is_bad(result.outcome, has_succeeded=True) is None:
            continue
        if (result.rank, result.model) in rounds[result.kind]:
            complete.add(result.kind)
        else:
            rounds[result.kind][result.rank, result.model] = result
    return [result for one in rounds.values() for result in one.values()]


def _whose(result: ProbeResult, beside: Sequence[ProbeResult]) -> str:
    """Which rank or adapter is meant, where several are asked."""
    parts = [f"rank {result.rank}"] if len({one.rank for one in beside if one.kind == result.kind}) > 1 else []
    parts += [f"model {result.model}"] if len({one.model for one in beside if one.kind == result.kind}) > 1 else []
    return ", ".join(parts) + ": " if parts else ""


def _unreached(failed: ProbeResult, front: ProbeResult | None) -> str:
    if failed.outcome.startswith(UNREACHED) and (front is None or _is_bad(front)):
        return f"cannot be reached: {_meaning(failed)}"
    return ""


def _half_dead(failed: ProbeResult, front: ProbeResult | None) -> str:
    if failed.outcome not in NO_TOKEN:
        return ""
    if front is not None and front.is_ok:
        return f"half dead: its front end lists the models, but the engine behind it does not answer ({failed.outcome})"
    return f"does not answer: {_meaning(failed)}"


def _broken(failed: ProbeResult) -> str:
    if failed.outcome == "garbage_output":
        return f"talks gibberish, though it answers in time: {failed.detail}"
    if failed.outcome in ("wrong_answer", "drift"):
        return f"answers wrongly: {_meaning(failed)}"
    if failed.outcome == "not_streaming":
        return f"answers, but not as a stream: {_meaning(failed)}"
    return f"fails: {_meaning(failed)}"


def _unstreamed(result: ProbeResult) -> str:
    return f"answers, but not as a stream: {FLAGS['buffered_stream']}" if "buffered_stream" in result.flags else ""


def _slow(result: ProbeResult, ttft: float, tpot: float) -> str:
    if not result.feels_like_a_user or not result.is_timed_well:
        return ""
    if result.ttft_seconds is not None and result.ttft_seconds > ttft:
        took = f"the first token took {result.ttft_seconds:.1f} s"
        return f"serves, but slowly: {took}, a good request has it within {ttft:g} s"
    if result.tpot_seconds is not None and result.tpot_seconds > tpot:
        milliseconds, limit = result.tpot_seconds * 1000, tpot * 1000
        return f"serves, but slowly: a token takes {milliseconds:.0f} ms, in a good request at most {limit:g} ms"
    return ""


def _compared(by_target: Mapping[str, Sequence[ProbeResult]], places: Mapping[str, Place]) -> Iterator[Finding]:
    services: dict[str, dict[str, list[ProbeResult]]] = defaultdict(lambda: defaultdict(list))
    for name, place in places.items():
        if place.vantage in VANTAGES:
            own = [
                r
                for r in by_target.get(name, ())
                if r.feels_like_a_user and is_bad(r.outcome, has_succeeded=True) is not None
            ]
            services[place.service][place.vantage] += own[:COMPARED]
    for service, views in sorted(services.items()):
        seen = [vantage for vantage in VANTAGES if views.get(vantage)]
        if len(seen) > 1:
            yield from _located(service, seen, views)


def _located(service: str, seen: Sequence[str], views: Mapping[str, Sequence[ProbeResult]]) -> Iterator[Finding]:
    """The first vantage, from the engine outwards, at which canaries fail, or take much longer than one further in."""
    of = f" of {service}" if service else ""
    failing = [vantage for vantage in seen if all(_is_bad(result) for result in views[vantage])]
    if failing:
        first = failing[0]
        fine = [vantage for vantage in seen[: seen.index(first)] if vantage not in failing]
        if first == seen[0]:
            said = "everything outside it fails with it" if len(failing) == len(seen) else "only it fails"
            yield Finding("bad", "", f"The fault{of} lies in {PLACES[first]}: {said}")
        else:
            yield Finding(
                "bad", "", f"The fault{of} lies in {PLACES[first]}: asked at the {fine[-1]}, canaries are answered"
            )
        return
    for inner, outer in pairwise(seen):
        within, beyond = _ttft(views[inner]), _ttft(views[outer])
        if within is not None and beyond is not None and beyond - within > max(ADDS_SECONDS, ADDS_RATIO * within):
            yield Finding(
                "watch", "",
                f"{PLACES[outer][:1].upper()}{PLACES[outer][1:]}, adds {beyond - within:.2f} s to the first token{of}: "
                f"{beyond:.2f} s there, {within:.2f} s at the {inner}",
            )  # fmt: skip


def _ttft(results: Sequence[ProbeResult]) -> float | None:
    known = [result.ttft_seconds for result in results if result.is_ok and result.ttft_seconds is not None]
    return median(known) if known else None


def _is_bad(result: ProbeResult) -> bool:
    return is_bad(result.outcome, has_succeeded=True) is True


def _meaning(result: ProbeResult) -> str:
    words = OUTCOMES[result.outcome].meaning if result.outcome in OUTCOMES else result.outcome
    return f"{words} ({result.outcome})"
