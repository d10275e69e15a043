"""`slo-agent replay`: a recording through the same evaluation, in virtual time."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from agent.alerts.slo_alerts import budget_words
from agent.commands.common import add_config, add_examples, count_of
from agent.config_file import load_config
from agent.model import Effects
from agent.outputs.jsonable import alert_json, recommendation_json, slo_json
from agent.replay import Replay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("recording", type=Path, metavar="REC", help="a recording, .jsonl.gz")
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="JSON lines: alerts, recommendations, then one summary")
    add_examples(
        parser,
        "slo-agent record -c agent.yaml --out rec.jsonl.gz --for 1h && slo-agent replay rec.jsonl.gz -c agent.yaml",
        "slo-agent replay rec.jsonl.gz -c stricter.yaml --json | tail -1",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when anything would have paged."""
    replay = Replay(options.recording, load_config(options.config))
    pages = alerts = recommendations = 0
    for effects in replay.effects():
        began = [alert for alert in effects.changed_alerts if alert.is_firing]
        alerts += len(began)
        pages += sum(dict(alert.labels).get("severity") == "page" for alert in began)
        recommendations += sum(advice.verdict is None for advice in effects.changed_recommendations)
        _print(effects, as_json=options.json)
    slos = [slo_json(status) for status in replay.last.snapshot.slos] if replay.last else []
    summary = {
        "ticks": replay.ticks,
        "alerts": alerts,
        "pages": pages,
        "recommendations": recommendations,
        "slos": slos,
    }
    if options.json:
        print(json.dumps({"summary": summary}, allow_nan=False))
    else:
        tickets = alerts - pages
        told = [count_of(pages, "page"), count_of(tickets, "ticket"), count_of(recommendations, "recommendation")]
        print(f"{count_of(replay.ticks, 'evaluation')}: {', '.join(told)} (times are UTC)")
        for status in replay.last.snapshot.slos if replay.last else ():
            print(f"  {status.slo.name}: {budget_words(status.budget)}")
    return 1 if pages else 0


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
