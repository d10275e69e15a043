"""How Prometheus counts the events of an SLO: PromQL for the bad ones and for all of them, over any window.

Counts are summed over engines and replicas first and divided once, later: a ratio is never averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent.model import Slo
from agent.render.promql import Labels, edge_pattern, selector
from agent.render.vllm_edges import FAMILY_OF, Edges, neighbours

HISTOGRAM_OF = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
}
FINISHED = "vllm:request_success_total"  # misnamed: all finished requests, by finished_reason
REJECTED = "vllm:admission_rejections_total"  # vLLM 0.32; absent from 0.24, and without the label engine
EVENTS = "slo_agent_events_total"


@dataclass(frozen=True, slots=True)
class Counting:
    """PromQL that counts: `bad` and `total` take a window such as 5m.

    `blind` is an expression that has a value while some engine lacks what is counted ("" where that cannot happen), and
    `blind_reason` says so in words. `remark` is what this way of counting cannot see.
    """

    bad: Callable[[str], str]
    total: Callable[[str], str]
    blind: str
    blind_reason: str
    remark: str


def counting(slo: Slo, edges: Edges, extra: str) -> Counting:
    """How the events of `slo` are counted. Raises ValueError with what, why and the mend where they cannot be."""
    if said := _told_by_agents_alone(slo):
        return _counted_by_agents(slo, said)
    if slo.sli == "availability":
        return _availability_counting(slo, edges, extra)
    return _latency_counting(slo, edges, extra)


def _told_by_agents_alone(slo: Slo) -> str:
    """What the events are of an SLO that Prometheus cannot count out of vLLM's series; "" where it can."""
    if slo.slice_seconds is not None:
        return f"Events: slices of {slo.slice_seconds:g} s, as the agents judged them; each agent judges its own."
    if slo.source == "canary":
        return "Events: the agents' canaries, as they counted them."
    if slo.source == "span":
        return "Events: request spans as the agents received them; unknown ones sent none."
    if slo.source == "router":
        return "Events: requests as the agents counted them: each router has its own counters."
    return (
        "Events: requests as the agents counted them: two histograms need bookkeeping." if slo.sli == "goodput" else ""
    )


def _latency_counting(slo: Slo, edges: Edges, extra: str) -> Counting:
    histogram = HISTOGRAM_OF[slo.sli]
    edge = _exact_edge(slo, histogram, edges)
    total, within = _histogram(slo, histogram, edge, extra)
    return Counting(
        bad=lambda window: f"clamp_min({_increase(total, window)} - {_increase(within, window)}, 0)",
        total=lambda window: _increase(total, window),
        blind=f"count({total}) > (count({within}) or on() vector(0))",
        blind_reason=f"Some engine's {histogram} has no bucket at {edge:g} s.",
        remark=f"Good events: the bucket of {histogram} at {edge:g} s.",
    )


def _availability_counting(slo: Slo, edges: Edges, extra: str) -> Counting:
    finished = selector(FINISHED, who_counts(slo), extra)
    failed = selector(FINISHED, [*who_counts(slo), ("finished_reason", "=~", "abort|error")], extra)
    rejected = selector(REJECTED, who_counts(slo), extra)
    histogram = HISTOGRAM_OF["e2e"]
    edge = _late_edge(slo, edges[FAMILY_OF[histogram]])
    ended, in_time = _histogram(slo, histogram, edge, extra)

    def turned_away(window: str) -> str:
        return f"({_increase(rejected, window)} or on() vector(0))"

    def bad(window: str) -> str:
        late = f"clamp_min({_increase(ended, window)} - {_increase(in_time, window)}, 0)"
        return f"{_increase(failed, window)} + {turned_away(window)} + {late}"

    return Counting(
        bad=bad,
        total=lambda window: f"{_increase(finished, window)} + {turned_away(window)}",
        blind=f"count({ended}) > (count({in_time}) or on() vector(0))",
        blind_reason=f"Some engine's {histogram} has no bucket at {edge:g} s.",
        remark=f"Bad events: finished as abort or error, turned away at the door, or ended after more than {edge:g} s. "
        "A request that never ends is in none of these counters; the agent sees it, Prometheus does not.",
    )


def _counted_by_agents(slo: Slo, remark: str) -> Counting:
    """The agent has counted already; several agents are added up."""
    counted_bad = "bad|unknown" if slo.undecided == "bad" else "bad"
    who = [("slo", "=", slo.name), ("service", "=", slo.service)]
    bad = selector(EVENTS, [*who, ("result", "=~", counted_bad)])
    every = selector(EVENTS, who)
    return Counting(
        bad=lambda window: _increase(bad, window),
        total=lambda window: _increase(every, window),
        blind="",
        blind_reason="",
        remark=remark,
    )


def _increase(series: str, window: str) -> str:
    return f"sum(increase({series}[{window}]))"


def _histogram(slo: Slo, histogram: str, edge: float, extra: str) -> tuple[str, str]:
    """All observations, and those at or below `edge`."""
    within = [*who_counts(slo), ("le", "=~", edge_pattern(edge))]
    return selector(f"{histogram}_count", who_counts(slo), extra), selector(f"{histogram}_bucket", within, extra)


def who_counts(slo: Slo) -> Labels:
    """vLLM labels the model itself; the role is a label that the scrape config gives its targets."""
    model = [("model_name", "=", slo.model)] if slo.model else []
    role = [("role", "=", slo.role)] if slo.role else []
    engine = [("engine", "=", slo.engine)] if slo.engine else []
    return [*model, *role, *engine, *((name, "=", value) for name, value in slo.target_labels)]


def _exact_edge(slo: Slo, histogram: str, edges: Edges) -> float:
    threshold = _threshold(slo)
    family = FAMILY_OF[histogram]
    below, above = neighbours(edges[family], threshold)
    if below == threshold:
        return threshold
    choices = " or ".join(f"{edge:g}" for edge in (below, above) if edge is not None)
    raise ValueError(
        f"threshold_seconds is {threshold:g}; {histogram} has no bucket edge there, so Prometheus cannot tell good "
        f"from bad. Write {choices}, or start vLLM with an edge there: --custom-histogram-buckets "
        f"'{{\"{family}\": [..., {threshold:g}, ...]}}'."
    )


def _late_edge(slo: Slo, edges: tuple[float, ...]) -> float:
    """The first edge that is late for certain; the last one, where the threshold lies beyond it."""
    _, above = neighbours(edges, _threshold(slo))
    return edges[-1] if above is None else above


def _threshold(slo: Slo) -> float:
    if slo.threshold_seconds is None:
        raise ValueError("threshold_seconds is missing; Prometheus cannot tell good from bad. Write one, such as 300.")
    return slo.threshold_seconds
