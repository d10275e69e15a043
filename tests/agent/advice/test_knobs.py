"""Engine knobs: each is advised where its own trouble shows, with what the model says of it, and nowhere else."""

import json
import shlex
from dataclasses import replace

import pytest
from law_pages import LawEngine, promise

from agent.advice.bucket_edges import bucket_edges
from agent.advice.kv_room import kv_room
from agent.advice.pd_expiry import pd_expiry
from agent.advice.review import Review
from agent.advice.sequence_cap import sequence_cap
from agent.advice.speculation import speculation
from agent.model import Recommendation
from agent.windows import Windows
from probes.nvml_reading import gpu_reading


def figures(advice: Recommendation) -> dict[str, float | None]:
    return {figure.signal: figure.value for figure in advice.evidence}


def warm(**given: object) -> LawEngine:
    """An engine of which the model is known: minutes of batches and prompts of every size, then five of its own."""
    engine = LawEngine(**given)  # type: ignore[arg-type]
    prompt = engine.prompt
    for batch, share in ((2, 1.0), (4, 0.1), (8, 1.5), (16, 0.3), (32, 1.0), (12, 0.1), (24, 1.5), (2, 0.3), (32, 0.1)):
        engine.prompt = share * prompt
        engine.run(120.0, batch)
    engine.prompt = prompt
    return engine


def whole(advice: Recommendation) -> None:
    """What every recommendation owes its reader."""
    assert advice.summary
    assert advice.evidence
    assert advice.side_effects
    assert advice.steps
    assert advice.rollback
    assert len(advice.alternatives) >= 2
    assert advice.verify_at_seconds > advice.at_seconds
    assert all(
        set(choice) >= {"setting", "ttft_p95_seconds", "itl_p99_seconds", "meets_slo"} for choice in advice.alternatives
    )


# --- max_num_seqs


def test_a_queue_beside_free_kv_asks_for_a_larger_batch_and_says_what_it_brings() -> None:
    """16 at once, 40 wait, the cache is 4 % full: 32 at once are the least that keep 3 s, and gaps stay below 50 ms."""
    engine = warm(args="--max-num-seqs 16")
    engine.run(320.0, 16, waiting=40, first_tokens=9.0)
    (advice,) = sequence_cap(engine.scene(promise("ttft", 3.0), promise("itl", 0.05)))
    whole(advice)
    assert (advice.reason_code, advice.current, advice.proposed) == ("max_num_seqs_low", 16, 32)
    assert advice.meets_slo is True
    by_setting = {choice["setting"]: choice for choice in advice.alternatives}
    now, then = by_setting["--max-num-seqs 16"], by_setting["--max-num-seqs 32"]
    assert now["meets_slo"] is False
    assert then["ttft_p95_seconds"] < now["ttft_p95_seconds"]  # type: ignore[operator]
    assert then["itl_p99_seconds"] > now["itl_p99_seconds"]  # type: ignore[operator]


def test_the_cap_is_seen_where_nobody_says_it_and_then_it_is_less_sure() -> None:
    said, seen = warm(args="--max-num-seqs 16"), warm()
    for engine in (said, seen):
        engine.run(320.0, 16, waiting=40, first_tokens=9.0)
    ours, theirs = (next(sequence_cap(engine.scene(promise("ttft", 5.0)))) for engine in (said, seen))
    assert theirs.current == 16
    assert theirs.confidence < ours.confidence
    assert any("check it first" in effect for effect in theirs.side_effects)


def test_without_a_model_nothing_is_predicted() -> None:
    engine = LawEngine(args="--max-num-seqs 16 --enable-lora")
    engine.run(320.0, 16, waiting=40)
    (advice,) = sequence_cap(engine.scene(promise("ttft", 5.0)))
    whole(advice)
    assert advice.meets_slo is None
    assert all(choice["ttft_p95_seconds"] is None for choice in advice.alternatives)


