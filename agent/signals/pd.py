"""Prefill and decode instances as one service: requests counted once, and the TTFT that users have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.model import Counts, Figure, Latency
from agent.signals.model import PdService, Signals
from agent.signals.sums import Sums, add_up
from agent.stats.added import added_latency, added_over
from agent.stats.buckets import Buckets, latency, share_over
from agent.windows import Increment
from probes.systems import ENGINES

FAILED = ("error", "abort")
ADDED = {"ttft_seconds": ("e2e_seconds", "ttft_seconds"), "e2e_seconds": ("e2e_seconds", "e2e_seconds")}


@dataclass(frozen=True, slots=True)
class Pools:
    """Sums of each half. `computing` are all that compute prompts: everybody but decode."""

    prefill_targets: tuple[str, ...]
    decode_targets: tuple[str, ...]
    prefill: Sums
    decode: Sums
    computing: Sums
    has_others: bool


def read_pools(increments: Iterable[Increment], prefill: Sequence[str], decode: Sequence[str]) -> Pools:
    """The increments by half. Others are engines that serve alone."""
    every = list(increments)
    halves = {*prefill, *decode}
    return Pools(
        tuple(prefill),
        tuple(decode),
        add_up(i for i in every if i.key.target in prefill),
        add_up(i for i in every if i.key.target in decode),
        add_up(i for i in every if i.key.target not in decode),
        any(i.key.source in ENGINES and i.key.target not in halves for i in every),
    )


def as_one_service(found: Signals, served: Signals, pools: Pools, thresholds: Sequence[tuple[str, float]]) -> Signals:
    """`found` is what all targets saw, `served` what those did that end requests: decode, and who serves alone.

    Requests and tokens are those of `served`, and so is the pace. A prompt's cache hits count where it was computed.
    What would need one request's two halves together (goodput, a TTFT among instances that serve alone) is unknown.
    """
    failed_early = _failed(pools.prefill)
    finished = served.requests_finished
    failed_ratio = None
    if served.failed_ratio is not None and finished is not None and failed_early is not None:
        all_ended = finished + failed_early
        failed_ratio = (served.failed_ratio * finished + failed_early) / all_ended if all_ended else None
    return replace(
        found,
        ttft_seconds=None if pools.has_others else _added(pools, "ttft_seconds"),
        itl_seconds=served.itl_seconds,
        tpot_seconds=served.tpot_seconds,
        e2e_seconds=None if pools.has_others else _added(pools, "e2e_seconds"),
        queue_seconds=latency(pools.computing.histogram("queue_seconds")),
        over_threshold_ratio={
            f"{signal}>{threshold:g}": _over(pools, served, signal, threshold) for signal, threshold in thresholds
        },
        request_rate_per_second=served.request_rate_per_second,
        prompt_tokens_per_second=served.prompt_tokens_per_second,
        generation_tokens_per_second=served.generation_tokens_per_second,
        prompt_tokens=served.prompt_tokens,
        generation_tokens=served.generation_tokens,
        requests_finished=finished,
        requests_finished_by_reason=served.requests_finished_by_reason,
        goodput_per_second=None,
        goodput_ratio=None,
        probe_share_ratio=served.probe_share_ratio,
        prefix_cache_hit_ratio=_hit_ratio(pools.computing, "prefix_cache"),
        external_cache_hit_ratio=_hit_ratio(pools.computing, "external_cache"),
        failed_ratio=failed_ratio,
        pd=_pd_service(pools),
        tokens_per_joule=_scaled(found.tokens_per_joule, served, found),
        tokens_per_dollar=_scaled(found.tokens_per_dollar, served, found),
        workload=None if served.workload is None else replace(served.workload, reuse_kind=None),
        economics=None if served.economics is None else replace(served.economics, goodput_per_dollar=None),
    )


def _added(pools: Pools, signal: str) -> Latency | None:
    first, second = ADDED[signal]
    return added_latency(pools.prefill.histogram(first), pools.decode.histogram(second))


def _over(pools: Pools, served: Signals, signal: str, threshold: float) -> Figure | None:
    """The share over a threshold: of the two halves added, of the instances that compute, or of those that serve."""
    if signal not in ADDED:
        only = pools.computing if signal == "queue_seconds" else None
        buckets = only.histogram(signal) if only else None
        return share_over(buckets, threshold) if buckets else served.over_threshold_ratio.get(f"{signal}>{threshold:g}")
    first, second = (
        sums.histogram(name) for sums, name in zip((pools.prefill, pools.decode), ADDED[signal], strict=True)
    )
    if pools.has_others or first is None or second is None or not first.count or not second.count:
        return None
    counts: Counts = added_over(first, second, threshold)
    low, high = counts.bad / counts.total, (counts.bad + counts.undecided) / counts.total
    return Figure(low if low == high else None, low, high, counts.total)


def _pd_service(pools: Pools) -> PdService:
    prefill_e2e, decode_ttft = pools.prefill.histogram("e2e_seconds"), pools.decode.histogram("ttft_seconds")
    transfer, post = (pools.decode.histogram(f"nixl_{what}_seconds") for what in ("transfer", "post"))
    means = [_mean(prefill_e2e), _mean(decode_ttft)]
    ttft = None if means[0] is None or means[1] is None else means[0] + means[1]
    seconds = pools.decode.covered_seconds(*ENGINES)
    return PdService(
        prefill_targets=pools.prefill_targets,
        decode_targets=pools.decode_targets,
        prefill_e2e_seconds=latency(prefill_e2e),
        decode_ttft_seconds=latency(decode_ttft),
        transfer_share_ratio=_share(_mean(transfer), ttft),
        post_share_ratio=_share(_mean(post), ttft),
        posting_ratio=None if post is None or post.total is None else _share(post.total, seconds),
        prefill_running=pools.prefill.level("requests_running"),
        prefill_waiting=pools.prefill.level("requests_waiting"),
        decode_running=pools.decode.level("requests_running"),
        decode_waiting=pools.decode.level("requests_waiting"),
        decode_kv_usage_ratio=pools.decode.level("kv_usage_ratio", as_mean=True),
    )


def _failed(sums: Sums) -> float | None:
    """None where no page counts how requests ended."""
    ended = sums.by_label("requests_finished_total")
    return sum(ended.get(reason, 0.0) for reason in FAILED) if ended else None


def _hit_ratio(sums: Sums, cache: str) -> float | None:
    return _share(sums.counter(f"{cache}_hit_tokens_total"), sums.counter(f"{cache}_queried_tokens_total"))


def _scaled(per_unit: float | None, served: Signals, found: Signals) -> float | None:
    """A figure per token of everybody, as one per token that users got."""
    share = _share(served.generation_tokens, found.generation_tokens)
    return None if per_unit is None or share is None else per_unit * share


def _mean(buckets: Buckets | None) -> float | None:
    return None if buckets is None or buckets.total is None or not buckets.count else buckets.total / buckets.count


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
