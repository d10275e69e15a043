"""A KV tier as it was measured; and one that loads slower than the engine computes: every hit costs time there.

Loading a token takes its KV bytes over the bandwidth, computing it takes c_p: the tier pays above the bandwidth at
which both are equal. All four are measured: nothing here is a list price.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, GroupView, Scene
from agent.model import Evidence, Recommendation, TargetStatus
from agent.signals.sums import Sums, add_up

LEAST_TOKENS = 20_000.0  # loaded in the last minutes
LEAST_LOSS_RATIO = 1.15  # of the time that computing takes: less is noise
VERIFY_SECONDS = 900.0
CONFIDENCE = 0.7


@dataclass(frozen=True, slots=True)
class TierUse:
    """What a tier did over some minutes. At the break-even bandwidth it neither pays nor costs."""

    tokens: float
    bytes_per_token: float
    bytes_per_second: float
    compute_seconds_per_token: float

    @property
    def break_even_bytes_per_second(self) -> float:
        return self.bytes_per_token / self.compute_seconds_per_token

    @property
    def loss_ratio(self) -> float:
        """Time to load over time to compute: above 1 the tier costs time."""
        return self.break_even_bytes_per_second / self.bytes_per_second


def tier_use(sums: Sums, compute_seconds_per_token: float) -> TierUse | None:
    """From vLLM's own offloading counters; None where there is no tier, or too little came from it."""
    loaded, seconds = sums.counter("kv_offload_load_bytes_total"), sums.counter("kv_offload_load_seconds_total")
    tokens = sums.counter("external_cache_hit_tokens_total")
    if not loaded or not seconds or tokens is None or tokens < LEAST_TOKENS or compute_seconds_per_token <= 0:
        return None
    return TierUse(tokens, loaded / tokens, loaded / seconds, compute_seconds_per_token)


def was_loaded(scene: Scene, group: Sequence[TargetStatus]) -> bool:
    """Whether vLLM's own offloading brought anything back in the last minutes."""
    return any(i.counters.get(("kv_offload_load_bytes_total", "")) for i in scene.increments(group, LOAD_SECONDS))


def slow_tier(
    scene: Scene, model: str, role: str, group: Sequence[TargetStatus], view: GroupView
) -> Iterator[Recommendation]:
    """At most one. None where the tier pays, or nothing was loaded from it."""
    use = tier_use(add_up(scene.increments(group, LOAD_SECONDS)), view.engine.steps.prefill_seconds_per_token)
    if use is not None and use.loss_ratio > LEAST_LOSS_RATIO:
        yield _recommend(scene, model, role, group, use)


def _recommend(scene: Scene, model: str, role: str, group: Sequence[TargetStatus], use: TierUse) -> Recommendation:
    lost = use.bytes_per_token / use.bytes_per_second - use.compute_seconds_per_token
    price = scene.dollars_per_hour(group)
    return Recommendation(
        id=f"kv-tier-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="kv_tier",
        current=1.0,
        proposed=0.0,
        low=0.0,
        high=0.0,
        reason_code="tier_slower_than_computing",
        binding="ttft",
        summary=(
            f"Turn the KV tier of {model} ({role}) off, or make it faster: it brings KV at "
            f"{use.bytes_per_second / 1e9:.1f} GB/s, and computing the same tokens is as fast as "
            f"{use.break_even_bytes_per_second / 1e9:.1f} GB/s. Every 1,000 tokens found there cost "
            f"{lost * 1e6:.0f} ms more than without it."
        ),
        confidence=CONFIDENCE,
        meets_slo=None,
        evidence=(
            Evidence("kv_offload_load_bytes_per_second", LOAD_SECONDS, use.bytes_per_second),
            Evidence("break_even_bytes_per_second", LOAD_SECONDS, use.break_even_bytes_per_second),
            Evidence("kv_bytes_per_token", LOAD_SECONDS, use.bytes_per_token),
            Evidence("external_cache_hit_tokens", LOAD_SECONDS, use.tokens),
            Evidence("prefill_seconds_per_token", LEARN_SECONDS, use.compute_seconds_per_token),
        ),
        alternatives=tuple(
            {
                "setting": setting,
                "ttft_p95_seconds": None,
                "itl_p99_seconds": None,
                "goodput_ratio": None,
                "dollars_per_hour": price,
                "meets_slo": None,
            }
            for setting in ("tier as it is", "no tier", "a tier above the break-even bandwidth")
        ),
        do_nothing={
            "summary": f"{use.tokens:,.0f} tokens in five minutes go on to cost {lost * use.tokens:.1f} s of waiting",
            "meets_slo": None,
        },
        side_effects=(
            "the engines compute those tokens again: prefill work rises, and gaps of others with it",
            "measured with the load of now: a tier shared by fewer loaders is faster",
        ),
        steps=(
            "turn the tier off on one replica, and compare its TTFT with the others' for a quarter of an hour",
            "or find what shares its link, and measure again",
        ),
        rollback="turn the tier on again; it begins empty",
        verify_at_seconds=scene.now_seconds + VERIFY_SECONDS,
    )
