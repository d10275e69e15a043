"""What a visitor may ask the agent to do; the runtime does it."""

from collections.abc import Mapping
from typing import Protocol

from probes.sample import ProbeResult


class Actions(Protocol):
    """The two things HTTP can start, and the addresses they may be started on."""

    async def reload(self) -> list[str]:
        """Read the config file again. Returns its errors, one sentence each; empty: the new config is in force."""
        ...

    async def probe(self, url: str, model: str | None) -> ProbeResult | str:
        """Run one canary against the base address `url` and return its result, or the reason why none could be run.

        `model` None means the model the target serves. A configured target's secret goes to that target's own address
        only: an address that is not in `target_urls()` gets none.
        """
        ...

    def target_urls(self) -> Mapping[str, str]:
        """Base address of every watched target that can be probed, by target name."""
        ...