@pytest.mark.parametrize(
    ("row", "args", "running", "waiting", "usage"),
    [
        ("nobody waits", "--max-num-seqs 16", 16, 0, None),
        ("the batch is not at its cap", "--max-num-seqs 64", 16, 40, None),
        ("the cache has no room", "--max-num-seqs 16", 16, 40, 0.9),
        ("a small batch that nobody calls a cap", "", 2, 40, None),
    ],
)
def test_no_cap_is_raised_where_it_is_not_what_is_short(
    row: str, args: str, running: float, waiting: float, usage: float | None
) -> None:
    engine = warm(args=args)
    engine.run(320.0, running, waiting=waiting, usage=usage)
    assert list(sequence_cap(engine.scene(promise("ttft", 5.0)))) == [], row


def test_no_cap_is_raised_where_nobody_tells_whether_requests_are_preempted() -> None:
    engine = warm(args="--max-num-seqs 16", without=("preemptions_total",))
    engine.run(320.0, 16, waiting=40, first_tokens=9.0)
    assert list(sequence_cap(engine.scene(promise("ttft", 3.0), promise("itl", 0.05)))) == []


def test_a_larger_batch_that_would_break_another_promise_is_not_advised() -> None:
    """At 16 a step takes 6.2 ms; 6.5 ms are promised."""
    engine = warm(args="--max-num-seqs 16")
    engine.run(320.0, 16, waiting=40, first_tokens=9.0)
    assert list(sequence_cap(engine.scene(promise("ttft", 5.0), promise("tpot", 0.0065)))) == []


def test_a_batch_that_makes_every_step_too_long_asks_for_a_smaller_one() -> None:
    """200 at once make steps of 15 ms; 10 ms are promised of nine gaps in ten, and first tokens may take a minute."""
    engine = warm(args="--max-num-seqs 256", prompt=100.0, answer=400.0)
    engine.run(150.0, 120)
    engine.run(320.0, 200)
    (advice,) = sequence_cap(engine.scene(promise("itl", 0.01, 0.9), promise("ttft", 60.0)))
    whole(advice)
    assert (advice.reason_code, advice.current) == ("max_num_seqs_high", 256)
    assert advice.proposed <= 100, "100 at once make steps of 10 ms"
    assert advice.meets_slo is True
    assert any("TTFT rises" in effect for effect in advice.side_effects)


# --- room for KV


def full(**given: object) -> LawEngine:
    engine = warm(**given)
    engine.run(320.0, 32, waiting=10, usage=0.98, more={"preemptions_total": 3.0})
    return engine


def gpu(windows: Windows, at: float, used: float, total: float = 140e9) -> None:
    windows.take(gpu_reading("gpu-0", at, {"used": used, "total": total}))


def test_memory_that_the_gpu_has_left_comes_before_a_less_exact_cache() -> None:
    """60 % is the engine's, 62 % are used: up to 93 % can be, and the cache grows by half at least."""
    engine = full(url="http://127.0.0.1:8000", settings=("gpu_memory_utilization=0.6", "cache_dtype=auto"))
    gpu(engine.windows, engine.at, 0.62 * 140e9)
    (advice,) = kv_room(engine.scene(promise("ttft", 5.0)))
    whole(advice)
    assert (advice.reason_code, advice.current, advice.proposed) == ("gpu_memory_utilization", 0.6, 0.93)
    assert figures(advice)["gpu_memory_free_ratio"] == pytest.approx(0.38)
    assert figures(advice)["preemptions"] == pytest.approx(32 * 3.0, abs=6)
    assert "at least 55 %" in advice.summary
    assert {choice["setting"] for choice in advice.alternatives} == {
        "as it is", "--gpu-memory-utilization 0.93", "--kv-cache-dtype fp8",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "url", "used"),
    [
        ("nobody reads its GPU", "http://127.0.0.1:8000", None),
        ("the GPU is full", "http://127.0.0.1:8000", 0.94),
        ("the GPUs read here are not known to be its own", "http://vllm-0:8000", 0.62),
    ],
)
def test_without_free_memory_a_smaller_cache_is_advised_with_its_guard(row: str, url: str, used: float | None) -> None:
    engine = full(url=url, settings=("gpu_memory_utilization=0.6", "cache_dtype=auto"))
    if used is not None:
        gpu(engine.windows, engine.at, used * 140e9)
    (advice,) = kv_room(engine.scene(promise("ttft", 5.0)))
    whole(advice)
    assert (advice.reason_code, advice.current, advice.proposed) == ("kv_cache_dtype", 16, 8), row
    assert "correctness" in advice.summary
    assert "correctness" in advice.steps[0]


