"""`slo-agent inspect URL-or-FILE`: what the agent reads from one metrics page."""

import argparse
import asyncio
import textwrap
from pathlib import Path

import aiohttp

from agent.commands.common import add_examples, add_json, print_json, short
from agent.errors import UsageError
from probes.clock import SystemClock
from probes.inspection import Inspection, inspect_page
from probes.scrape import PageTarget, fetch_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("page", metavar="URL-or-FILE", help="a metrics page; an address without a path gets /metrics")
    add_json(parser)
    add_examples(
        parser,
        "slo-agent inspect http://vllm-0:8000",
        "curl -s http://vllm-0:8000/metrics > page.prom && slo-agent inspect page.prom --json",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 0 when the page is of a known system, 1 when not, 2 when there is no page."""
    inspection = inspect_page(_text(options.page))
    if options.json:
        print_json(inspection.json())
    else:
        _print(inspection)
    return 0 if inspection.system != "unknown" else 1


def _text(page: str) -> str:
    if page.startswith(("http://", "https://")):
        has_path = page.split("://", 1)[1].partition("/")[2] != ""
        return asyncio.run(_fetch(page if has_path else page.rstrip("/") + "/metrics"))
    try:
        return Path(page).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"{page} cannot be read: {error.strerror}", "Name a file, or an address with http://."
        ) from None


async def _fetch(url: str) -> str:
    target = PageTarget("page", url, "vllm", timeout_seconds=10.0, max_bytes=64_000_000, headers={})
    async with aiohttp.ClientSession(trust_env=False) as session:
        page = await fetch_page(session, target, SystemClock())
    if page.outcome != "ok":
        raise UsageError(f"{url}: {page.outcome}: {page.detail}", "Is this the address of a metrics page?")
    return page.text


def _print(inspection: Inspection) -> None:
    print(f"system    {inspection.system}")
    print(f"version   {_version(inspection.version)}")
    print(f"samples   {inspection.samples}")
    for engine in inspection.engines:
        print(f"engine    {engine.engine or '-'}  model {engine.model or 'unknown'}")
    known = {name: value for name, value in inspection.signals.items() if value is not None}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        print(f"  {name:<{width}}  {short(value)}{_unit(name)}")
    missing = [name for name, value in inspection.signals.items() if value is None]
    if missing:
        words = ", ".join(missing)
        print(textwrap.fill(f"unknown   (no such series) {words}", 110, subsequent_indent=" " * 10))
    for warning in inspection.warnings:
        print(f"warning   {warning.code}: {warning.message}")


def _version(version: str | None) -> str:
    """A range such as "0.32.." in words."""
    first, dots, last = (version or "").partition("..")
    if not dots:
        return first or "unknown"
    return f"{first} or newer" if not last else f"{first} to {last}" if first else f"{last} or older"


def _unit(name: str) -> str:
    """The unit that stands in a signal's name; counts of tokens and requests need none."""
    base = name.partition("{")[0].removesuffix("_total").removesuffix("_sum")
    return next((unit for end, unit in (("_seconds", " s"), ("_bytes", " bytes")) if base.endswith(end)), "")
