"""Mistakes that no single field shows: names given twice, names of nothing, addresses that are no base."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from agent.config import Config
from probes.canary.kv_reuse import KvReuseCanary
from probes.sample import USER_KINDS
from probes.systems import ROUTERS

PAGE_PATHS = ("/metrics", "/v1", "/v1/chat/completions", "/v1/completions", "/v1/models", "/health")
Check = tuple[frozenset[str], str]  # the parts of the config that a check looks at, and its sentence


def cross_checks(config: Config, tree: Mapping[str, object], wrong: frozenset[str]) -> Iterator[str]:
    """Every such mistake that lies in no part of `wrong`, the parts that have mistakes of their own.

    Names given twice are looked for in `tree`, the file as it was written, so that they are told in any case.
    """
    yield from _twice("targets", _names(tree.get("targets")))
    yield from _twice("slos", _names(tree.get("slos")))
    checks = (_windows, _unknown_names, _unknown_tiers, _excluded_names, _timeouts, _sources, _composites, _spans)
    for parts, sentence in (found for check in checks for found in check(config)):
        if not parts & wrong:
            yield sentence
    if "targets" not in wrong:
        yield from _addresses(config)
        yield from _one_address(config)


def _names(entries: object) -> list[str]:
    found = [entry.get("name") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [name for name in found if isinstance(name, str)]


def _windows(config: Config) -> Iterator[Check]:
    for sentence in _twice("burn.windows", [f"{w.severity}/{w.tier}" for w in config.burn.windows]):
        yield frozenset({"burn"}), sentence


def _unknown_names(config: Config) -> Iterator[Check]:
    targets = [target.name for target in config.targets]
    for index, canary in enumerate(config.canaries):
        for place, name in enumerate(canary.targets):
            if name != "*" and name not in targets and not config.discovery:
                spot = f"canaries[{index}].targets[{place}]"
                yield frozenset({"canaries", "targets", "discovery"}), _unknown(spot, name, "target", targets)
        if isinstance(canary, KvReuseCanary) and canary.warm_target and canary.warm_target not in targets:
            spot = f"canaries[{index}].warm_target"
            yield frozenset({"canaries", "targets"}), _unknown(spot, canary.warm_target, "target", targets)
    slos = [slo.name for slo in config.slos]
    for index, name in enumerate(config.advice.slos):
        if name not in slos:
            yield frozenset({"advice", "slos"}), _unknown(f"advice.slos[{index}]", name, "SLO", slos)
    prices = list(config.prices.gpu_hour_dollars)
    for index, target in enumerate(config.targets):
        if target.gpu_type is not None and target.gpu_type not in prices:
            words = _unknown(f"targets[{index}].gpu_type", target.gpu_type, "key of prices.gpu_hour_dollars", prices)
            yield frozenset({"targets", "prices"}), words


def _unknown_tiers(config: Config) -> Iterator[Check]:
    tiers = [tier.name for tier in config.advice.kv_tiers]
    for name in config.prices.kv_tier_gigabyte_hour_dollars:
        if name not in tiers:
            words = _unknown("prices.kv_tier_gigabyte_hour_dollars", name, "tier of advice.kv_tiers", tiers)
            yield frozenset({"advice", "prices"}), words


def _excluded_names(config: Config) -> Iterator[Check]:
    slos = [slo.name for slo in config.slos]
    for index, exclusion in enumerate(config.exclusions):
        for place, name in enumerate(exclusion.slos):
            if name != "*" and name not in slos:
                words = _unknown(f"exclusions[{index}].slos[{place}]", name, "SLO", slos)
                yield frozenset({"exclusions", "slos"}), words


def _timeouts(config: Config) -> Iterator[Check]:
    if config.scrape.timeout_seconds > config.scrape.interval_seconds:
        sentence = (
            f"scrape.timeout_seconds is {config.scrape.timeout_seconds:g}, longer than scrape.interval_seconds "
            f"({config.scrape.interval_seconds:g}): two reads of a page could overlap. Write a smaller timeout."
        )
        yield frozenset({"scrape"}), sentence


def _sources(config: Config) -> Iterator[Check]:
    if config.state is not None and config.state.rehydrate and config.prometheus.url is None:
        sentence = "state.rehydrate is true, but there is no prometheus.url to read from. Write the section prometheus."
        yield frozenset({"state", "prometheus"}), sentence
    routed = config.discovery or any(target.kind in ROUTERS for target in config.targets)
    for index, slo in enumerate(config.slos):
        if slo.source == "router" and not routed:
            sentence = (
                f"slos[{index}].source is router, but no target is one. Add a target with kind: "
                f"{', '.join(ROUTERS[:-1])} or {ROUTERS[-1]}, or write source: engine."
            )
            yield frozenset({"slos", "targets", "discovery"}), sentence
        if slo.sli == "correctness" and not any(canary.kind == "correctness" for canary in config.canaries):
            sentence = f"slos[{index}].sli is correctness, but no canary asks. Add `canaries: [{{kind: correctness}}]`."
            yield frozenset({"slos", "canaries"}), sentence
        asks_users_way = any(canary.kind in USER_KINDS for canary in config.canaries)
        if slo.source == "canary" and slo.sli != "correctness" and not asks_users_way:
            sentence = (
                f"slos[{index}].source is canary, but there are no canaries that ask as users do. Add "
                f"`canaries: [{{kind: chat}}]` or write source: engine."
            )
            yield frozenset({"slos", "canaries"}), sentence


def _composites(config: Config) -> Iterator[Check]:
    """Every member is there, counts slices, and all of one composite count the same ones."""
    lengths = {slo.name: slo.slice_seconds for slo in config.slos if not slo.all_of}
    for index, slo in enumerate(config.slos):
        where = f"slos[{index}].all_of"
        for place, name in enumerate(slo.all_of):
            if name not in lengths:
                yield frozenset({"slos"}), _unknown(f"{where}[{place}]", name, "SLO", list(lengths))
        found = {lengths[name] for name in slo.all_of if name in lengths}
        if slo.all_of and (None in found or len(found) > 1 or len(set(slo.all_of)) < max(2, len(slo.all_of))):
            sentence = f"{where} needs two or more SLOs, each once, with the same slice_seconds, such as 60."
            yield frozenset({"slos"}), sentence


def _spans(config: Config) -> Iterator[Check]:
    is_listening = config.spans.grpc is not None or config.spans.http is not None
    for index, slo in enumerate(config.slos):
        if slo.source == "span" and not is_listening:
            sentence = (
                f"slos[{index}].source is span, but no spans are received. Add `spans: {{grpc: 127.0.0.1:4317}}` and "
                f"give vLLM --otlp-traces-endpoint (docs/spans.md), or write source: engine."
            )
            yield frozenset({"slos", "spans"}), sentence


def _addresses(config: Config) -> Iterator[str]:
    """Every request has its path put behind the url: what is asked there would be /metrics/metrics."""
    for index, target in enumerate(config.targets):
        path = urlsplit(target.url).path
        for end in sorted(PAGE_PATHS, key=len, reverse=True):
            if path.endswith(end):
                base = target.url.removesuffix(end)
                yield (
                    f'targets[{index}].url is "{target.url}"; expected the base address, to which paths are added. '
                    f'Write "{base}"; a metrics page elsewhere than at /metrics is named by metrics_path.'
                )
                break


def _one_address(config: Config) -> Iterator[str]:
    """Two names for one page: everything on it would be counted twice."""
    pages: dict[str, str] = {}
    for index, target in enumerate(config.targets):
        page = target.page_url
        if page in pages:
            yield (
                f'targets[{index}] "{target.name}" has the address of "{pages[page]}", {page}: all requests there '
                f"would be counted twice. Take one of the two out."
            )
        pages.setdefault(page, target.name)


def _twice(path: str, names: Sequence[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f'{path}: "{name}" is given {names.count(name)} times. Give each its own name.'


def _unknown(spot: str, name: str, noun: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    mend = f'Did you mean "{near[0]}"?' if near else f"Known: {', '.join(dict.fromkeys(known)) or 'none'}."
    return f'{spot} names "{name}", and there is no such {noun}. {mend}'
