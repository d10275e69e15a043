"""Targets from a name: its addresses, as of a headless service, or the hosts and ports of its SRV records."""

import asyncio
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from probes.discovery.file import Found
from probes.discovery.item import DnsDiscovery
from probes.discovery.srv import RESOLV_CONF, SrvError, nameservers, srv_records
from probes.own_thread import in_own_thread

FAMILIES = {"A": socket.AF_INET, "AAAA": socket.AF_INET6, "both": socket.AF_UNSPEC}
NAME_LENGTH = 63  # of a target's name; the front of a host's tells servers of one name apart


@dataclass(slots=True)
class DnsTargets:
    """A name that is resolved again and again: addresses by the system's resolver, SRV by the name servers themselves.

    The system's resolver cannot be stopped: it works in a thread of this source's own, one at a time, so that a look-up
    that hangs holds up nothing else. A name that is gone (NXDOMAIN) keeps the last good list, as a resolver that is
    down: the system's does not tell them apart.
    """

    item: DnsDiscovery
    trouble: str = ""
    resolv_conf: Path = RESOLV_CONF
    server_port: int = 53
    _found: tuple[Found, ...] = field(default_factory=tuple)
    _is_asking: bool = False

    @property
    def place(self) -> str:
        """The name."""
        return f"dns {self.item.name}"

    def look(self) -> tuple[Found, ...]:
        """The last good list."""
        return self._found

    async def refresh(self, session: aiohttp.ClientSession) -> None:  # noqa: ARG002  as every source's
        """Resolve again; `trouble` says why there was no answer."""
        try:
            self._found = tuple(await (self._servers() if self.item.family == "SRV" else self._addresses()))
            self.trouble = ""
        except (OSError, UnicodeError, SrvError) as error:  # TimeoutError is an OSError
            self.trouble = (
                f"{self.place}: {self._reason(error)}. The last good list ({len(self._found)} targets) stays in use."
            )

    async def _addresses(self) -> list[Found]:
        if self._is_asking:
            raise TimeoutError
        self._is_asking = True
        async with asyncio.timeout(self.item.timeout_seconds):
            answers = await in_own_thread(self._ask_system)
        hosts = sorted({str(address[0]) for *_, address in answers})
        port, labels = self.item.port, self._labels()
        return [Found(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", labels) for host in hosts]

    def _ask_system(self) -> list[tuple[Any, ...]]:
        item = self.item
        try:
            return list(socket.getaddrinfo(item.name, item.port, family=FAMILIES[item.family], type=socket.SOCK_STREAM))
        finally:
            self._is_asking = False

    async def _servers(self) -> list[Found]:
        servers = nameservers(self.resolv_conf)
        records = await srv_records(self.item.name, servers, self.item.timeout_seconds, self.server_port)
        return [Found(f"{host}:{port}", {"name": _target_name(host, port), **self._labels()}) for host, port in records]

    def _labels(self) -> dict[str, str]:
        return {"kind": self.item.target_kind, **self.item.labels}

    def _reason(self, error: Exception) -> str:
        if isinstance(error, SrvError):
            return str(error)
        slow = isinstance(error, TimeoutError)
        return f"no answer within {self.item.timeout_seconds:g} s" if slow else "the name cannot be resolved"


def _target_name(host: str, port: int) -> str:
    """host-port, the host cut at its end where that is too long."""
    end = f"-{port}"
    return host[: NAME_LENGTH - len(end)] + end
