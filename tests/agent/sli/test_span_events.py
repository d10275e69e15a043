"""SLOs that count from spans: exact, canaries kept out, and a request without a span is unknown, never good."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from fake_engine import FakeEngine

from agent.model import Counts, SliName, Slo
from agent.plan import Plan
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.sli.span import span_counts
from agent.state_forms import SavedMemory
from agent.tick import Memory, tick
from agent.windows import Windows
from probes.spans.result import SpanResult

SECONDS = {"ttft": 0.5, "tpot": 0.05, "e2e": 2.5, "queue": 0.25}
GOOD = SpanResult(
    outcome="ok", ttft_seconds=0.5, tpot_seconds=0.05, e2e_seconds=2.5, queue_seconds=0.25, output_tokens=11,
    target="vllm-0",
)  # fmt: skip
FACTS = {"vllm-0": TargetFacts("m", "aggregated", None)}
FAILED = replace(GOOD, outcome="failed")
ONE_TOKEN = replace(GOOD, tpot_seconds=None, output_tokens=1)


def slo_of(sli: SliName, **more: object) -> Slo:
    return Slo("s", "chat", sli, "span", 0.99, 2_592_000.0, (), SECONDS.get(sli), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("sli", SECONDS)
def test_a_request_is_good_up_to_the_threshold_and_bad_above_it(sli: SliName) -> None:
    """No bucket is between them: the next float above the threshold is bad."""
    late = replace(GOOD, **{f"{sli}_seconds": SECONDS[sli] * (1 + 1e-9)})
    unsaid = replace(GOOD, **{f"{sli}_seconds": None})
    counts = [span_counts(slo_of(sli), span) for span in (GOOD, late, unsaid, FAILED)]
    assert counts == [Counts(good=1), Counts(bad=1), Counts(undecided=1), Counts(bad=1)]


def test_goodput_is_both_thresholds_of_one_request() -> None:
    slo = slo_of("goodput", ttft_seconds=0.5, tpot_seconds=0.05)
    spans = (GOOD, replace(GOOD, ttft_seconds=0.6), replace(GOOD, tpot_seconds=0.06), ONE_TOKEN, FAILED)
    verdicts = [span_counts(slo, span) for span in spans]
    assert verdicts == [Counts(good=1), Counts(bad=1), Counts(bad=1), Counts(good=1), Counts(bad=1)]


def test_an_answer_of_one_token_has_no_pace_and_a_canary_is_no_user() -> None:
    assert span_counts(slo_of("tpot"), ONE_TOKEN) == Counts()
    assert span_counts(slo_of("ttft"), replace(GOOD, is_canary=True, ttft_seconds=9.0)) == Counts()


@dataclass
class Scene:
    """One engine whose page is read every 10 s, and its spans."""

    slos: tuple[Slo, ...]
    windows: Windows = field(default_factory=Windows)
    pending: PendingBook = field(default_factory=PendingBook)
    engine: FakeEngine = field(default_factory=FakeEngine)
    now: float = 1_800_000_000.0
    ended_before: float = 6.0

    @property
    def ended(self) -> float:
        return self.now + 10.0 - self.ended_before

    def __post_init__(self) -> None:
        self.windows.take(self.engine.reading(self.now))

    def pass_10_seconds(self, finished: int = 0, spans: int = 0, span: SpanResult = GOOD) -> None:
        self.engine.finish(finished)
        self.windows.take_spans([replace(span, end_at_seconds=self.ended)] * spans, self.now + 12)
        self.now += 10
        self.windows.take(self.engine.reading(self.now))
        count_events(self.slos, FACTS, self.windows, self.pending)

    def wait(self) -> None:
        for _ in range(4):
            self.pass_10_seconds()

    def counts(self, name: str = "s") -> Counts:
        return self.windows.events[name].total()


def test_every_request_that_ended_is_counted_once() -> None:
    """Of 100 that ended 90 sent a span: the others are unknown once they are half a minute late, and never good."""
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds(finished=100, spans=90)
    assert scene.counts() == Counts(good=90)
    scene.wait()
    assert scene.counts() == Counts(good=90, undecided=10)


def test_a_target_that_sends_none_is_unknown_altogether() -> None:
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds(finished=100)
    scene.wait()
    assert scene.counts() == Counts(undecided=100)


def test_spans_that_come_within_half_a_minute_are_not_missing() -> None:
    scene = Scene((slo_of("ttft"),))
    first = scene.ended
    scene.pass_10_seconds(finished=100)
    scene.pass_10_seconds()
    scene.windows.take_spans([replace(GOOD, end_at_seconds=first)] * 100, scene.now)
    scene.wait()
    assert scene.counts() == Counts(good=100)


@pytest.mark.parametrize("before", [12.0, -0.9], ids=["the server's clock is behind", "the server's clock is ahead"])
def test_clocks_that_differ_a_little_lose_nothing(before: float) -> None:
    """Requests seem to end on the other side of the page that counts them: one stretch covers its neighbour."""
    scene = Scene((slo_of("ttft"),))
    scene.ended_before = before
    for number in (0, 100, 3, 250, 0, 80):
        scene.pass_10_seconds(finished=number, spans=number)
    scene.wait()
    counts = scene.counts()
    assert (counts.good, counts.bad, counts.undecided) == (433, 0, 0)


def test_a_clock_that_is_set_back_makes_nothing_unknown() -> None:
    """An hour back, as a first time sync does; an hour on, when that time comes again, nothing was missing either."""
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds(finished=100, spans=100)
    scene.now -= 3_600
    scene.pass_10_seconds()
    for _ in range(400):
        scene.pass_10_seconds(finished=2, spans=2)
    counts = scene.windows.events["s"].total()
    assert (counts.bad, counts.undecided) == (0, 0)


def test_spans_of_requests_that_the_counter_never_had_hide_no_later_loss() -> None:
    """Those that ended before the first page: the ten that are lost after it are unknown all the same."""
    scene = Scene((slo_of("ttft"),))
    scene.windows.take_spans([replace(GOOD, end_at_seconds=scene.now - 1)] * 30, scene.now + 2)
    scene.pass_10_seconds(finished=100, spans=90)
    scene.wait()
    assert scene.counts() == Counts(good=120, undecided=10)


def test_one_that_comes_after_it_was_given_up_is_not_counted_twice_for_good() -> None:
    """All that ended is 200; its verdict stands, and the next one that is missing is not charged."""
    scene = Scene((slo_of("ttft"),))
    first = scene.ended
    scene.pass_10_seconds(finished=100, spans=90)
    scene.wait()
    scene.windows.take_spans([replace(GOOD, end_at_seconds=first)] * 10, scene.now)
    scene.pass_10_seconds(finished=100, spans=90)
    scene.wait()
    assert scene.counts() == Counts(good=190, undecided=10)


def test_a_restart_loses_no_span_and_doubles_none() -> None:
    """Saved between the page and its spans' half minute: counted on as if nothing had happened."""
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds(finished=100, spans=90)
    saved = SavedMemory()
    _, rows = saved.changes(Memory(windows=scene.windows, pending=scene.pending), scene.now, everything=True)
    memory, _ = SavedMemory().restored(rows, scene.now)
    assert memory.pending.spans == scene.pending.spans
    scene.windows, scene.pending = memory.windows, memory.pending
    scene.wait()
    assert scene.counts() == Counts(good=90, undecided=10)


