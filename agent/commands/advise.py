"""`slo-agent advise`: recommendations with their evidence, on a page that whoever pays for the GPUs can read."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from textwrap import fill
from typing import Any

from agent.commands.advice_words import cost_lines, figure_line, group_line, weakest_parts
from agent.commands.asking import Item, add_sources, ask
from agent.commands.common import add_examples, add_json, count_of, print_json, short

WIDTH = 110
INDENT = 17
NOUNS = {"scale": "replicas", "knob": "setting", "kv_tier": "cache tier", "rebalance": "engines in the pool"}
NO_GROUPS = "   No engine was read yet, or none has a promise on ttft, itl, tpot or goodput that replicas could keep."
SURE = ((0.8, "sure enough to act on"), (0.5, "a suggestion: try it on one replica first"), (0.0, "watch it first"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_sources(parser)
    parser.add_argument("--all", action="store_true", help="those that were judged already, too")
    add_json(parser)
    add_examples(
        parser,
        "slo-agent advise --agent http://127.0.0.1:9470",
        "slo-agent advise --recording rec.jsonl.gz -c agent.yaml",
        "slo-agent advise --recording rec.jsonl.gz -c agent.yaml --json",
    )


def run(options: argparse.Namespace) -> int:
    """Print the advice that is open: first what keeps the promise with the GPUs there are; then newest first."""
    at, found = ask(options, "recommendations", "advise")
    wishes = found.get("replicas", ())  # an older agent does not tell
    told = [one for one in reversed(found["recommendations"]) if options.all or one["verdict"] is None]
    told.sort(key=lambda one: one["verdict"] is not None or one["action"] == "scale" or not one["meets_slo"])
    if options.json:
        print_json({"at": at, "recommendations": told, "replicas": wishes})
    else:
        print("\n".join(page(told, at, wishes)))
    return 0


def page(told: Sequence[Item], at: float | None, wishes: Sequence[Item] = ()) -> Iterator[str]:
    """The page in lines, from the JSON forms of the recommendations and of the replicas that should be there."""
    when = "before the first evaluation" if at is None else datetime.fromtimestamp(at, UTC).strftime("%F %T UTC")
    if not told:
        yield f"{when}: nothing to advise."
        yield from _groups(wishes) if wishes else (NO_GROUPS,)
        return
    yield f"{when}: {count_of(len(told), 'recommendation')}"
    for number, one in enumerate(told, 1):
        yield ""
        yield fill(f"{number}. {one['summary']}", WIDTH, subsequent_indent="   ")
        yield ""
        for word, lines in _parts(one):
            for place, line in enumerate(lines):
                head = f"   {word if place == 0 else '':<{INDENT - 3}}"
                yield fill(f"{head}{line}", WIDTH, subsequent_indent=" " * INDENT)
    scaled = {tuple(one["target"].values()) for one in told if one["action"] == "scale"}
    rest = [wish for wish in wishes if tuple(wish["target"].values()) not in scaled]
    if rest:
        yield ""
        yield from _groups(rest)


def _groups(wishes: Sequence[Item]) -> Iterator[str]:
    for wish in wishes:
        yield fill(f"   {group_line(wish)}", WIDTH, subsequent_indent="   ")


def _parts(one: Item) -> Iterator[tuple[str, list[str]]]:
    if one["action"] != "none":
        yield "what", [f"{NOUNS.get(one['action'], one['action'])}: {short(one['current'])} -> {_proposed(one)}"]
    yield "why", [line for evidence in one["evidence"] if (line := figure_line(evidence)) is not None]
    yield "choices", [_choice(choice) for choice in one["alternatives"]]
    yield "costs", cost_lines(one)
    yield "if nothing", [f"{one['do_nothing'].get('summary', 'nothing changes')}{_keeps(one['do_nothing'])}"]
    yield "beware", list(one["side_effects"])
    yield "how sure", [f"{100 * one['confidence']:.0f} %: {_sure(one)}{_keeps(one)}", *weakest_parts(one["evidence"])]
    yield "do", [f"{place}. {step}" for place, step in enumerate(one["steps"], 1)]
    yield "undo", [one["rollback"]]
    judged = datetime.fromtimestamp(one["verify_at"], UTC).strftime("%F %T UTC")
    yield "judged", [f"at {judged}: whether it came true" if one["verdict"] is None else one["verdict"]]


def _sure(one: Item) -> str:
    """To act on is only what helps: that what it says is sure is another thing."""
    if one["meets_slo"] is False and one["confidence"] >= SURE[0][0]:
        return "sure of what it says, which is not enough alone"
    return next(word for least, word in SURE if one["confidence"] >= least)


def _proposed(one: Item) -> str:
    low, high = one["low"], one["high"]
    span = "" if low == high else f" (evidence allows {short(low)} to {short(high)})"
    return f"{short(one['proposed'])}{span}"


def _choice(choice: Mapping[str, Any]) -> str:
    known = [
        f"{word} {_milliseconds(value)}{_between(choice.get(key.replace('_seconds', '_interval_seconds')))}"
        for word, key in (
            ("ITL p95", "itl_p95_seconds"),
            ("ITL p99", "itl_p99_seconds"),
            ("TTFT p95", "ttft_p95_seconds"),
        )
        if (value := choice.get(key)) is not None
    ]
    if choice.get("dollars_per_hour") is not None:
        known.append(f"${choice['dollars_per_hour']:.2f}/h")
    return f"{choice['setting']}: {', '.join(known) or 'not predicted'}{_keeps(choice)}"


def _keeps(part: Mapping[str, Any]) -> str:
    kept = part.get("meets_slo")
    if "meets_slo" not in part:
        return ""
    if kept is None:
        return "; may keep what is promised, not surely"
    return "; keeps what is promised" if kept else "; does not keep what is promised"


def _between(ends: Sequence[float | None] | None) -> str:
    """The interval of a prediction; one end that nobody can give is an open one."""
    if not ends or ends[0] is None:
        return ""
    return f" ({_milliseconds(ends[0])} to {'no end' if ends[1] is None else _milliseconds(ends[1])})"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"
