"""`slo-agent inspect URL-or-FILE`: what the agent reads from one metrics page."""

import argparse
import asyncio
from pathlib import Path

import aiohttp

from agent.commands.common import add_json, print_json
from agent.errors import UsageError
from probes.clock import SystemClock
from probes.inspection import Inspection, inspect_page
from probes.scrape import PageTarget, fetch_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("page", metavar="URL-or-FILE", help="a metrics page; an address without a path gets /metrics")
    add_json(parser)


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
    print(f"version   {inspection.version or 'unknown'}")
    print(f"samples   {inspection.samples}")
    for engine in inspection.engines:
        print(f"engine    {engine.engine or '-'}  model {engine.model or 'unknown'}")
    for name, value in inspection.signals.items():
        print(f"  {name:<48} {'unknown' if value is None else f'{value:,.6g}'}")
    for warning in inspection.warnings:
        print(f"warning   {warning.code}: {warning.message}")