def test_spans_that_come_before_the_first_page_after_a_restart_are_their_models() -> None:
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds()
    _, rows = SavedMemory().changes(Memory(windows=scene.windows, pending=scene.pending), scene.now, everything=True)
    memory, _ = SavedMemory().restored(rows, scene.now)
    memory.windows.take_spans([replace(GOOD, end_at_seconds=scene.now + 5)] * 3, scene.now + 6)
    count_events(scene.slos, FACTS, memory.windows, memory.pending)
    assert list(memory.pending.spans) == [("vllm-0", "m")]


def test_canaries_are_covered_and_no_events() -> None:
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds(finished=1, spans=1, span=replace(GOOD, is_canary=True, ttft_seconds=9.0))
    scene.wait()
    assert scene.counts() == Counts()


def test_a_span_is_its_pages_models_whatever_it_calls_itself_and_nobodys_counts_nowhere() -> None:
    scene = Scene((slo_of("ttft", model="m"),))
    scene.pass_10_seconds(finished=1, spans=1, span=replace(GOOD, model="/models/m"))
    scene.windows.take_spans([replace(GOOD, target="unknown")], scene.now)
    scene.wait()
    assert scene.counts() == Counts(good=1)


def test_spans_of_a_server_that_came_back_with_another_model_are_that_models() -> None:
    """Its spans name no model; the old one has left the page, and no request of the new one lacks its span."""
    scene = Scene((slo_of("ttft"),))
    scene.pass_10_seconds(finished=5, spans=5)
    scene.wait()
    scene.engine = FakeEngine(model="another", started_at_seconds=scene.now + 1)
    scene.pass_10_seconds()
    scene.pass_10_seconds(finished=7, spans=7)
    scene.wait()
    assert scene.counts() == Counts(good=12)


def test_an_alert_over_missing_spans_says_so() -> None:
    """Unknown ones count as bad by default; whoever is paged reads that they are unknown."""
    slo = replace(slo_of("ttft"), pairs=pairs())
    memory, engine, now = Memory(), FakeEngine(), 1_800_000_000.0
    causes = []
    for _ in range(400):
        now += 10
        engine.finish(10)
        memory.windows.take(engine.reading(now))
        effects = tick(Plan((slo,), FACTS), memory, now)
        causes += [dict(alert.annotations)["cause"] for alert in effects.changed_alerts]
    assert causes
    assert all("sent no span" in cause for cause in causes)


def pairs() -> tuple[object, ...]:
    from agent.burn_windows import pairs_for  # noqa: PLC0415  here alone

    return pairs_for(0.99, 2_592_000.0)


@pytest.mark.parametrize(("step", "state"), [(lambda scene: None, "no_data"), (Scene.wait, "no_traffic")])
def test_an_slo_that_nobody_tells_about_has_no_data(step: Callable[[Scene], None], state: str) -> None:
    slo = replace(slo_of("ttft"), pairs=pairs())
    scene = Scene((slo,))
    step(scene)
    seen = scene.now if state == "no_traffic" else scene.now + 4_000
    memory = Memory(windows=scene.windows, pending=scene.pending)
    (status,) = tick(Plan((slo,), FACTS), memory, seen).snapshot.slos
    assert status.state == state
