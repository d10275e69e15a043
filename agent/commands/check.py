"""`slo-agent check`: is the config right, when would each SLO page, and what do the canaries cost."""

import argparse
from collections.abc import Iterator

from agent.alerts.slo_alerts import good_words, window_word
from agent.commands.common import add_config
from agent.config import Config
from agent.config_file import load_config
from agent.foresight import first_alert, warnings
from agent.model import Slo
from agent.planning import canary_targets, make_plan
from agent.sli.engine import pending_for
from agent.watched import watched_targets
from probes.canary.cost_words import cost_words
from probes.discovery.source import make_source
from probes.sample import USER_KINDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)


def run(options: argparse.Namespace) -> int:
    """Exit code 2 with every mistake when the config is wrong; warnings are no mistakes."""
    config = load_config(options.config)
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
        yield f"  {target.name:<24} {target.kind:<8} {target.role:<11} {target.url}{target.metrics_path}"
    yield from (f"  warning: {trouble}" for trouble in troubles)
    yield from (f"  more from {place}, which is asked when the agent runs" for place in asked)
    if not targets and not asked:
        yield "  warning: nothing is watched. Add targets or discovery."
    user_like = [canary for canary in config.canaries if canary.kind in USER_KINDS]
    interval = min((canary.interval_seconds for canary in user_like), default=None)
    for slo in make_plan(config, targets).slos:
        yield from _slo_lines(slo, interval, config)
    yield from _canary_lines(config, len([t for t in targets if t.kind == "vllm"]))
    if not config.alertmanager.urls:
        yield "\nwarning: alertmanager.urls is empty: alerts stand on the page and in /metrics only; nobody is paged."


def _slo_lines(slo: Slo, interval: float | None, config: Config) -> Iterator[str]:
    period = window_word(slo.period_seconds)
    yield f"\nSLO {slo.name}: {slo.objective_ratio:.4%} of what {slo.service} does is good over {period} ({slo.source})"
    yield f"  good means: {good_words(slo)}"
    apart = interval if slo.source == "canary" else None
    yield f"  {'full outage':<22} {_when(slo, 1.0, apart)}"
    yield f"  {'at twice the budget':<22} {_when(slo, min(1.0, 2 * slo.budget_ratio), apart)}"
    later = config.tick_seconds + config.scrape.interval_seconds
    hangs = ""
    if slo.source == "engine":
        seen = f"bad once it is late, {slo.threshold_seconds:g} s on" if pending_for(slo) else "not seen by it"
        hangs = f"; a request that hangs is {seen}"
    yield f"  (and up to {later:g} s later: one reading and one evaluation{hangs})"
    for warning in warnings(slo, interval):
        yield f"  warning: {warning}"


def _when(slo: Slo, bad_ratio: float, event_interval_seconds: float | None) -> str:
    words = []
    for severity, verb in (("page", "paged"), ("ticket", "ticket")):
        found = first_alert(slo, severity, bad_ratio, event_interval_seconds)
        words.append(f"{verb} after {_span(found[0])} ({found[1].tier})" if found else f"never {verb}")
    return ", ".join(words)


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
        yield f"\ncanary {canary.kind}: every {canary.interval_seconds:g} s on {count} targets"
        yield f"  each target: {cost_words(canary)}"
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
