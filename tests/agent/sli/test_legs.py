"""A request that prefills on one instance and decodes on another is one event of an SLO."""

import gzip
import json
from collections.abc import Iterator

import pytest
from fake_engine import FakeEngine
from h200 import RECORDING, needs_h200

from agent.model import Counts, SliName, Slo
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.stats.added import added_over
from agent.stats.buckets import merged
from agent.windows import Windows
from probes.page import SystemPage
from probes.sample import Reading

ROLES = {"p": TargetFacts("m", "prefill", None), "d": TargetFacts("m", "decode", None)}


def promise(sli: SliName, threshold: float, **more: object) -> Slo:
    return Slo(sli, "chat", sli, "engine", 0.99, 2_592_000.0, (), threshold, **more)  # type: ignore[arg-type]


def both(slo: Slo, prefill: FakeEngine, decode: FakeEngine, *steps: object) -> Counts:
    """The counts after a first page of each, then a page of each after every step."""
    windows, pending = Windows(), PendingBook()
    for number, step in enumerate([None, *steps]):
        if step is not None:
            step()  # type: ignore[operator]
        for engine in (prefill, decode):
            windows.take(engine.reading(10.0 * (number + 1)))
        count_events((slo,), ROLES, windows, pending, 10.0 * (number + 1))
    return windows.events[slo.name].total()


@pytest.mark.parametrize(
    ("sli", "threshold", "good"), [("availability", 300.0, 40), ("tpot", 0.1, 40), ("itl", 0.1, 0)]
)
def test_forty_requests_are_forty_events(sli: SliName, threshold: float, good: int) -> None:
    """Not eighty: both halves counted them."""
    prefill, decode = FakeEngine("p"), FakeEngine("d")

    def work() -> None:
        prefill.finish(40)
        decode.finish(40)

    counts = both(promise(sli, threshold), prefill, decode, work)
    assert (counts.bad, counts.undecided) == (0, 0)
    if good:
        assert counts.good == good


def test_who_fails_in_prefill_never_gets_to_decode_and_is_bad() -> None:
    prefill, decode = FakeEngine("p"), FakeEngine("d")

    def work() -> None:
        prefill.finish(36)
        prefill.finish(4, why="error")
        decode.finish(36)

    assert both(promise("availability", 300.0), prefill, decode, work) == Counts(good=36, bad=4)


def test_halves_within_their_parts_of_the_limit_are_good() -> None:
    """TTFT at most 2.5 s: 0.5 of it for decode, 2 for prefill."""
    prefill, decode = FakeEngine("p"), FakeEngine("d")

    def work() -> None:
        prefill.finish(40, ttft=0.3, e2e=0.3)
        decode.finish(40, ttft=0.2)

    assert both(promise("ttft", 2.5), prefill, decode, work) == Counts(good=40)


def test_late_in_prefill_is_bad_once_though_decode_was_fast() -> None:
    prefill, decode = FakeEngine("p"), FakeEngine("d")

    def first() -> None:
        prefill.finish(10, ttft=7.0, e2e=7.0)
        prefill.finish(30, ttft=0.3, e2e=0.3)

    def then() -> None:
        decode.finish(40, ttft=0.2)

    assert both(promise("ttft", 2.5), prefill, decode, first, then) == Counts(good=30, bad=10)


def test_what_is_neither_for_certain_is_undecided() -> None:
    """2.2 s of prefill and an unknown part of 0.5 s: the sum is between 2.2 and 2.7 s."""
    prefill, decode = FakeEngine("p"), FakeEngine("d")

    def warm() -> None:
        prefill.finish(5, ttft=0.3, e2e=0.3)
        decode.finish(5, ttft=0.2)

    def first() -> None:
        prefill.finish(10, ttft=2.2, e2e=2.2)

    def then() -> None:
        decode.finish(10, ttft=0.2)

    assert both(promise("ttft", 2.5), prefill, decode, warm, first, then) == Counts(good=5, undecided=10)


def test_an_slo_that_names_a_role_counts_that_half_for_itself() -> None:
    prefill, decode = FakeEngine("p"), FakeEngine("d")

    def work() -> None:
        prefill.finish(40, ttft=0.3)
        decode.finish(40, ttft=7.0)

    assert both(promise("ttft", 2.5, role="prefill"), prefill, decode, work) == Counts(good=40)
    assert both(
        promise("ttft", 2.5, role="decode"), FakeEngine("p"), (d := FakeEngine("d")), lambda: d.finish(4, ttft=7.0)
    ) == (Counts(bad=4))


def recorded() -> Iterator[Reading]:
    readers = {"vllm-8000": SystemPage("vllm"), "vllm-8001": SystemPage("vllm")}
    with gzip.open(RECORDING.with_name("pd_1p1d.jsonl.gz"), "rt") as lines:
        for line in map(json.loads, lines):
            if line["target"] in readers:
                yield readers[line["target"]].read(line["body"], line["target"], line["at"])


@needs_h200
@pytest.mark.parametrize("threshold", [1.25, 2.5, 5.0])
def test_on_real_instances_every_request_counts_once_and_within_what_the_halves_prove(threshold: float) -> None:
    """169 requests; what two histograms of the whole run prove about the sums holds what was counted step by step."""
    targets = {"vllm-8000": TargetFacts("", "prefill", None), "vllm-8001": TargetFacts("", "decode", None)}
    windows, pending, slo = Windows(), PendingBook(), promise("ttft", threshold)
    for number, reading in enumerate(recorded()):
        windows.take(reading)
        if number % 5 == 0:
            count_events((slo,), targets, windows, pending, reading.at_seconds)
    count_events((slo,), targets, windows, pending, reading.at_seconds)
    counts = windows.events["ttft"].total()
    assert counts.total == pytest.approx(169)

    first, second = (
        merged(i.histograms[signal] for i in windows.between(0, 2e9, [target]) if signal in i.histograms)
        for target, signal in (("vllm-8000", "e2e_seconds"), ("vllm-8001", "ttft_seconds"))
    )
    assert first is not None
    assert second is not None
    whole = added_over(first, second, threshold)
    assert counts.bad <= whole.bad + whole.undecided
    assert whole.bad <= counts.bad + counts.undecided
