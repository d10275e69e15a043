"""The sources that `discovery` names, and the targets that they and the config give together."""

import asyncio
import logging
from collections.abc import Iterable, Iterator

import aiohttp

from agent.config import Config
from agent.config_watching import Target
from agent.watched import watched_targets
from probes.discovery.item import Discovery
from probes.discovery.source import TargetSource, make_source

log = logging.getLogger(__name__)


class Discovering:
    """The sources of one config; those that a config before it had go on with what they know."""

    def __init__(self, config: Config, before: "Discovering | None" = None) -> None:
        known: dict[str, TargetSource] = before.sources if before else {}
        items = {item.model_dump_json(): item for item in config.discovery}  # of two alike, one is asked
        self.config = config
        self.items: list[Discovery] = list(items.values())
        self.sources: dict[str, TargetSource] = {
            key: known.get(key) or make_source(item) for key, item in items.items()
        }
        self._fresh = [source for key, source in self.sources.items() if key not in known]
        self.troubles: list[str] = before.troubles if before else []

    def pairs(self) -> Iterator[tuple[Discovery, TargetSource]]:
        """Each entry with its source."""
        return zip(self.items, self.sources.values(), strict=True)

    async def look_around(self, session: aiohttp.ClientSession) -> list[Target]:
        """The targets after a first look of every source that has not looked yet."""
        await self.refresh(session, self._fresh)
        self._fresh = []
        return self.targets()

    async def refresh(self, session: aiohttp.ClientSession, sources: Iterable[TargetSource]) -> None:
        """Ask these sources at once; each bounds its own time, and none raises."""
        await asyncio.gather(*(source.refresh(session) for source in sources))

    def targets(self) -> list[Target]:
        """What is known now; a trouble is logged when it is new."""
        targets, troubles = watched_targets(self.config, list(self.sources.values()))
        for trouble in troubles:
            if trouble not in self.troubles:
                log.warning("discovery trouble %s", trouble)
        self.troubles = troubles
        return targets
