"""What every kind of discovery has in common."""

from typing import Protocol

import aiohttp

from probes.discovery.dns import DnsTargets
from probes.discovery.file import FileTargets, Found
from probes.discovery.http import HttpTargets
from probes.discovery.item import Discovery, DnsDiscovery, FileDiscovery, HttpDiscovery
from probes.discovery.kubernetes import KubernetesTargets


class TargetSource(Protocol):
    """Where targets come from. `place` names it for people; `trouble` says what is wrong, "" when nothing is."""

    trouble: str

    @property
    def place(self) -> str:
        """How people know it: a path, an address, a name."""
        ...

    def look(self) -> tuple[Found, ...]:
        """The last good list; empty before the first refresh."""
        ...

    async def refresh(self, session: aiohttp.ClientSession) -> None:
        """Ask again. Never raises: what is wrong stands in `trouble`, and the last good list stays."""
        ...


def make_source(item: Discovery) -> TargetSource:
    """The source that the config item asks for."""
    if isinstance(item, FileDiscovery):
        return FileTargets(item.path)
    if isinstance(item, HttpDiscovery):
        return HttpTargets(item)
    if isinstance(item, DnsDiscovery):
        return DnsTargets(item)
    return KubernetesTargets(item)
