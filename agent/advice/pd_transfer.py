"""Rule: larger KV blocks, where posting KV transfers stalls a decode engine and makes its tail.

A NIXL transfer is posted piece by piece, and the decode loop stands still meanwhile. The number of pieces falls with
the size of a KV block, and so does the stall. A transfer setting is cheaper than another topology, so it comes first.
"""

from collections.abc import Iterator, Sequence

from agent.advice.capacity_book import CapacityBook, Kind
from agent.advice.engine_facts import engine_facts
from agent.advice.pd_compare import aggregated_instead
from agent.advice.pd_stall import LEAST_POSTS, Stall, measured_stall
from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, Scene, alternative
from agent.advice.step_model import StepModel
from agent.advice.traffic import traffic_of
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus
from agent.signals.sums import add_up
from agent.windows import Increment

USUAL_BLOCK_TOKENS = 16.0  # vLLM's default on NVIDIA GPUs; the page's cache_config_info tells the real one
LARGER_BLOCK_TOKENS = 128.0  # facts/h200.md: the size that was tried there
LEAST_SHARE_RATIO = 0.005  # of the gaps: half of what decides a p99
LEAST_EXPLAINED_RATIO = 0.5
DECIDES_P99 = 0.01  # of the gaps
STALLS = 2.0  # decode steps: a shorter post is no tail
VERIFY_SECONDS = 900.0
CONFIDENCE = 0.8  # the cause is counted; that the stall falls in proportion to the pieces is a cautious guess


def pd_transfer(scene: Scene) -> Iterator[Recommendation]:
    """At most one recommendation per model and role. None where no transfers are posted, where posting is short, or
    where it does not explain the long gaps.
    """
    for (model, role), members in scene.groups().items():
        group = [status for status in members if _posts(scene, status) >= LEAST_POSTS]
        if not group:
            continue
        increments = scene.increments(group, LOAD_SECONDS)
        steps = _steps(scene.increments(group, LEARN_SECONDS))
        stall = None if steps is None else measured_stall(add_up(increments), traffic_of(increments), steps, len(group))
        if steps is None or stall is None or stall.post_seconds < STALLS * stall.decode_seconds:
            continue
        known = engine_facts([scene.plan.targets.get(s.name) for s in group], increments).block_tokens
        if (known or USUAL_BLOCK_TOKENS) >= LARGER_BLOCK_TOKENS:
            continue  # they are as large as was tried: another cure, if any
        if stall.long_gaps < LEAST_SHARE_RATIO * stall.gaps or stall.explained_ratio < LEAST_EXPLAINED_RATIO:
            continue
        yield _recommend(scene, model, role, group, stall, steps, known)


def _posts(scene: Scene, status: TargetStatus) -> float:
    if not scene.windows.has(status.name, "nixl_post_seconds"):
        return 0.0
    posts = add_up(scene.increments([status], LOAD_SECONDS)).histogram("nixl_post_seconds")
    return 0.0 if posts is None else posts.count


