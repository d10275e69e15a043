"""Windows: from pages to increments. Nothing is lost at a restart, nothing is counted twice."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fake_engine import EDGES, FakeEngine, no_page, page_of

from agent.windows import EngineKey, Increment, Windows
from probes.sample import PageWarning, ProbeResult, Reading, Sample

KEY = EngineKey("vllm-0", "vllm", "0", "m")
TOKENS = ("generation_tokens_total", "")


def page(at: float, tokens: float | None, started: float | None = None, label: str = "", **more: float) -> Reading:
    """A page with one counter, and maybe labelled ones."""
    samples = [] if tokens is None else [Sample("generation_tokens_total", "counter", "0", "m", tokens, label)]
    samples += [Sample("requests_rejected_total", "counter", "0", "m", value, why) for why, value in more.items()]
    return Reading("vllm-0", "vllm", at, samples=tuple(samples), process_start_seconds=started)


def taken(readings: Sequence[Reading]) -> list[Increment]:
    windows = Windows()
    for reading in readings:
        windows.take(reading)
    return windows.drain()[0]


def tokens(increments: Sequence[Increment]) -> float:
    return sum(increment.counters.get(TOKENS, 0.0) for increment in increments)


@pytest.mark.parametrize(
    ("story", "values", "starts", "rise"),
    [
        ("a counter that falls has started anew", (100, 150, 20, 60), (None,) * 4, 110),
        ("the same, with the process's start told", (100, 150, 20, 60), (1, 1, 25, 25), 110),
        ("a restart hidden by a larger value", (100, 150), (1, 15), 150),
        ("the same value after a restart", (100, 100), (1, 15), 100),
        ("a first sight is no rise", (7,), (None,), 0),
        ("a first sight of an old process is no rise", (7,), (1,), 0),
        ("a series that is away for one page", (100, None, 150), (None,) * 3, 50),
        ("a start time that jitters is no restart", (100, 150), (1.0, 1.4), 50),
    ],
)
def test_rise(story: str, values: Sequence[float | None], starts: Sequence[float | None], rise: float) -> None:
    """slo.md F. Pages lie 10 s apart."""
    pages = [page(10.0 * i, value, start) for i, (value, start) in enumerate(zip(values, starts, strict=True), 1)]
    assert tokens(taken(pages)) == rise, story


def test_a_process_that_began_after_our_first_look_is_counted_from_its_start() -> None:
    """It was down at 10; at 30 its page says that it began at 22 and has 7: all 7 came in (22, 30]."""
    (increment,) = taken([no_page(10), no_page(20), page(30, 7, started=22)])
    assert (increment.from_seconds, increment.to_seconds, increment.counters[TOKENS]) == (22, 30, 7)


def test_an_engine_first_seen_on_a_known_page_is_no_rise() -> None:
    """slo.md F: without a start after our last look, what its counters show may be old."""
    one, two = FakeEngine(), FakeEngine(engine="1", generated=7)
    found = taken([page_of([one], 10), page_of([one, two], 20)])
    assert tokens([i for i in found if i.key.engine == "1"]) == 0


def test_an_engine_that_goes_and_returns_is_counted_once() -> None:
    one, two = FakeEngine(), FakeEngine(engine="1", generated=100)
    pages = [page_of([one, two], 10), page_of([one], 20)]
    two.generated = 130
    pages.append(page_of([one, two], 30))
    assert tokens(taken(pages)) == 30


def test_a_new_label_of_a_counter_counts_from_its_first_page_on() -> None:
    """vLLM writes the first rejection of a kind when it happens: there was none before."""
    found = taken([page(10, 0), page(20, 0, queue_full=5)])
    assert found[-1].counters["requests_rejected_total", "queue_full"] == 5


def test_a_new_label_after_a_page_that_was_not_read_whole_is_no_rise() -> None:
    cut = replace(page(10, 0), warnings=(PageWarning("page_cut", "the page is larger than 16000000 bytes"),))
    found = taken([cut, page(20, 0, queue_full=5)])
    assert ("requests_rejected_total", "queue_full") not in found[-1].counters


def test_a_histogram_that_is_away_for_one_page_is_not_counted_again() -> None:
    engine = FakeEngine()
    engine.finish(50)
    first, bare = engine.reading(10), replace(engine.reading(20), histograms=())
    engine.finish(3)
    found = taken([first, bare, engine.reading(30)])
    assert [i.histograms["ttft_seconds"].count for i in found if "ttft_seconds" in i.histograms] == [3]


def test_changed_edges_are_never_subtracted() -> None:
    engine = FakeEngine()
    engine.finish(50)
    before = engine.reading(10)
    engine.finish(5)
    after = engine.reading(20)
    other = tuple(replace(h, edges=(*h.edges[:-2], 999.0, h.edges[-1])) for h in after.histograms)
    found = taken([before, replace(after, histograms=other)])
    assert "ttft_seconds" not in found[-1].histograms


def test_edges_that_change_at_a_restart_count_what_the_new_process_saw() -> None:
    engine = FakeEngine(started_at_seconds=1)
    engine.finish(50)
    newborn = FakeEngine(started_at_seconds=15)
    newborn.finish(60)
    after = newborn.reading(20)
    other = tuple(replace(h, edges=(*h.edges[:-2], 999.0, h.edges[-1])) for h in after.histograms)
    found = taken([engine.reading(10), replace(after, histograms=other)])
    assert found[-1].histograms["ttft_seconds"].count == 60
    assert found[-1].restarted


@pytest.mark.parametrize("at", [10.0, 20.0])
def test_a_reading_that_is_not_newer_is_ignored(at: float) -> None:
    assert tokens(taken([page(10, 100), page(20, 150), page(at, 9_999), page(30, 160)])) == 60


def test_a_missing_scrape_loses_nothing_and_the_gap_is_known() -> None:
    """slo.md G: on a grid of 15 s one page is missing."""
    found = taken([page(0.5, 0), page(15, 10), no_page(30), page(45, 30)])
    assert [(i.from_seconds, i.to_seconds, i.counters.get(TOKENS, 0)) for i in found[1:]] == [
        (0.5, 15, 10),
        (15, 45, 20),
    ]


def test_after_an_outage_everything_lies_in_the_gap() -> None:
    found = taken([page(10, 0), *(no_page(10 + 10 * i) for i in range(1, 60)), page(610, 1020)])
    assert (found[-1].from_seconds, found[-1].to_seconds, found[-1].counters[TOKENS]) == (10, 610, 1020)


def test_engines_and_models_of_one_page_are_kept_apart() -> None:
    engines = [FakeEngine(engine="0"), FakeEngine(engine="1"), FakeEngine(engine="0", model="other")]
    first = page_of(engines, 10)
    for tokens_more, engine in enumerate(engines, 1):
        engine.generated += tokens_more
    found = taken([first, page_of(engines, 20)])
    rises = {(i.key.engine, i.key.model): i.counters[TOKENS] for i in found if i.counters}
    assert rises == {("0", "m"): 1, ("1", "m"): 2, ("0", "other"): 3}


def test_gauges_are_those_of_the_newest_page_and_never_carried_on() -> None:
    engine = FakeEngine(waiting=4)
    first = engine.reading(10)
    bare = replace(engine.reading(20), samples=tuple(s for s in first.samples if s.kind == "counter"))
    assert [i.gauges.get(("requests_waiting", "")) for i in taken([first, bare])] == [4, None]


def test_a_target_that_vanishes_is_forgotten_with_everything_of_it() -> None:
    windows, engine = Windows(), FakeEngine()
    windows.take(engine.reading(10))
    engine.finish(5)
    windows.take(engine.reading(20))
    windows.take_probe(ProbeResult("vllm-0", "chat", "ok", 20, 21))
    windows.forget("vllm-0")
    left = (windows.targets, windows.increments, windows.probes, windows.totals, windows.succeeded, windows.raw)
    assert [len(each) for each in left] == [0] * 6
    windows.take(engine.reading(30))
    assert tokens(list(windows.increments[KEY])) == 0


def test_old_increments_and_canaries_are_dropped() -> None:
    windows = Windows(keep_seconds=100)
    for at in range(0, 1000, 10):
        windows.take(page(at + 1, at))
        windows.take_probe(ProbeResult("vllm-0", "chat", "ok", at, at + 1))
    assert len(windows.increments[KEY]) == 11
    assert len(windows.probes["vllm-0"]) == 11


def test_each_reading_is_drained_once() -> None:
    windows = Windows()
    windows.take(page(10, 0))
    windows.take(page(20, 5))
    assert (len(windows.drain()[0]), len(windows.drain()[0])) == (2, 0)


def test_totals_grow_with_every_reading() -> None:
    windows, engine = Windows(), FakeEngine()
    for at in (10, 20, 30):
        windows.take(engine.reading(at))
        engine.finish(5)
    assert windows.totals[KEY, "ttft_seconds"].count == 10
    assert windows.totals[KEY, "ttft_seconds"].edges == EDGES


def test_an_engine_long_gone_from_a_page_leaves_nothing_behind() -> None:
    windows = Windows(keep_seconds=100)
    one, two = FakeEngine(), FakeEngine(engine="1")
    for step in range(30):
        windows.take(page_of([one, two] if step < 5 else [one], 10.0 * step))
    assert [key.engine for key in windows.increments] == ["0"]
    assert [key.engine for key in windows.raw] == ["0"]
