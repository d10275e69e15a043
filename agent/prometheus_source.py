"""A Prometheus as the config and the command line name it, opened."""

import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from urllib.parse import urlsplit

import aiohttp

from agent.config import Config
from agent.config_watching import Target
from probes.prometheus.api import Access, PrometheusApi
from probes.prometheus.history import PrometheusHistory


@contextlib.asynccontextmanager
async def open_history(
    config: Config, url: str, matchers: str = "", targets: Iterable[Target] | None = None
) -> AsyncIterator[PrometheusHistory]:
    """The history at `url`, with the names of our targets, for as long as the context lasts.

    Secrets of the section `prometheus` go to its own address alone, or to any where it names none.
    Raises PrometheusError where the address is none.
    """
    async with aiohttp.ClientSession(trust_env=False) as session:
        api = PrometheusApi.at(_access(config, url), session)
        names = {_address(target): target.name for target in (config.targets if targets is None else targets)}
        yield PrometheusHistory(api, matchers or config.prometheus.match, names)


def _access(config: Config, url: str) -> Access:
    section = config.prometheus
    is_its_own = section.url in (None, url.rstrip("/"))
    return Access(url, section.headers() if is_its_own else {}, section.timeout_seconds, section.ca_file)


def _address(target: Target) -> str:
    """The label `instance` that a scrape of this target has."""
    parts = urlsplit(target.url)
    if re.search(r":\d+$", parts.netloc):
        return parts.netloc
    return f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"
