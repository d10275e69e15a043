"""`slo-agent check`: is the config right, when would each SLO page, and what do the canaries cost."""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.alerts.slo_alerts import good_words, window_word
from agent.burn_windows import standard_pairs
from agent.commands.common import add_config, add_examples, count_of, finite, percent
from agent.config import Config
from agent.config_file import load_config
from agent.errors import ConfigError, UsageError
from agent.false_pages import Minute, block_minutes, false_pages_a_month, fewest_told_a_month, pages_a_month_like
from agent.foresight import first_alert, warnings
from agent.minutes import minutes_of
from agent.model import Slo
from agent.planning import canaries_an_hour_of, canary_targets, counted_canaries, make_plan
from agent.services import service_warnings
from agent.sli.engine import pending_for
from agent.sli.slices import SETTLE_SECONDS
from agent.watched import watched_targets
from probes.canary.cost_words import cost_words, disturbance_words
from probes.discovery.source import make_source
from probes.systems import ASKABLE

TARGET = '{name: vllm-0, url: "http://vllm-0:8000"}'
DAY_MINUTES = 1440
MOST_TRAFFIC = 1e9  # requests an hour


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)
    parser.add_argument(
        "--traffic", type=finite, metavar="N", help="requests an hour of each SLO: how often it would page by chance"
    )
    parser.add_argument(
        "--recording", type=Path, metavar="REC", help="a history: how often months like it would page, and its traffic"
    )
    add_examples(
        parser,
        "slo-agent check -c agent.yaml && slo-agent run -c agent.yaml",
        "slo-agent check -c agent.yaml | grep warning",
        "slo-agent check -c agent.yaml --traffic 600",
        "slo-agent check -c agent.yaml --recording rec.jsonl.gz",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 2 with every mistake when the config is wrong; warnings are no mistakes.

    A config that watches nothing is one: an agent started with it would be silent for ever, and look healthy.
    """
    config = load_config(options.config)
    if not config.targets and not config.discovery:
        raise ConfigError([f"{options.config}: nothing is watched. Add `targets: [{TARGET}]`, or discovery."])
    if options.traffic is not None and not 0 < options.traffic <= MOST_TRAFFIC:
        raise UsageError(f"--traffic is {options.traffic:g}, expected requests an hour above 0", "Write 600.")
    print(f"{options.config}: good.")
    minutes = minutes_of(options.recording, config) if options.recording else {}
    for line in _lines(config, options.traffic, minutes):
        print(line)
    return 0


def _lines(config: Config, traffic: float | None, minutes: Mapping[str, Sequence[Minute]]) -> Iterator[str]:
    sources = [make_source(item) for item in config.discovery]
    targets, troubles = watched_targets(config, sources)
    asked = [source.place for item, source in zip(config.discovery, sources, strict=True) if item.kind != "file"]
    yield f"\ntargets ({len(targets)})"
    for target in targets:
        yield f"  {target.name:<24} {target.kind:<8} {target.role or 'any role':<11} {target.page_url}"
    yield from (f"  warning: {trouble}" for trouble in troubles)
    yield from (f"  more from {place}, which is asked when the agent runs" for place in asked)
    if not targets and not asked:
        yield "  warning: nothing is watched yet: discovery finds no target now."
    plan = make_plan(config, targets)
    slos = plan.slos
    if not slos:
        yield "\nno SLOs: only targets that are gone or stuck, and canaries without an answer, will page"
    for slo in slos:
        counted = counted_canaries(slo, config.canaries)
        interval = min((canary.interval_seconds for canary in counted), default=None)
        yield from _slo_lines(slo, interval)
        asked_an_hour = canaries_an_hour_of(slo, config.canaries, targets, plan)
        canaries_an_hour = asked_an_hour if slo.source == "canary" and not slo.slice_seconds else None
        yield from _chance_lines(slo, canaries_an_hour, traffic, minutes.get(slo.name, ()))
        yield from (f"  warning: {warning}" for warning in warnings(slo, interval))
    if slos:
        yield from _meaning_lines(config)
    yield from _exclusion_lines(config)
    yield from (f"\nwarning: {sentence}." for sentence in service_warnings(slos, targets))
    yield from _canary_lines(config, len([t for t in targets if t.kind in ASKABLE]))
    if not config.alertmanager.urls:
        yield "\nwarning: alertmanager.urls is empty: alerts stand on the page and in /metrics only; nobody is paged."


def _slo_lines(slo: Slo, interval: float | None) -> Iterator[str]:
    period = f"each {slo.calendar} ({slo.time_zone})" if slo.calendar else window_word(slo.period_seconds)
    what = f"what {slo.service} does"
    if slo.slice_seconds is not None:
        what = f"all slices of {window_word(slo.slice_seconds)} of {what}"
    promise = f"{percent(slo.objective_ratio)} of {what} is good over {period}"
    yield f"\nSLO {slo.name}: {promise} ({slo.source})"
    yield f"  good means: {good_words(slo)}"
    yield from _pair_lines(slo)
    apart = slo.slice_seconds or (interval if slo.source == "canary" else None)
    twice = min(1.0, 2 * slo.budget_ratio)
    yield f"  {'full outage':<22} {_when(slo, 1.0, apart)}"
    yield f"  {f'{percent(twice)} bad, 2x budget':<22} {_when(slo, twice, apart)}"
    if slo.slice_seconds is not None:
        later = slo.slice_seconds + SETTLE_SECONDS
        yield f"  each slice is judged {SETTLE_SECONDS:g} s after its end: these times may be {_span(later)} longer"
        yield "  a slice without events is not counted, neither good nor bad; explain tells how many there were"
    if slo.source == "engine":
        limit = slo.ttft_seconds if slo.threshold_seconds is None else slo.threshold_seconds
        seen = f"bad once it is late, {limit:g} s on" if pending_for(slo) else "not seen by this SLO"
        yield f"  a request that hangs is {seen}"
    if slo.source == "span":
        yield "  a request that hangs sends no span: it is not seen by this SLO before it ends"
        yield f"  a request that ended and sent no span is undecided and counts as {slo.undecided}"
    if slo.policy:
        yield f"  error budget policy: {slo.policy}"


def _chance_lines(
    slo: Slo, canaries_an_hour: float | None, traffic: float | None, minutes: Sequence[Minute]
) -> Iterator[str]:
    """How often it would page for nothing, and what one failure does, where the traffic is known."""
    observed = sum(every for _, every in minutes) / len(minutes) * 60 if minutes else None
    slices_an_hour = 3_600 / slo.slice_seconds if slo.slice_seconds else None
    an_hour = slices_an_hour or canaries_an_hour or traffic or observed
    pages = false_pages_a_month(slo, an_hour) if an_hour else None
    if an_hour and pages is not None:
        noun = "slices" if slices_an_hour else "canaries" if canaries_an_hour else "requests"
        said = some(pages) if pages else f"under {some(fewest_told_a_month(slo, an_hour))}"
        yield f"  {'by chance':<22} {said} pages a month at {an_hour:,.0f} {noun} an hour, exactly on budget"
        if not canaries_an_hour:
            alike = "slices one after another" if slices_an_hour else "requests of one batch"
            yield f"  {'':<22} (errors taken to be independent; {alike} fail together, so it may be more)"
    elif traffic is None and not minutes and slo.source != "canary" and any(p.severity == "page" for p in slo.pairs):
        yield f"  {'by chance':<22} unknown without its traffic: give --traffic or --recording"
    if canaries_an_hour:
        yield f"  {'one failed canary':<22} {_one_failure(slo, canaries_an_hour)}"
    if minutes:
        like = pages_a_month_like(slo, minutes)
        block = block_minutes(len(minutes))
        said = "too short a history to say" if like is None else f"{some(like)} pages a month"
        yield f"  {'months like REC':<22} {said} ({len(minutes):,} min of history, resampled in blocks of {block} min)"
        if len(minutes) < DAY_MINUTES:
            yield f"  {'':<22} (it is short: a week holds the busy and the quiet hours)"


def some(pages: float) -> str:
    """About so many: two digits of a small number, none after the point of a larger one."""
    return f"{pages:,.0f}" if pages >= 10 else f"{pages:.2g}"


def _one_failure(slo: Slo, canaries_an_hour: float) -> str:
    """The burn rate of a single failure over the first page pair's long window, and what it takes to page."""
    pair = next((pair for pair in slo.pairs if pair.severity == "page"), None)
    if pair is None:
        return "does not page: no pair of this SLO does"
    events = canaries_an_hour * pair.long_seconds / 3_600
    rate = 1 / max(1.0, events) / slo.budget_ratio
    needed = max(slo.min_bad_events, math.floor(pair.factor * slo.budget_ratio * events) + 1)
    window = window_word(pair.long_seconds)
    return f"burns {rate:.1f} times over {window}, and does not page: it takes {needed} of {events:.0f} in {window}"


def _exclusion_lines(config: Config) -> Iterator[str]:
    if config.exclusions:
        yield f"\nexclusions ({len(config.exclusions)}): what happens in them counts for nothing, good or bad"
    for one in config.exclusions:
        if one.weekdays:
            when = f"{', '.join(one.weekdays)} {one.at} {one.time_zone} for {_span(one.length_seconds or 0.0)}"
            bounds = [f"{word} {at:%F}" for word, at in (("from", one.starts_at), ("until", one.ends_at)) if at]
            when = " ".join([when, *bounds])
        else:
            when = f"{one.starts_at:%F %H:%M %Z} to {one.ends_at:%F %H:%M %Z}"
        yield f"  {when}: {one.reason}{f', {one.by}' if one.by else ''} ({', '.join(one.slos)})"


def _meaning_lines(config: Config) -> Iterator[str]:
    """What the times of every SLO mean."""
    later, down = config.tick_seconds + config.scrape.interval_seconds, config.scrape.down_after_seconds
    yield "\n1h and 5m above 14.4 times: in both windows the error budget is spent over 14.4 times as fast as it may."
    yield "full outage: every request fails or is late."
    yield f"Each time may be up to {later:g} s longer: one reading and one evaluation."
    yield f"An engine that is gone has no requests to count: EngineUnreachable pages {down:g} s"
    yield "after its last page (scrape.down_after_seconds), and an SLO with source: canary counts its canaries as bad."


def _pair_lines(slo: Slo) -> Iterator[str]:
    """Which windows decide, and which of them are not the standard ones."""
    standard = standard_pairs(slo.period_seconds)
    for pair in slo.pairs:
        usual = next((p for p in standard if (p.severity, p.tier) == (pair.severity, pair.tier)), None)
        windows = f"{window_word(pair.long_seconds)} and {window_word(pair.short_seconds)} above {pair.factor:g} times"
        instead = ""
        if usual is not None and usual != pair:
            needs = min(1.0, usual.factor * slo.budget_ratio)
            instead = (
                f"; the standard {window_word(usual.long_seconds)} above {usual.factor:g} needs {needs:.0%} bad events"
            )
        yield f"  {pair.severity + '/' + pair.tier:<22} {windows}{instead}"


def _when(slo: Slo, bad_ratio: float, event_interval_seconds: float | None) -> str:
    words = []
    for severity, verb, never in (
        ("page", "paged", "no page, it burns too slowly for one"),
        ("ticket", "ticket", "no ticket"),
    ):
        found = first_alert(slo, severity, bad_ratio, event_interval_seconds)
        words.append(f"{verb} after {_span(found[0])} ({found[1].tier})" if found else never)
    return "; ".join(words)


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _canary_lines(config: Config, engines: int) -> Iterator[str]:
    if not config.canaries:
        yield "\nno canaries: what users feel is only seen through the engines' own counters"
    for canary in config.canaries:
        count = engines if "*" in canary.targets else len(canary_targets(canary, config.targets))
        yield f"\ncanary {canary.kind}: every {canary.interval_seconds:g} s on {count_of(count, 'target')}"
        yield f"  each target: {cost_words(canary)}"
    for place, canary in enumerate(config.canaries):
        if canary in config.canaries[:place]:
            yield f"\nwarning: canaries[{place}], of kind {canary.kind}, is the same as one before it: both are sent."
    if sum(canary.cost().tokens > 0 for canary in config.canaries) > 1:
        asked = [canary for canary in config.canaries if canary.cost().tokens]
        tokens = sum(canary.cost().tokens * 3600 / canary.interval_seconds for canary in asked)
        yield f"\nall canaries together, each target: {tokens:,.0f} tokens/h; {disturbance_words(asked)}"
    yield from _budget_lines(config)


def _budget_lines(config: Config) -> Iterator[str]:
    limits = config.canary_limits
    if not limits.enabled:
        yield "\nwarning: canary_limits.enabled is false: no canary is sent."
    wanted = sum(canary.cost().tokens * 3600 / canary.interval_seconds for canary in config.canaries)
    if wanted > limits.tokens_per_hour:
        yield (
            f"\nwarning: all canaries together want {wanted:,.0f} tokens/h of a target, and canary_limits."
            f"tokens_per_hour is {limits.tokens_per_hour:,}: what goes beyond is skipped_budget."
        )
