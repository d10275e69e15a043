"""The likely cause of a burning SLO: what no page tells is said to be unknown, never 0."""

from dataclasses import replace

import pytest
from fake_engine import FakeEngine

from agent.alerts.cause import likely_cause
from agent.model import Slo, TargetStatus
from agent.sli.count import TargetFacts
from agent.windows import Windows

T0 = 1_800_000_000.0
SLO = Slo("s", "chat", "ttft", "engine", 0.99, 2_592_000.0, (), 2.5)
STATUS = TargetStatus("vllm-0", "vllm", "up", T0, "ok", "", "m", "aggregated")


@pytest.mark.parametrize(("is_told", "words"), [(True, "12 preemptions"), (False, "an unknown number of preemptions")])
def test_a_full_cache_tells_its_preemptions_or_that_nobody_knows_them(*, is_told: bool, words: str) -> None:
    windows, engine = Windows(), FakeEngine(running=8, waiting=5, kv_usage=0.99)
    for step in range(4):
        page = engine.reading(T0 + 10 * step)
        kept = tuple(sample for sample in page.samples if is_told or sample.signal != "preemptions_total")
        windows.take(replace(page, samples=kept))
        engine.preemptions += 4
    cause = likely_cause(SLO, [STATUS], {"vllm-0": TargetFacts("m", "aggregated", None)}, windows, T0 + 30)
    assert cause.code == "kv_exhaustion"
    assert words in cause.words
