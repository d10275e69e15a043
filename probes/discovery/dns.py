"""Targets from the addresses of a name: a headless service, or a name with several A records."""

import asyncio
import socket
from dataclasses import dataclass, field

import aiohttp

from probes.discovery.file import Found
from probes.discovery.item import DnsDiscovery

FAMILIES = {"A": socket.AF_INET, "AAAA": socket.AF_INET6, "both": socket.AF_UNSPEC}


@dataclass(slots=True)
class DnsTargets:
    """A name that is resolved again and again, by the system's resolver in a thread.

    A name that is gone (NXDOMAIN) cannot be told from a resolver that is down: the last good list stays for both.
    """

    item: DnsDiscovery
    trouble: str = ""
    _found: tuple[Found, ...] = field(default_factory=tuple)

    @property
    def place(self) -> str:
        """The name."""
        return f"dns {self.item.name}"

    def look(self) -> tuple[Found, ...]:
        """The last good list."""
        return self._found

    async def refresh(self, session: aiohttp.ClientSession) -> None:  # noqa: ARG002  as every source's
        """Resolve again; `trouble` says why there was no answer."""
        item, loop = self.item, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(item.timeout_seconds):
                answers = await loop.getaddrinfo(
                    item.name, item.port, family=FAMILIES[item.family], type=socket.SOCK_STREAM
                )
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            slow = isinstance(error, TimeoutError)
            reason = f"no answer within {item.timeout_seconds:g} s" if slow else "the name cannot be resolved"
            self.trouble = f"{self.place}: {reason}. The last good list ({len(self._found)} targets) stays in use."
            return
        hosts = sorted({str(address[0]) for *_, address in answers})
        labels = {"kind": item.target_kind, **item.labels}
        self._found = tuple(Found(f"[{h}]:{item.port}" if ":" in h else f"{h}:{item.port}", labels) for h in hosts)
        self.trouble = ""
