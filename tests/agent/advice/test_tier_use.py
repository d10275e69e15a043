"""Whether a KV tier pays: bytes, seconds and tokens as counted, against what computing costs."""

import pytest

from agent.advice.tier_use import tier_use
from agent.signals.sums import Sums


def sums(gigabytes: float, seconds: float, tokens: float) -> Sums:
    found = Sums()
    found.counters["kv_offload_load_bytes_total", ""] = gigabytes * 1e9
    found.counters["kv_offload_load_seconds_total", ""] = seconds
    found.counters["external_cache_hit_tokens_total", ""] = tokens
    return found


@pytest.mark.parametrize(
    ("gigabytes_per_second", "loss"),
    [(20.0, 0.262), (5.24, 1.0), (1.0, 5.24)],
)
def test_the_break_even_bandwidth_is_bytes_a_token_over_seconds_a_token(
    gigabytes_per_second: float, loss: float
) -> None:
    """131,072 bytes a token and 25 us to compute one: 5.24 GB/s. DRAM pays, object storage at 1 GB/s costs."""
    tokens = 100_000.0
    loaded = tokens * 131_072 / 1e9
    use = tier_use(sums(loaded, loaded / gigabytes_per_second, tokens), 25e-6)
    assert use is not None
    assert use.break_even_bytes_per_second == pytest.approx(5.24e9, rel=1e-3)
    assert use.loss_ratio == pytest.approx(loss, rel=1e-2)


def test_without_a_tier_or_with_few_tokens_nothing_is_said() -> None:
    assert tier_use(Sums(), 25e-6) is None
    assert tier_use(sums(1.0, 1.0, 100.0), 25e-6) is None
    assert tier_use(sums(1.0, 0.0, 100_000.0), 25e-6) is None
