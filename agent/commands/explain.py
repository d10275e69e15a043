"""`slo-agent explain SLO`: the arithmetic of one SLO, with the counts, so that a person can check it by hand."""

import argparse
import difflib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from agent.alerts.slo_alerts import window_word
from agent.commands.asking import add_sources, ask
from agent.commands.common import add_examples, add_json, print_json
from agent.errors import UsageError

WORDS = {
    "burning": "both burn faster: it alerts",
    "within_budget": "not both burn faster: it does not alert",
    "too_few_bad_events": "both burn faster, on fewer bad events than burn.min_bad_events: it does not alert",
    "excluded": "it would alert on events that an exclusion takes out: it does not",
    "no_events": "a window without events: unknown, an alert that fires goes on",
    "too_little_volume": "both burn faster, on too little traffic to spend half of that share: it does not alert",
}
WITNESSES = {
    "engine": "the engines' own counters tell",
    "canary": "our canaries saw it",
    "slos": "these SLOs tell",
    "span": "the spans of the requests tell; undecided ones sent none, or it does not say",
}
Slo = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("slo", metavar="SLO", help="its name in the config")
    add_sources(parser)
    add_json(parser)
    add_examples(
        parser,
        "slo-agent explain chat-ttft --agent http://127.0.0.1:9470",
        "slo-agent explain chat-ttft --recording rec.jsonl.gz -c agent.yaml",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when the SLO burns or its budget is spent."""
    at, found = ask(options, "slos", "explain")
    slos = found["slos"]
    slo = next((slo for slo in slos if slo["name"] == options.slo), None)
    if slo is None:
        names = [str(slo["name"]) for slo in slos]
        near = difflib.get_close_matches(options.slo, names, n=1)
        mend = f'Did you mean "{near[0]}"?' if near else f"Known: {', '.join(names) or 'none'}."
        raise UsageError(f'there is no SLO "{options.slo}"', mend)
    if options.json:
        print_json({"at": at, "slo": slo})
    else:
        print("\n".join(explained(slo, at)))
    return 1 if slo["state"] in ("burning", "exhausted") else 0


def explained(slo: Slo, at: float | None) -> Iterator[str]:
    """The arithmetic in lines, from the JSON form of an SLO's status."""
    budget_ratio = 1 - slo["objective_ratio"]
    when = "before its first evaluation" if at is None else datetime.fromtimestamp(at, UTC).strftime("%F %T UTC")
    yield f"SLO {slo['name']} of {slo['service']}, {when}: {slo['state']}"
    if (silence := slo.get("silence")) is not None:
        yield f"  {silence['reason'] + ':':<14} {silence['detail']}"
    yield f"  good means     {_good(slo)}, as {_witness(slo)}"
    if length := slo.get("slice_seconds"):
        if slo.get("all_of"):
            need = "each of these SLOs says so, bad where one does; not those of which one says nothing"
        else:
            need = f"at least {100 * slo['slice_good_ratio']:g}% of its events are; not those without events"
        yield f"  counted        slices of {window_word(length)}, good where {need}"
    yield f"  undecided      count as {slo['undecided']}"
    yield (
        f"  error budget   1 - {slo['objective_ratio']:g} = {_short(budget_ratio)} of all {_events(slo)} "
        f"over {_window(slo)}"
    )
    yield from _agreed(slo)
    yield ""
    yield from _budget_lines(slo, budget_ratio)
    for burn in slo["burns"]:
        yield ""
        yield from _pair_lines(slo, burn, budget_ratio)


def _agreed(slo: Slo) -> Iterator[str]:
    if slo.get("policy"):
        yield f"  policy         {slo['policy']}"
    for one in slo.get("exclusions", ()):
        out, who = one["counts"], f", {one['by']}" if one["by"] else ""
        yield (
            f"  excluded       {_stamp(one['from'])} to {_stamp(one['to'])}: {one['reason']}{who}; "
            f"{out['bad'] + out['undecided']:,.0f} bad or undecided of {out['total']:,.0f} events"
        )


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%F %H:%M")


def _budget_lines(slo: Slo, budget_ratio: float) -> Iterator[str]:
    budget, counts = slo["budget"], slo["budget"]["counts"]
    yield f"budget over {_window(slo)}, {budget['coverage_ratio']:.4%} of it watched"
    yield f"  bad            {_bad_words(slo, counts)} of {counts['total']:,.0f} {_events(slo)}"
    if (empty := budget.get("empty_slices")) is not None:
        yield f"  empty          {empty:,.0f} slices had no event, or nobody told of them: neither good nor bad"
    if budget["remaining_ratio"] is None:
        why = "no events were counted" if not counts["total"] else "counts of before were lost"
        yield f"  left           unknown: {why}"
        return
    bad, total = _bad(slo, counts), counts["total"]
    spent = bad / (budget_ratio * total)
    yield f"  spent          {bad:,.0f} / ({_short(budget_ratio)} x {total:,.0f}) = {spent:.4%} of what was watched"
    yield (
        f"  left           1 - {spent:.4%} x {budget['coverage_ratio']:.4%} = {budget['remaining_ratio']:.4%}"
        f"{'; what was not watched is taken to be as busy, and good' if budget['coverage_ratio'] < 1 else ''}"
    )


def _pair_lines(slo: Slo, burn: Mapping[str, Any], budget_ratio: float) -> Iterator[str]:
    long, short = window_word(burn["long_seconds"]), window_word(burn["short_seconds"])
    factor = f"{burn['factor']:g}"
    yield f"{burn['severity']}/{burn['tier']}: alerts while {long} and {short} both burn faster than {factor} times"
    yield _rate_line(slo, long, burn["long_counts"], burn["long_rate"], burn.get("coverage_ratio", 1.0), budget_ratio)
    yield _rate_line(slo, short, burn["short_counts"], burn["short_rate"], 1.0, budget_ratio)
    if (spent := burn.get("spent_ratio")) is not None:
        share = burn["factor"] * burn["long_seconds"] / slo["period_seconds"]
        yield f"  {long:<4} spent {spent:.2%} of the period's budget; at mean traffic it is {share:.2%} when it alerts"
    yield f"  {WORDS.get(burn['reason'], burn['reason'])}"


def _rate_line(
    slo: Slo, window: str, counts: Mapping[str, float], rate: float | None, coverage_ratio: float, budget_ratio: float
) -> str:
    if rate is None:
        return f"  {window:<4} no events: unknown"
    watched = f" x {coverage_ratio:.4f} watched" if coverage_ratio < 1 else ""
    return (
        f"  {window:<4} {_bad_words(slo, counts)} / {counts['total']:,.0f}{watched} / {_short(budget_ratio)} = "
        f"{_short(rate)} times"
    )


def _bad_words(slo: Slo, counts: Mapping[str, float]) -> str:
    if slo["undecided"] == "bad" and counts["undecided"]:
        return f"({counts['bad']:,.0f} bad + {counts['undecided']:,.0f} undecided)"
    return f"{counts['bad']:,.0f}"


def _bad(slo: Slo, counts: Mapping[str, float]) -> float:
    return counts["bad"] + (counts["undecided"] if slo["undecided"] == "bad" else 0.0)


def _events(slo: Slo) -> str:
    return "slices" if slo.get("slice_seconds") else "events"


def _good(slo: Slo) -> str:
    if slo.get("all_of"):
        return f"good for {' and '.join(slo['all_of'])}"
    limit = slo.get("threshold_seconds")
    if slo["sli"] == "goodput":
        return f"TTFT at most {slo['ttft_seconds']:g} s and TPOT at most {slo['tpot_seconds']:g} s"
    if slo["sli"] == "availability":
        return f"answered without an error{f' within {limit:g} s' if limit is not None else ''}"
    return f"{slo['sli']} at most {limit:g} s"


def _witness(slo: Slo) -> str:
    return WITNESSES.get(slo["source"], str(slo["source"]))


def _window(slo: Slo) -> str:
    since = f" since {_stamp(slo['epoch'])}" if slo.get("epoch") else ""
    if slo.get("calendar"):
        return f"this {slo['calendar']} ({slo['time_zone']}){since}"
    return f"{window_word(slo['period_seconds'])}{since}"


def _short(number: float) -> str:
    return f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}"
