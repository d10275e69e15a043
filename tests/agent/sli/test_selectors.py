"""Whose requests an SLO counts: targets with its labels, and one engine of each."""

from dataclasses import replace

import pytest
from fake_engine import FakeEngine

from agent.config_file import parse_config
from agent.errors import ConfigError
from agent.model import Slo
from agent.plan import Plan
from agent.planning import make_plan
from agent.render.counting import counting
from agent.render.vllm_edges import DEFAULT_EDGES
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from probes.sample import Reading

T0 = 1_800_000_000.0
PREMIUM = (("tier", "premium"),)


def promise(name: str, **more: object) -> Slo:
    return Slo(name, "chat", "tpot", "engine", 0.99, 30 * 86_400.0, (), 0.05, **more)  # type: ignore[arg-type]


def one_page(*engines: FakeEngine, at: float) -> Reading:
    pages = [engine.reading(at) for engine in engines]
    samples = tuple(sample for page in pages for sample in page.samples)
    return replace(pages[0], samples=samples, histograms=tuple(h for page in pages for h in page.histograms))


def test_labels_and_engines_select_what_is_counted() -> None:
    """vllm-0 is premium and has two ranks, of which rank 1 ends 3 requests; vllm-1 is not premium and ends 7."""
    slos = (promise("all"), promise("premium", target_labels=PREMIUM), promise("rank", engine="1"))
    targets = {
        "vllm-0": TargetFacts("m", "aggregated", None, None, dict(PREMIUM)),
        "vllm-1": TargetFacts("m", "", None),
    }
    memory, plan = Memory(), Plan(slos, targets)
    ranks = [FakeEngine(engine="0"), FakeEngine(engine="1")]
    other = FakeEngine(target="vllm-1")
    for at in (T0, T0 + 10):
        memory.windows.take(one_page(*ranks, at=at))
        memory.windows.take(other.reading(at))
        tick(plan, memory, at)
        ranks[0].finish(2)
        ranks[1].finish(3)
        other.finish(7)
    counted = {slo.name: memory.windows.events[slo.name].total().total for slo in slos}
    assert counted == {"all": 12, "premium": 5, "rank": 3}


def test_the_rules_have_the_same_matchers() -> None:
    query = counting(promise("s", engine="1", target_labels=PREMIUM), DEFAULT_EDGES, "").total("5m")
    assert 'engine="1",tier="premium"' in query


def test_the_config_says_it_and_a_canary_knows_no_engine() -> None:
    text = (
        "slos: [{name: s, sli: ttft, objective_ratio: 0.9, threshold_seconds: 1, engine: '1', labels: {tier: premium}}]"
    )
    (slo,) = make_plan(parse_config(text, "f"), ()).slos
    assert (slo.engine, slo.target_labels) == ("1", PREMIUM)
    with pytest.raises(ConfigError, match="only pages tell engines apart"):
        parse_config(text.replace("engine:", "source: canary, engine:"), "f")
