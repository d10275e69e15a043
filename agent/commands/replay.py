"""`slo-agent replay`: a recording, or a Prometheus' history, through the same evaluation, in virtual time."""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.alerts.slo_alerts import budget_words
from agent.commands.asking import warn_of_unseen
from agent.commands.common import add_config, add_examples, count_of, duration_seconds, past
from agent.config import Config
from agent.config_file import load_config
from agent.errors import UsageError
from agent.model import Effects
from agent.outputs.jsonable import alert_json, recommendation_json, slo_json
from agent.prometheus_source import open_history
from agent.replay import Course, Replay, replay_history

SECONDS_FOR_STEP = 7 * 86_400.0  # a longer history is read a sample a minute, unless asked otherwise
LONG_STEP_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("recording", type=Path, nargs="?", metavar="REC", help="a recording, .jsonl.gz")
    add_config(parser)
    parser.add_argument("--prometheus", metavar="URL", help="instead of a recording: what this Prometheus scraped")
    parser.add_argument(
        "--from",
        dest="start",
        type=past,
        metavar="T",
        help="its first moment: 2026-01-31T12:00:00Z, or 30d for so long ago",
    )
    parser.add_argument("--to", dest="end", type=past, metavar="T", help="its last moment; default: now")
    parser.add_argument("--match", default="", metavar="MATCHERS", help="further matchers, such as 'job=\"vllm\"'")
    parser.add_argument(
        "--step",
        type=_step,
        metavar="TIME",
        help="60s: one sample a minute; all: as scraped. Default: all of up to 7 days, else 60s",
    )
    parser.add_argument("--json", action="store_true", help="JSON lines: alerts, recommendations, then one summary")
    add_examples(
        parser,
        "slo-agent record -c agent.yaml --out rec.jsonl.gz --for 1h && slo-agent replay rec.jsonl.gz -c agent.yaml",
        "slo-agent replay rec.jsonl.gz -c stricter.yaml --json | tail -1",
        "slo-agent replay --prometheus http://prometheus:9090 --from 30d -c agent.yaml",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when anything would have paged."""
    config, told = load_config(options.config), Told(as_json=options.json)
    if (options.recording is None) == (options.prometheus is None):
        raise UsageError("one of REC and --prometheus URL is needed", "What shall be replayed?")
    if options.prometheus is not None:
        course = asyncio.run(_replay_history(options, config, told))
    elif options.start or options.end or options.step or options.match:
        raise UsageError("--from, --to, --step and --match are for --prometheus", "A recording is replayed as a whole.")
    else:
        replay = Replay(options.recording, config)
        for effects in replay.effects():
            told.hear(effects)
        course = replay.course
        warn_of_unseen(options.recording, course)
    told.end(course)
    return 1 if told.pages else 0


async def _replay_history(options: argparse.Namespace, config: Config, told: "Told") -> Course:
    end = time.time() if options.end is None else options.end
    if options.start is None or options.start >= end:
        raise UsageError("--from is missing or not before --to", "Write --from 30d, or a time before that of --to.")
    step = options.step
    if step is None and end - options.start > SECONDS_FOR_STEP:
        step = LONG_STEP_SECONDS
        print("replay: more than 7 days: one sample a minute is read (--step all: every one)", file=sys.stderr)
    course, tenth = Course(config), 0
    async with open_history(config, options.prometheus, options.match) as history:
        async for piece, effects in replay_history(history, course, options.start, end, step or None):
            for one in effects:
                told.hear(one)
            done = int(10 * (piece.to_seconds - options.start) / (end - options.start))
            if done > tenth:
                tenth = done
                print(f"replay: {10 * tenth} % read", file=sys.stderr)
    if course.last is None:
        raise UsageError(f"{options.prometheus}: no look at a vLLM in this stretch", "Is it within its retention?")
    return course


@dataclass(slots=True)
class Told:
    """What was printed, counted."""

    as_json: bool
    pages: int = 0
    alerts: int = 0
    recommendations: int = 0

    def hear(self, effects: Effects) -> None:
        """Print what changed."""
        began = [alert for alert in effects.changed_alerts if alert.is_firing]
        self.alerts += len(began)
        self.pages += sum(dict(alert.labels).get("severity") == "page" for alert in began)
        self.recommendations += sum(advice.verdict is None for advice in effects.changed_recommendations)
        _print(effects, as_json=self.as_json)

    def end(self, course: Course) -> None:
        """Print the summary."""
        statuses = course.last.snapshot.slos if course.last else ()
        if self.as_json:
            summary = {
                "ticks": course.ticks,
                "alerts": self.alerts,
                "pages": self.pages,
                "recommendations": self.recommendations,
                "slos": [slo_json(status) for status in statuses],
            }
            print(json.dumps({"summary": summary}, allow_nan=False))
            return
        words = [
            count_of(self.pages, "page"),
            count_of(self.alerts - self.pages, "ticket"),
            count_of(self.recommendations, "recommendation"),
        ]
        print(f"{count_of(course.ticks, 'evaluation')}: {', '.join(words)} (times are UTC)")
        for status in statuses:
            print(f"  {status.slo.name}: {budget_words(status.budget)}")


def _step(text: str) -> float:
    """Seconds; 0 for all samples."""
    return 0.0 if text == "all" else duration_seconds(text)


def _print(effects: Effects, *, as_json: bool) -> None:
    at = effects.snapshot.at_seconds
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    for alert in effects.changed_alerts:
        if as_json:
            print(json.dumps({"at": at, "alert": alert_json(alert)}, allow_nan=False))
        else:
            labels = " ".join(f"{key}={value}" for key, value in alert.labels if key != "alertname")
            print(f"{when}  {'firing  ' if alert.is_firing else 'resolved'}  {alert.name}  {labels}")
            if alert.is_firing:
                print(f"{'':<21}{alert.annotations.get('summary', '')}")
                print(f"{'':<21}why: {alert.annotations.get('cause') or 'unknown'}")
    for advice in effects.changed_recommendations:
        if as_json:
            print(json.dumps({"at": at, "recommendation": recommendation_json(advice)}, allow_nan=False))
        else:
            print(f"{when}  advice    {advice.summary if advice.verdict is None else f'{advice.id}: {advice.verdict}'}")