def test_a_cache_of_8_bits_and_a_full_gpu_leave_nothing_to_advise() -> None:
    engine = full(settings=("gpu_memory_utilization=0.95", "cache_dtype=fp8_e4m3"))
    assert list(kv_room(engine.scene(promise("ttft", 5.0)))) == []


@pytest.mark.parametrize(
    ("row", "usage", "waiting", "preemptions"),
    [
        ("full of what nobody waits for", 0.98, 0.0, 0.0),
        ("preemptions without a full cache", 0.5, 0.0, 3.0),
        ("a queue without a full cache", 0.5, 10.0, 0.0),
    ],
)
def test_a_cache_with_room_is_left_alone(row: str, usage: float, waiting: float, preemptions: float) -> None:
    engine = warm()
    engine.run(320.0, 32, waiting=waiting, usage=usage, more={"preemptions_total": preemptions})
    assert list(kv_room(engine.scene(promise("ttft", 5.0)))) == [], row


# --- speculative decoding


@pytest.mark.parametrize(
    ("accepted", "codes"), [(0.0, ["speculation_poor"]), (250.0, ["speculation_poor"]), (900.0, [])]
)
def test_drafts_that_are_mostly_refused_are_turned_off(accepted: float, codes: list[str]) -> None:
    """A thousand drafts of four tokens each in ten seconds; 1.25 tokens a step are too few, 1.9 are not."""
    engine = LawEngine()
    drafts = {
        "spec_decode_drafts_total": 1000.0,
        "spec_decode_draft_tokens_total": 4000.0,
        "spec_decode_accepted_tokens_total": accepted,
    }
    engine.run(320.0, 4, more=drafts)
    found = list(speculation(engine.scene(promise("tpot", 0.001))))
    assert [advice.reason_code for advice in found] == codes
    for advice in found:
        whole(advice)
        assert figures(advice)["spec_decode_acceptance_ratio"] == pytest.approx(accepted / 4000)
        assert figures(advice)["spec_decode_tokens_per_step"] == pytest.approx(1 + accepted / 1000)
        assert advice.meets_slo is None


def test_a_small_batch_that_is_too_slow_a_token_is_worth_a_trial_without_a_promise() -> None:
    """Four at once make steps of 30.3 ms; 20 ms a token are promised: 1.5 tokens a step and more would keep that."""
    engine = warm(overhead=30e-3)
    engine.run(320.0, 4)
    (advice,) = speculation(engine.scene(promise("tpot", 0.02)))
    whole(advice)
    assert (advice.reason_code, advice.current, advice.proposed) == ("speculation_trial", 0, 1)
    assert figures(advice)["decode_step_over_threshold"] == pytest.approx(1.51, abs=0.03)
    assert advice.meets_slo is None
    assert any("ITL" in effect for effect in advice.side_effects), "vLLM's ITL is a step's, and gets no shorter"


@pytest.mark.parametrize(
    ("row", "args", "running", "threshold"),
    [
        ("kept", "", 4, 0.05),
        ("a large batch", "", 32, 0.02),
        ("more than drafts can give", "", 4, 0.01),
        ("it drafts already", "--speculative-config {}", 4, 0.02),
    ],
)
def test_no_trial_where_drafts_are_not_the_cure(row: str, args: str, running: float, threshold: float) -> None:
    engine = warm(args=args, overhead=30e-3)
    engine.run(320.0, running)
    assert list(speculation(engine.scene(promise("tpot", threshold)))) == [], row


# --- edges of histograms


def test_a_threshold_inside_a_full_bucket_asks_for_an_edge_there() -> None:
    """All first tokens come after 0.1 and before 0.25 s; 0.2 s are promised, and nobody can tell."""
    engine = LawEngine()
    engine.run(320.0, 8, first_tokens=0.15)
    (advice,) = bucket_edges(engine.scene(promise("ttft", 0.2), promise("itl", 0.05)))
    whole(advice)
    assert (advice.reason_code, advice.current, advice.proposed) == ("bucket_edges", 1, 2), "0.05 is an edge of ITL"
    assert figures(advice)["undecided_ratio:ttft"] == 1.0
    assert figures(advice)["surely_bad_ratio:ttft"] == 0.0
    flag, buckets = shlex.split(advice.summary[advice.summary.index("--custom") :].rstrip("."))[:2]
    assert flag == "--custom-histogram-buckets"
    families = json.loads(buckets)
    assert list(families) == ["time_to_first_token"]
    edges = families["time_to_first_token"]
    assert 0.2 in edges
    assert edges == sorted(set(edges))
    assert {0.1, 0.25, 2560.0} <= set(edges), "all present edges stay"


