"""The book: one model per kind of engine, anew when the engine is another one, and told to people."""

from agent.advice.capacity_book import CapacityBook, Kind
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

INF = float("inf")


def increment(target: str, second: int, *, slow: float = 1.0, capacity: float = 100_000.0) -> Increment:
    """A busy second: T = slow x (5 ms + 20 us a prompt token + 0.1 ms a sequence), two to nine of them."""
    sequences, prompt = 2.0 + second % 8, 400.0 * (second * second % 11)
    steps = (1.0 / slow - 20e-6 * prompt) / (5e-3 + 1e-4 * sequences)
    return Increment(
        EngineKey(target, "vllm", "0", "m"),
        second - 1.0,
        float(second),
        {
            ("prompt_tokens_by_source_total", "local_compute"): prompt,
            ("generation_tokens_total", ""): steps * sequences,
        },
        {"step_tokens": Buckets((1.0, INF), (0.0, steps), None)},
        {
            ("requests_running", ""): sequences,
            ("kv_usage_ratio", ""): 0.0,
            ("kv_capacity_tokens", ""): capacity,
        },
        restarted=False,
    )


def kind_of(key: EngineKey) -> Kind:
    return Kind(key.model, "aggregated", "H100" if key.target.startswith("h100") else "H200")


def test_engines_of_one_kind_are_pooled_and_those_on_other_gpus_never() -> None:
    book = CapacityBook()
    for second in range(1, 60):
        book.take([increment(target, second) for target in ("a", "b")], kind_of)
        book.take([increment("h100-a", second, slow=1.4)], kind_of)
    told = {engine.gpu_type: engine for engine in book.engines()}
    fast, slow = told["H200"].step_overhead_seconds, told["H100"].step_overhead_seconds
    assert fast is not None
    assert slow is not None
    assert 1.3 < slow / fast < 1.5


def test_another_cache_size_is_another_engine() -> None:
    book = CapacityBook()
    for second in range(1, 60):
        book.take([increment("a", second)], kind_of)
    book.take([increment("a", 60, capacity=50_000.0)], kind_of)
    (told,) = book.engines()
    assert (told.version, told.kv_capacity_tokens) == (2, 50_000.0)
    assert told.step_overhead_seconds is None


def test_an_engine_that_became_slower_begins_anew() -> None:
    """All steps take 1.5 times as long from one second on: a throttled GPU, or other arguments."""
    book = CapacityBook()
    for second in range(1, 60):
        book.take([increment("a", second)], kind_of)
    before = book.engines()[0]
    for second in range(60, 120):
        book.take([increment("a", second, slow=1.5)], kind_of)
    (after,) = book.engines()
    assert (before.version, after.version) == (1, 2)
    assert before.step_overhead_seconds is not None
    assert after.step_overhead_seconds is not None
    assert 1.3 < after.step_overhead_seconds / before.step_overhead_seconds < 1.7


def test_what_is_not_known_yet_is_none() -> None:
    book = CapacityBook()
    book.take([increment("a", 1)], kind_of)
    assert book.engines()[0].prefill_seconds_per_token is None
