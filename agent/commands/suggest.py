"""`slo-agent suggest`: SLOs that a history could keep, what they would have paged, and the presets beside."""

import argparse
import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from agent.alerts.slo_alerts import good_words
from agent.commands.common import add_config, add_examples, add_json, count_of, past, percent, print_json
from agent.config import Config
from agent.config_file import load_config
from agent.errors import UsageError
from agent.presets import preset_slos, presets
from agent.prometheus_source import open_history
from agent.replay import Course, Replay, replay_history
from agent.suggest import Candidate, History, Trial, Trials, candidates, proposed, trial_config
from probes.recording import EntryReader, read_entries
from probes.sample import ProbeResult, Reading

DAY_SECONDS = 86_400.0
MONTH_SECONDS = 30 * DAY_SECONDS
LONG_SECONDS = 2 * DAY_SECONDS
SHORT_HISTORY_SECONDS = 7 * DAY_SECONDS
TICK_SECONDS, LONG_TICK_SECONDS = 5.0, 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("recording", type=Path, nargs="?", metavar="REC", help="a recording, .jsonl.gz")
    add_config(parser, required=False)
    parser.add_argument("--prometheus", metavar="URL", help="instead of a recording: what this Prometheus scraped")
    parser.add_argument(
        "--from", dest="start", type=past, metavar="T", help="of the Prometheus: how far back; default: 30d"
    )
    parser.add_argument("--to", dest="end", type=past, metavar="T", help="its last moment; default: now")
    parser.add_argument("--match", default="", metavar="MATCHERS", help="further matchers, such as 'job=\"vllm\"'")
    parser.add_argument("--presets", action="store_true", help="no history: print the presets as YAML")
    add_json(parser)
    add_examples(
        parser,
        "slo-agent record -c agent.yaml --out rec.jsonl.gz --for 1d && slo-agent suggest rec.jsonl.gz",
        "slo-agent suggest --prometheus http://prometheus:9090 --from 30d",
        "slo-agent suggest --presets",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when the history could keep nothing."""
    if options.presets:
        print(_preset_yaml(), end="")
        return 0
    if (options.recording is None) == (options.prometheus is None):
        raise UsageError("suggest needs a history", "Name a recording or --prometheus URL, or write --presets.")
    if options.prometheus is not None:
        history, trials = asyncio.run(_of_prometheus(options))
    else:
        history = _history(options.recording)
        trials = _trials(options.recording, candidates(history), history.seconds)
    chosen = proposed(trials)
    if options.json:
        print_json(_json(history, trials, chosen))
    else:
        print("\n".join(_lines(history, trials, chosen)))
    return 0 if chosen else 1


def _history(recording: Path) -> History:
    history, reader = History(), EntryReader()
    for entry in read_entries(recording):
        seen = reader.read(entry)
        if isinstance(seen, Reading | ProbeResult):
            history.take(seen)
    return history


async def _of_prometheus(options: argparse.Namespace) -> tuple[History, list[Trial]]:
    """Both passes over what a Prometheus scraped. The config, where one is named, has its secrets and target names."""
    config = load_config(options.config) if options.config else Config()
    end = time.time() if options.end is None else options.end
    start = end - MONTH_SECONDS if options.start is None else options.start
    if start >= end:
        raise UsageError("--from is not before --to", "Swap them.")
    step = LONG_TICK_SECONDS if end - start > LONG_SECONDS else None
    seen = History()
    async with open_history(config, options.prometheus, options.match) as source:
        await source.look_around(start, end)
        async for piece in source.pieces(start, end, step):
            for reading in piece.readings:
                seen.take(reading)
        tried = candidates(seen)
        trials, course = Trials(tried), Course(_trial_config(tried, seen.seconds))
        async for _, effects in replay_history(source, course, start, end, step):
            for one in effects:
                trials.hear(one)
    return seen, trials.end(course.last)


def _trial_config(tried: list[Candidate], seconds: float) -> Config:
    return trial_config(tried, LONG_TICK_SECONDS if seconds > LONG_SECONDS else TICK_SECONDS)


def _trials(recording: Path, tried: list[Candidate], seconds: float) -> list[Trial]:
    trials = Trials(tried)
    replay = Replay(recording, _trial_config(tried, seconds))
    for effects in replay.effects():
        trials.hear(effects)
    return trials.end(replay.last)


def _lines(history: History, trials: list[Trial], chosen: list[Trial]) -> Iterator[str]:
    yield f"history: {_span(history.seconds)}, {count_of(round(sum(history.finished.values())), 'request')}"
    if history.seconds < SHORT_HISTORY_SECONDS:
        yield "  It is short: a week holds the busy and the quiet hours. Ask again then."
    yield f"\n{'promise':<58} {'kept':>10} {'budget left':>12} {'pages':>6} {'tickets':>8}"
    for title, origin in (("what it kept, with a fifth of the budget to spare", "kept"), ("a step tighter", "tighter")):
        rows = [trial for trial in trials if trial.candidate.origin == origin]
        if rows:
            yield f"{title}:"
            yield from (_row(trial) for trial in rows)
    for name in presets():
        yield f"preset {name} ({presets()[name]['about']}):"
        yield from (_row(trial) for trial in trials if trial.candidate.origin == name)
    yield ""
    if chosen:
        yield "# to paste: of each kind the promise that would have paged least, and of those the strictest"
        yield _yaml(chosen).rstrip()
    else:
        yield "nothing can be suggested: there are too few requests for any promise"


def _row(trial: Trial) -> str:
    kept, status = trial.kept_ratio, trial.status
    if status is None or kept is None:
        return f"  {trial.candidate.slo['name']:<56} {'no events: unknown':>10}"
    words = f"{percent(status.slo.objective_ratio)}: {good_words(status.slo)}"
    if status.slo.source == "canary":
        words += " (canaries)"
    left = 1 - (1 - kept) / status.slo.budget_ratio
    return f"  {words:<56} {kept:>10.3%} {left:>12.0%} {trial.pages:>6} {trial.tickets:>8}"


def _yaml(chosen: list[Trial]) -> str:
    return yaml.safe_dump({"slos": [dict(trial.candidate.slo) for trial in chosen]}, sort_keys=False)


def _preset_yaml() -> str:
    parts = [f"# {name}: {presets()[name]['about']}. The same as `preset: {name}`.\n" for name in presets()]
    bodies = [yaml.safe_dump({"slos": preset_slos(name)}, sort_keys=False) for name in presets()]
    return "---\n".join(head + body for head, body in zip(parts, bodies, strict=True))


def _json(history: History, trials: list[Trial], chosen: list[Trial]) -> Mapping[str, Any]:
    names = {trial.candidate.slo["name"] for trial in chosen}
    return {
        "from": history.from_seconds if trials and history.seconds else None,
        "to": history.to_seconds if trials and history.seconds else None,
        "requests": sum(history.finished.values()),
        "canaries": history.canaries,
        "trials": [
            {
                "origin": trial.candidate.origin,
                "beyond": trial.candidate.beyond or None,
                "slo": dict(trial.candidate.slo),
                "kept_ratio": trial.kept_ratio,
                "budget_left_ratio": None if trial.status is None else trial.status.budget.observed_remaining_ratio,
                "pages": trial.pages,
                "tickets": trial.tickets,
                "is_proposed": trial.candidate.slo["name"] in names,
            }
            for trial in trials
        ],
        "config": {"slos": [dict(trial.candidate.slo) for trial in chosen]},
    }


def _span(seconds: float) -> str:
    for unit, size in (("days", DAY_SECONDS), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