def test_the_flag_has_the_thresholds_of_all_promises_whichever_is_unclear() -> None:
    """Both TTFT promises lack an edge; only one is unclear now. Who follows the advice does not do it twice."""
    engine = LawEngine()
    engine.run(320.0, 8, first_tokens=0.15)
    later = replace(promise("ttft", 0.9), slo=replace(promise("ttft", 0.9).slo, name="later"))
    (advice,) = bucket_edges(engine.scene(promise("ttft", 0.2), later))
    assert "later" not in advice.summary[: advice.summary.index("--custom")]
    assert "0.9" in advice.summary[advice.summary.index("--custom") :]


@pytest.mark.parametrize(
    ("row", "threshold", "first_tokens"),
    [
        ("an edge", 0.25, 0.15),
        ("another bucket holds them, in time", 0.2, 0.05),
        ("another bucket holds them, too late", 0.2, 0.6),
    ],
)
def test_a_verdict_that_can_be_told_needs_no_edge(row: str, threshold: float, first_tokens: float) -> None:
    engine = LawEngine()
    engine.run(320.0, 8, first_tokens=first_tokens)
    assert list(bucket_edges(engine.scene(promise("ttft", threshold)))) == [], row


# --- KV that expires between prefill and decode


def pair(waiting: float, usage: float, expired: float = 1.0, late: float = 0.0) -> list[Recommendation]:
    prefill = LawEngine("p0", "prefill")
    prefill.run(320.0, 4, more={"nixl_kv_expired_requests_total": expired, "nixl_late_notifications_total": late})
    decode = LawEngine("d0", "decode", windows=prefill.windows)
    decode.run(320.0, 16, waiting=waiting, usage=usage)
    ours, theirs = prefill.scene(), decode.scene()
    both = replace(ours, statuses=[*ours.statuses, *theirs.statuses])
    return list(pd_expiry(both))


def test_kv_that_expires_while_decode_is_full_asks_for_room_there() -> None:
    (advice,) = pair(waiting=8, usage=0.97)
    whole(advice)
    assert (advice.reason_code, advice.role, advice.proposed) == ("nixl_kv_expired", "prefill", 30)
    assert figures(advice)["nixl_kv_expired_requests"] == pytest.approx(31, abs=2)
    assert "no room" in advice.summary
    assert "decode replica" in advice.steps[0]


def test_kv_that_expires_beside_free_decode_engines_asks_for_a_longer_lease() -> None:
    (advice,) = pair(waiting=0, usage=0.3)
    assert (advice.current, advice.proposed) == (30, 60)
    assert any("kv_lease_duration 60" in step for step in advice.steps)


def test_reads_after_the_expiry_are_told_as_doubt_about_answers() -> None:
    (advice,) = pair(waiting=0, usage=0.3, expired=0.0, late=1.0)
    assert "may be wrong" in advice.summary


def test_nothing_is_said_where_nothing_expires() -> None:
    assert pair(waiting=8, usage=0.97, expired=0.0) == []


# --- one at a time


def test_one_knob_at_a_time_and_what_changes_no_pace_beside_it() -> None:
    """Requests wait beside room, and drafts are refused: the first is told, so that what it does can be judged."""
    engine = LawEngine(args="--max-num-seqs 16")
    drafts = {"spec_decode_drafts_total": 1000.0, "spec_decode_accepted_tokens_total": 10.0}
    engine.run(320.0, 16, waiting=40, first_tokens=0.15, more=drafts)
    scene = engine.scene(promise("ttft", 0.2))
    assert [advice.reason_code for advice in speculation(scene)] == ["speculation_poor"]
    assert [advice.reason_code for advice in Review().advise(scene)] == ["max_num_seqs_low", "bucket_edges"]
