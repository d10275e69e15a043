"""`slo-agent check`: is the config right, when would each SLO page, and what do the canaries cost."""

import argparse
from collections.abc import Iterator

from agent.alerts.slo_alerts import good_words, window_word
from agent.burn_windows import standard_pairs
from agent.commands.common import add_config, add_examples, count_of, percent
from agent.config import Config
from agent.config_file import load_config
from agent.errors import ConfigError
from agent.foresight import first_alert, warnings
from agent.model import Slo
from agent.planning import canary_targets, make_plan
from agent.services import service_warnings
from agent.sli.engine import pending_for
from agent.watched import watched_targets
from probes.canary.cost_words import cost_words, disturbance_words
from probes.discovery.source import make_source
from probes.sample import USER_KINDS
from probes.systems import ASKABLE

TARGET = '{name: vllm-0, url: "http://vllm-0:8000"}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)
    add_examples(
        parser,
        "slo-agent check -c agent.yaml && slo-agent run -c agent.yaml",
        "slo-agent check -c agent.yaml | grep warning",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 2 with every mistake when the config is wrong; warnings are no mistakes.

    A config that watches nothing is one: an agent started with it would be silent for ever, and look healthy.
    """
    config = load_config(options.config)
    if not config.targets and not config.discovery:
        raise ConfigError([f"{options.config}: nothing is watched. Add `targets: [{TARGET}]`, or discovery."])
    print(f"{options.config}: good.")
    for line in _lines(config):
        print(line)
    return 0


def _lines(config: Config) -> Iterator[str]:
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
    user_like = [canary for canary in config.canaries if canary.kind in USER_KINDS]
    interval = min((canary.interval_seconds for canary in user_like), default=None)
    slos = make_plan(config, targets).slos
    if not slos:
        yield "\nno SLOs: only targets that are gone or stuck, and canaries without an answer, will page"
    for slo in slos:
        yield from _slo_lines(slo, interval)
    if slos:
        yield from _meaning_lines(config)
    yield from _exclusion_lines(config)
    yield from (f"\nwarning: {sentence}." for sentence in service_warnings(slos, targets))
    yield from _canary_lines(config, len([t for t in targets if t.kind in ASKABLE]))
    if not config.alertmanager.urls:
        yield "\nwarning: alertmanager.urls is empty: alerts stand on the page and in /metrics only; nobody is paged."


def _slo_lines(slo: Slo, interval: float | None) -> Iterator[str]:
    period = f"each {slo.calendar} ({slo.time_zone})" if slo.calendar else window_word(slo.period_seconds)
    promise = f"{percent(slo.objective_ratio)} of what {slo.service} does is good over {period}"
    yield f"\nSLO {slo.name}: {promise} ({slo.source})"
    yield f"  good means: {good_words(slo)}"
    yield from _pair_lines(slo)
    apart = interval if slo.source == "canary" else None
    twice = min(1.0, 2 * slo.budget_ratio)
    yield f"  {'full outage':<22} {_when(slo, 1.0, apart)}"
    yield f"  {f'{percent(twice)} bad, 2x budget':<22} {_when(slo, twice, apart)}"
    if slo.source == "engine":
        limit = slo.ttft_seconds if slo.threshold_seconds is None else slo.threshold_seconds
        seen = f"bad once it is late, {limit:g} s on" if pending_for(slo) else "not seen by this SLO"
        yield f"  a request that hangs is {seen}"
    if slo.source == "span":
        yield "  a request that hangs sends no span: it is not seen by this SLO before it ends"
        yield f"  a request that ended and sent no span is undecided and counts as {slo.undecided}"
    if slo.policy:
        yield f"  error budget policy: {slo.policy}"
    for warning in warnings(slo, interval):
        yield f"  warning: {warning}"


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
    yield "\nfull outage: every request fails or is late."
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
