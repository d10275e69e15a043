"""Targets from an address that answers in Prometheus' http_sd format."""

import asyncio
from dataclasses import dataclass, field

import aiohttp

from probes.discovery.answer import get_json
from probes.discovery.file import Found, found_in
from probes.discovery.item import HttpDiscovery


@dataclass(slots=True)
class HttpTargets:
    """An address that is asked again and again. An answer that is none keeps the last good list."""

    item: HttpDiscovery
    trouble: str = ""
    _found: tuple[Found, ...] = field(default_factory=tuple)

    @property
    def place(self) -> str:
        """Its address."""
        return self.item.url

    def look(self) -> tuple[Found, ...]:
        """The last good list."""
        return self._found

    async def refresh(self, session: aiohttp.ClientSession) -> None:
        """Ask again; `trouble` says what was wrong with the answer."""
        token = self.item.bearer_token_file
        try:
            async with asyncio.timeout(self.item.timeout_seconds):
                self._found = found_in(await get_json(session, self.item.url, token_file=token))
            self.trouble = ""
        except (TimeoutError, OSError, ValueError, TypeError, RecursionError, aiohttp.ClientError) as error:
            reason = f"no answer within {self.item.timeout_seconds:g} s" if isinstance(error, TimeoutError) else error
            self.trouble = f"{self.place}: {reason}. The last good list ({len(self._found)} targets) stays in use."
