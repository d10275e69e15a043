"""Replay: the same readings give the same alerts and advice, later and in virtual time."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fake_engine import FakeEngine, no_page

sys.path.insert(0, str(Path(__file__).parents[1] / "probes" / "prometheus"))

from fake_prometheus import FakePrometheus

from agent.cli import main
from agent.config import Config
from agent.config_file import parse_config
from agent.config_watching import Target
from agent.model import Alert, Counts, Recommendation
from agent.planning import all_targets, found_of, make_plan
from agent.prometheus_source import open_history
from agent.replay import Course, Replay, replay_history
from agent.report import report
from agent.signals.read import Question
from agent.stats.goodput import GoodputTarget
from agent.stretch import Stretch
from agent.tick import Memory, tick
from probes.recording import Entry, EntryReader, RecordingError, RecordingWriter
from probes.recording import read_entries as entries_of
from probes.sample import ProbeResult
from probes.spans.result import SpanResult

Serve = Callable[..., Awaitable[Any]]
T0 = 1_800_000_000.0
SPAN_CONFIG = """
tick_seconds: 5
targets: [{name: vllm-0, url: "http://vllm-0:8000", model: m}]
spans: {http: "127.0.0.1:4318"}
canaries: []
slos: [{name: chat-ttft, sli: ttft, source: span, objective_ratio: 0.99, threshold_seconds: 2.5}]
"""
CONFIG = """
tick_seconds: 5
scrape: {interval_seconds: 10}
targets: [{name: vllm-0, url: "http://vllm-0:8000", model: m}]
canaries: [{kind: chat}]
slos:
  - {name: chat-ttft, service: chat, sli: ttft, objective_ratio: 0.99, threshold_seconds: 2.5}
  - {name: chat-up, service: chat, sli: availability, source: canary, objective_ratio: 0.99}
