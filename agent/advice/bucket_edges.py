"""Rule: a histogram without an edge at an SLO's threshold, in a bucket so full that nobody can tell whether it is kept.

Attainment is exact only on an edge. vLLM's own edges are far apart (0.1, 0.25, 0.5 s for TTFT), and
`--custom-histogram-buckets` sets others (vLLM 0.32, config/observability.py).
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from agent.advice.scene import LEARN_SECONDS, Scene, observations, untold
from agent.increment import Increment
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus
from agent.sli.count import concerns
from agent.stats.buckets import Buckets, split_at

FAMILIES: Mapping[str, str] = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "tpot": "inter_token_latency",
    "e2e": "request_latency",
    "queue": "request_latency",
}
LEAST_EVENTS = 100.0
VERIFY_SECONDS = 900.0
CONFIDENCE = 0.95  # it is counted


def bucket_edges(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role, for all families that need an edge. None where every verdict can be told."""
    for (model, role), group in scene.groups().items():
        increments = scene.increments(group, LEARN_SECONDS)
        ours = [
            (status, seen)
            for status in scene.slos
            if _is_ours(scene, group, status)
            and (seen := observations(increments, f"{status.slo.sli}_seconds")) is not None
        ]
        unclear = [(status, seen) for status, seen in ours if _is_undecidable(status, seen)]
        if unclear:
            yield _recommend(scene, model, role, group, ours, unclear)


def edges_of(increments: Sequence[Increment], sli: str) -> frozenset[float] | None:
    """The edges that all of these have of an SLI's histogram; None where one has none."""
    found = [i.histograms.get(f"{sli}_seconds") for i in increments]
    edges = [frozenset(seen.edges) for seen in found if seen is not None]
    return frozenset.intersection(*edges) if edges and len(edges) == len(found) else None


def _is_ours(scene: Scene, group: Sequence[TargetStatus], status: SloStatus) -> bool:
    slo = status.slo
    if slo.source != "engine" or slo.sli not in FAMILIES or slo.threshold_seconds is None:
        return False
    return any(concerns(slo, scene.plan.targets.get(t.name), t.model) for t in group)


def _is_undecidable(status: SloStatus, seen: Buckets) -> bool:
    """Kept if those in the bucket around the threshold are good, missed if they are bad."""
    counts = split_at(seen, status.slo.threshold_seconds or 0.0)
    if counts.total < LEAST_EVENTS:
        return False
    allowed = (1 - status.slo.good_request_ratio) * counts.total
    return counts.bad <= allowed < counts.bad + counts.undecided


def buckets_flag(found: Sequence[tuple[SloStatus, Buckets]]) -> str:
    """The flag with the present edges and all thresholds of every family that lacks one; a family that has them all is
    left as it is.
    """
    edges: dict[str, set[float]] = {}
    for status, seen in found:
        family = edges.setdefault(FAMILIES[status.slo.sli], set())
        family.update(edge for edge in seen.edges if edge < float("inf"))
        family.add(status.slo.threshold_seconds or 0.0)
    lacking = {FAMILIES[status.slo.sli] for status, seen in found if status.slo.threshold_seconds not in seen.edges}
    told = {name: sorted(each) for name, each in sorted(edges.items()) if name in lacking}
    return f"--custom-histogram-buckets '{json.dumps(told)}'"


def _around(seen: Buckets, threshold: float) -> tuple[float, float]:
    """Edges of the bucket that holds the threshold."""
    below = max((edge for edge in seen.edges if edge < threshold), default=0.0)
    return below, min(edge for edge in seen.edges if edge >= threshold)


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    ours: Sequence[tuple[SloStatus, Buckets]],
    unclear: Sequence[tuple[SloStatus, Buckets]],
) -> Recommendation:
    """About the first one that is unclear; the flag has the thresholds of all."""
    flag, names = buckets_flag(ours), ", ".join(status.slo.name for status, _ in unclear)
    (status, seen), evidence = unclear[0], []
    threshold, price = status.slo.threshold_seconds or 0.0, scene.dollars_per_hour(group)
    below, above = _around(seen, threshold)
    for each, its in unclear:
        counts = split_at(its, each.slo.threshold_seconds or 0.0)
        evidence += [
            Evidence(f"undecided_ratio:{each.slo.name}", LEARN_SECONDS, counts.undecided / counts.total),
            Evidence(f"surely_bad_ratio:{each.slo.name}", LEARN_SECONDS, counts.bad / counts.total),
            Evidence(f"threshold_seconds:{each.slo.name}", each.slo.period_seconds, each.slo.threshold_seconds),
        ]
    told = f"{above:g} s" if above < float("inf") else "no end"
    nearest = f"move the threshold of {status.slo.name} to {below:g}" + (
        f" or {above:g} s" if told != "no end" else " s"
    )
    return Recommendation(
        id=f"bucket-edges-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=float(sum(each.slo.threshold_seconds in its.edges for each, its in ours)),
        proposed=float(len(ours)),
        low=float(len(ours)),
        high=float(len(ours)),
        reason_code="bucket_edges",
        binding=status.slo.sli,
        summary=(
            f"Nobody can tell whether {names} {'is' if len(unclear) == 1 else 'are'} kept: {threshold:g} s lies in a "
            f"bucket from {below:g} s to {told}, and what is in it decides. Start {model} ({role}) with {flag}."
        ),
        confidence=CONFIDENCE,
        meets_slo=None,
        evidence=tuple(evidence),
        alternatives=(untold(flag, price), untold(nearest, price)),
        do_nothing={
            "summary": f"what lies in that bucket goes on counting as {status.slo.undecided}, whatever it was",
            "meets_slo": None,
        },
        side_effects=(
            "every edge is one series more for each model and engine on the page",
            "dashboards and rules that name an old edge keep it: all present ones stay",
            "while replicas differ in their edges, only the common ones count: change all of them",
        ),
        steps=(
            "look whether this vLLM knows the flag (vllm serve --help); 0.32 does",
            f"restart the replicas of {model} ({role}), one after the other, with it",
            f"or, without a restart, {nearest}",
        ),
        rollback="restart without the flag",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