def _steps(increments: Sequence[Increment]) -> StepModel | None:
    book = CapacityBook()
    book.take(increments, lambda key: Kind(key.model, "", ""))
    return next((learned.steps for learned in book.learned.values()), None)


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    stall: Stall,
    steps: StepModel,
    known: float | None,
) -> Recommendation:
    block = known or USUAL_BLOCK_TOKENS
    fewer = LARGER_BLOCK_TOKENS / block
    of_now = f"where it is vLLM's default of {block:.0f}" if known is None else f"instead of {block:.0f}"
    shorter = stall.post_seconds / fewer
    p99_now, p99_then = stall.decode_seconds + stall.post_seconds, stall.decode_seconds + shorter
    saved, share = stall.post_seconds - shorter, stall.long_gaps / stall.gaps
    itl = [status for status in scene.promises(group) if status.slo.sli == "itl"]
    ttft = _ttft_seconds(scene, model)
    worst = (1 + steps.error_ratio) * p99_then
    alternatives = [
        _setting("KV blocks as they are", p99_now, meets=_meets(itl, p99_now, share)),
        _setting(f"{fewer:.0f} times larger KV blocks", p99_then, meets=_meets(itl, worst, share)),
        *_aggregated(scene, model, steps, itl),
    ]
    told = (
        "" if ttft is None else f" mean TTFT is {ttft:.2f} s, of which {stall.transfer_seconds * 1e3:.0f} ms transfer;"
    )
    return Recommendation(
        id=f"pd-transfer-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=block,
        proposed=LARGER_BLOCK_TOKENS,
        low=LARGER_BLOCK_TOKENS,
        high=LARGER_BLOCK_TOKENS,
        reason_code="nixl_post_time",
        binding="itl",
        summary=(
            f"Give {model} KV blocks {fewer:.0f} times as large on the prefill and the decode side (--block-size "
            f"{LARGER_BLOCK_TOKENS:.0f} {of_now}): NIXL post time, "
            f"{stall.post_seconds * 1e3:.0f} ms a transfer, stops the decode loop and is the cause of the ITL tail. "
            f"{'p99' if share > DECIDES_P99 else 'A gap with one'} falls from about {p99_now * 1e3:.0f} ms to at most "
            f"about {p99_then * 1e3:.0f} ms; {100 * share:.1f} % of all gaps hold one."
        ),
        confidence=round(CONFIDENCE * min(1.0, stall.explained_ratio), 2),
        meets_slo=_meets(itl, worst, share),
        evidence=(
            Evidence("nixl_post_seconds_mean", LOAD_SECONDS, stall.post_seconds),
            Evidence("nixl_transfer_seconds_mean", LOAD_SECONDS, stall.transfer_seconds),
            Evidence("nixl_transfers", LOAD_SECONDS, stall.posts),
            Evidence("itl_gaps_with_a_post_ratio", LOAD_SECONDS, share),
            Evidence("long_gaps_explained_by_posts_ratio", LOAD_SECONDS, stall.explained_ratio),
            Evidence("decode_step_seconds", LEARN_SECONDS, stall.decode_seconds),
            Evidence("predicted_itl_p99_seconds", LOAD_SECONDS, p99_then),
            Evidence("ttft_seconds_mean", LOAD_SECONDS, ttft),
        ),
        alternatives=tuple(alternatives),
        do_nothing={
            "itl_p99_seconds": p99_now,
            "summary": (
                f"every transfer goes on to stop the decode loop for {stall.post_seconds * 1e3:.0f} ms: "
                f"{100 * share:.1f} % of all gaps hold one, and more as the load grows"
            ),
            "meets_slo": _meets(itl, p99_now, share),
        },
        side_effects=(
            (
                f"TTFT pays for the split itself, and goes on paying:{told} larger blocks take about "
                f"{saved * 1e3:.0f} ms off the transfer, while the queue before the prefill engines, which makes the "
                "TTFT tail, stays as it is"
            ),
            (
                f"the prefix cache then finds common beginnings in steps of {LARGER_BLOCK_TOKENS:.0f} tokens: shorter "
                "ones are computed again, which costs TTFT"
            ),
            "both sides are restarted: their caches begin empty",
        ),
        steps=(
            f"look that block_size in vllm:cache_config_info of both sides is {block:.0f}",
            "restart the prefill side with that --block-size, then the decode side with the same one",
            "watch nixl_post_seconds fall, and with it ITL p99; TTFT for what it pays",
            "only if that is not enough: another KV layout or transfer backend, then another topology",
        ),
        rollback="start both sides with the block size of before",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _setting(name: str, itl_p99: float, *, meets: bool | None) -> dict[str, object]:
    return {
        "setting": name,
        "ttft_p95_seconds": None,
        "itl_p99_seconds": itl_p99,
        "goodput_ratio": None,
        "dollars_per_hour": None,
        "meets_slo": meets,
    }


def _meets(itl: Sequence[SloStatus], gap_seconds: float, share: float) -> bool | None:
    """Whether gaps of that length in that share keep every ITL objective; None without one."""
    if not itl:
        return None
    return all(
        gap_seconds <= (status.slo.threshold_seconds or 0.0) or share <= 1.0 - status.slo.good_request_ratio
        for status in itl
    )


def _ttft_seconds(scene: Scene, model: str) -> float | None:
    """Mean over the whole way: the prefill side's and the decode side's, one after the other."""
    parts = []
    for (name, _), group in scene.groups().items():
        if name == model:
            parts += [add_up(scene.increments([status], LOAD_SECONDS)).histogram("ttft_seconds") for status in group]
    means = [part.total / part.count for part in parts if part is not None and part.total is not None and part.count]
    return sum(means) if len(means) == 2 else None  # one of each side; larger pools are not paired from here


def _aggregated(scene: Scene, model: str, steps: StepModel, itl: Sequence[SloStatus]) -> Iterator[dict[str, object]]:
    """The same engines, each doing all of it; nothing where the cost of a prompt token cannot be told."""
    said = aggregated_instead(scene, model, steps, itl)
    if said is not None:
        yield alternative("the same engines aggregated", said, None)