"""


def write_story(path: Path) -> None:
    """Good for 10 minutes, a queue and slow first tokens for 20, then away; every 10 s, with a canary each minute."""
    writer, engine = RecordingWriter(path), FakeEngine()
    for step in range(240):
        at = T0 + 10 * step
        overloaded = 60 <= step < 180
        engine.finish(20, ttft=30.0 if overloaded else 0.3)
        engine.waiting = 10.0 * (step - 60) if overloaded else 0.0
        engine.running = 8.0
        if step < 200:
            writer.write_scrape(engine.reading(at), engine.page())
        else:
            writer.write_scrape(no_page(at, outcome="connect_refused"), "")
        if step % 6 == 0:
            outcome = "ok" if step < 200 else "connect_refused"
            e2e = 1.0 if step < 200 else None
            writer.write_probe(ProbeResult("vllm-0", "chat", outcome, at, at + 1, "m", e2e_seconds=e2e))
    writer.close()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    write_story(tmp_path / "story.jsonl.gz")
    return tmp_path / "story.jsonl.gz"


@dataclass(slots=True)
class Heard:
    """What came out, in order."""

    alerts: list[Alert] = field(default_factory=list)
    advice: list[Recommendation] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)


def live(recording: Path, config: Config) -> Heard:
    """The readings as a running agent takes them: one by one, with a tick every 5 s in between."""
    memory, plan, heard = Memory(), make_plan(config, all_targets(config, ())), Heard()
    reader, queue = EntryReader(), list(entries_of(recording))
    now = queue[0].at_seconds
    while queue:
        now += config.tick_seconds
        while queue and queue[0].at_seconds <= now:
            at, seen = queue[0].at_seconds, reader.read(queue.pop(0))
            if isinstance(seen, ProbeResult):
                memory.windows.take_probe(seen)
            elif isinstance(seen, SpanResult):
                memory.windows.take_spans([seen], at)
            elif seen is not None:
                memory.windows.take(seen)
        effects = tick(plan, memory, now)
        heard.alerts += effects.changed_alerts
        heard.advice += effects.changed_recommendations
        heard.counts += [status.budget.counts for status in effects.snapshot.slos]
    return heard


def test_a_replay_gives_the_alerts_and_the_advice_of_live_ticks(recording: Path) -> None:
    config = parse_config(CONFIG, "story.yaml")
    truth, heard = live(recording, config), Heard()
    for effects in Replay(recording, config).effects():
        heard.alerts += effects.changed_alerts
        heard.advice += effects.changed_recommendations
    assert heard.alerts == truth.alerts
    assert heard.advice == truth.advice
    names = {(alert.name, dict(alert.labels).get("tier")) for alert in heard.alerts}
    assert {
        ("SLOBurnRate", "fast"),
        ("SLOBurnRate", "slow"),
        ("EngineUnreachable", None),
        ("CanaryDown", None),
    } <= names
    assert {advice.action for advice in heard.advice} == {"scale", "knob"}, "the batch stands at 8 beside free KV"


def told_of(recording: Path, target: Target) -> Path:
    """The recording with what is known of the target before all else, as the agent writes it."""
    told = recording.with_name("told.jsonl.gz")
    writer, entries = RecordingWriter(told), list(entries_of(recording))
    writer.write_target(entries[0].at_seconds, found_of(target))
    for entry in entries:
        writer.write(entry)
    writer.close()
    return told


def test_a_recording_tells_of_its_targets_and_needs_no_config_for_them(recording: Path) -> None:
    """The SLO is about the decode replicas of one service: without what is told the target would be of neither."""
    slo = {
        "name": "itl", "service": "chat", "sli": "ttft", "role": "decode", "objective_ratio": 0.99,
        "threshold_seconds": 2.5,
    }  # fmt: skip
    other = slo | {"name": "other", "service": "batch"}
    target = {"name": "vllm-0", "url": "http://vllm-0:8000", "model": "m", "role": "decode", "service": "chat"}
    named = Config.model_validate({"slos": [slo, other], "targets": [target]})
    unnamed = named.model_copy(update={"targets": []})

    def counted(path: Path, config: Config) -> list[Counts]:
        replay = Replay(path, config)
        list(replay.effects())
        assert replay.last is not None
        return [status.budget.counts for status in replay.last.snapshot.slos]

    told = told_of(recording, named.targets[0])
    assert counted(told, unnamed) == counted(told, named) == counted(recording, named)
    assert counted(told, unnamed)[0].bad > 0
    assert counted(recording, unnamed)[0].bad == 0


def test_the_config_is_before_the_recording(recording: Path) -> None:
    config = parse_config(CONFIG, "story.yaml")
    told = told_of(recording, config.targets[0].model_copy(update={"model": "another", "role": "prefill"}))
    heard = [effects.changed_alerts for effects in Replay(told, config).effects()]
    assert heard == [effects.changed_alerts for effects in Replay(recording, config).effects()]


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"address": "a:1", "labels": 3}', '{"address": "a:1", "labels": {"__metrics_path__": "x"}}']
)
def test_a_target_that_cannot_be_one_is_told(tmp_path: Path, body: str) -> None:
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    writer.write(Entry(T0, "a", "target", body))
    writer.close()
    with pytest.raises(RecordingError, match=r"target.*a\b.*cannot be"):
        list(Replay(tmp_path / "r.jsonl.gz", parse_config(CONFIG, "story.yaml")).effects())


def write_spans(path: Path) -> None:
    """Ten minutes at two requests a second; one in ten is late, one in twenty sends no span, one is a canary."""
    writer, engine = RecordingWriter(path), FakeEngine()
    for step in range(60):
        at = T0 + 10 * step
        engine.finish(20)
        writer.write_scrape(engine.reading(at), engine.page())
        spans = [
            SpanResult(outcome="ok", end_at_seconds=at + n / 2 + 0.25, ttft_seconds=9.0 if n in (3, 13) else 0.3,
                       output_tokens=10, target="vllm-0", is_canary=n == 7)
            for n in range(19)
        ]  # fmt: skip
        writer.write_spans(at + 5, spans[:10])
        writer.write_spans(at + 9, spans[10:])
    writer.close()


def test_a_replay_of_spans_counts_what_live_ticks_counted(tmp_path: Path) -> None:
    """Of 59 x 20 requests after the first page: 16 in 20 good, 2 late, 1 a canary, 1 unknown (not yet the last)."""
    write_spans(tmp_path / "spans.jsonl.gz")
    config = parse_config(SPAN_CONFIG, "spans.yaml")
    truth = live(tmp_path / "spans.jsonl.gz", config)
    replay = Replay(tmp_path / "spans.jsonl.gz", config)
    for _ in replay.effects():
        pass
    assert replay.last is not None
    (status,) = replay.last.snapshot.slos
    assert status.budget.counts == truth.counts[-1]
    assert (status.budget.counts.good, status.budget.counts.bad) == (60 * 16, 60 * 2)
    assert 40 <= status.budget.counts.undecided <= 59


def test_a_report_tells_the_requests_of_its_stretch(tmp_path: Path) -> None:
    write_spans(tmp_path / "spans.jsonl.gz")
    stretch = Stretch(T0 + 100, T0 + 200)
    found = report(tmp_path / "spans.jsonl.gz", stretch, Question(GoodputTarget(2.5, 0.05))).targets["vllm-0"]
    assert (found.span_requests, found.span_coverage_ratio) == (180.0, 190 / 200)
    assert found.span_ttft_seconds is not None
    assert found.span_ttft_seconds.count == 180


def test_two_replays_are_equal(recording: Path) -> None:
    config = parse_config(CONFIG, "story.yaml")
    first, second = list(Replay(recording, config).effects()), list(Replay(recording, config).effects())
    assert first == second


def test_a_target_that_never_answered_in_the_recording_is_watched_as_well(tmp_path: Path) -> None:
    """The config names no target; all that the recording has of `vllm-9` are refused connections."""
    writer = RecordingWriter(tmp_path / "down.jsonl.gz")
    for step in range(12):
        writer.write_scrape(no_page(T0 + 10 * step, target="vllm-9", outcome="connect_refused"), "")
    writer.close()
    config = parse_config("slos: []", "none.yaml")
    alerts = [a for effects in Replay(tmp_path / "down.jsonl.gz", config).effects() for a in effects.changed_alerts]
    assert [(alert.name, dict(alert.labels)["target"]) for alert in alerts] == [("EngineUnreachable", "vllm-9")]


def lines_of(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    for line in text.splitlines():
        document = json.loads(line)
        kind = next(key for key in ("alert", "recommendation", "summary") if key in document)
        yield kind, document


def test_the_command_prints_json_lines_and_one_summary_last(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agent.yaml").write_text(CONFIG)
    code = main(["replay", str(recording), "-c", str(tmp_path / "agent.yaml"), "--json"])
    lines = list(lines_of(capsys.readouterr().out))
    kinds = [kind for kind, _ in lines]
    assert code == 1  # something paged
    assert kinds.count("summary") == 1
    assert kinds[-1] == "summary"
    alert = next(document for kind, document in lines if kind == "alert")
    assert set(alert) == {"at", "alert"}
    summary = lines[-1][1]["summary"]
    assert isinstance(summary, dict)
    firing = [d for kind, d in lines if kind == "alert" and d["alert"]["state"] == "firing"]  # type: ignore[call-overload, index]
    assert summary["alerts"] == len(firing)
    assert summary["ticks"] == 2390 / 5
    assert [slo["name"] for slo in summary["slos"]] == ["chat-ttft", "chat-up"]


def test_a_quiet_recording_ends_with_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer, engine = RecordingWriter(tmp_path / "calm.jsonl.gz"), FakeEngine()
    for step in range(30):
        engine.finish(5)
        writer.write_scrape(engine.reading(T0 + 10 * step), engine.page())
    writer.close()
    (tmp_path / "agent.yaml").write_text(CONFIG)
    assert main(["replay", str(tmp_path / "calm.jsonl.gz"), "-c", str(tmp_path / "agent.yaml")]) == 0
    assert "0 pages, 0 tickets, 0 recommendations" in capsys.readouterr().out


async def test_a_history_out_of_prometheus_pages_as_it_would_have(aiohttp_server: Serve) -> None:
    """An hour in which, from its half on, every first token is late: 99 % at 14.4 needs 8.64 minutes of that."""
    fake = FakePrometheus()
    own = {"engine": "0", "model_name": "m"}
    times = [T0 + 15 * n for n in range(241)]
    fake.add("vllm:generation_tokens_total", [(at, at - T0) for at in times], **own)
    fake.add("vllm:time_to_first_token_seconds_bucket", [(at, min(at - T0, 1800.0)) for at in times], **own, le="2.5")
    fake.add("vllm:time_to_first_token_seconds_bucket", [(at, at - T0) for at in times], **own, le="+Inf")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    url = str((await aiohttp_server(app)).make_url("")).rstrip("/")
    config = parse_config(
        "canaries: []\nslos: [{name: s, sli: ttft, threshold_seconds: 2.5, objective_ratio: 0.99}]", "c"
    )
    course, alerts = Course(config), []
    async with open_history(config, url) as history:
        async for _, effects in replay_history(history, course, T0, T0 + 3600, None):
            alerts += [alert for one in effects for alert in one.changed_alerts]
    fast = next(alert for alert in alerts if ("tier", "fast") in alert.labels)
    assert fast.starts_at_seconds - (T0 + 1800) == pytest.approx(8.64 * 60, abs=20)
    assert course.ticks == 3600 / 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "one of REC and --prometheus URL is needed"),
        (["rec.jsonl.gz", "--prometheus", "http://p:9090"], "one of REC and --prometheus URL is needed"),
        (["rec.jsonl.gz", "--from", "30d"], "are for --prometheus"),
        (["--prometheus", "http://p:9090"], "--from is missing"),
        (["--prometheus", "http://p:9090", "--from", "1h", "--to", "2h"], "not before --to"),
        (["--prometheus", "p:9090", "--from", "1h"], "no address of a Prometheus"),
    ],
)
def test_what_replay_cannot_do_is_told(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agent.yaml").write_text(CONFIG)
    assert main(["replay", *options, "-c", str(tmp_path / "agent.yaml")]) == 2
    assert words in capsys.readouterr().err
