"""Whether anybody could be paged: what every Alertmanager took lately, out of the agent's own counters."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client.registry import CollectorRegistry

from agent.outputs.metric_table import DELIVERIES
from agent.web import words
from agent.web.verdict import Sentence

PREFIX = "alertmanager/"
GRACE_SECONDS = 60.0
"""A lost post is repeated after the resend interval (30 s by default): only a second loss is worth a word."""


@dataclass(slots=True)
class _Peer:
    """What was noticed about one Alertmanager; counts are those of the last look."""

    taken: float = 0.0
    refused: float = 0.0
    first_tried_at_seconds: float | None = None
    last_taken_at_seconds: float | None = None
    is_failing: bool = False


class Paging:
    """Remembers when each Alertmanager last took something; the counters themselves have no times.

    `urls` are the configured addresses; None where the caller did not say, so that only failures are told.
    """

    def __init__(self, registry: CollectorRegistry, urls: Sequence[str] | None) -> None:
        self._registry = registry
        self._is_unset = urls is not None and not urls
        self._peers = {urlsplit(url).netloc.rpartition("@")[2]: _Peer() for url in urls or ()}

    def observe(self, now_seconds: float) -> None:
        """Look at the counters now."""
        counts: dict[str, list[float]] = {}
        for family in self._registry.restricted_registry([DELIVERIES.name]).collect():
            for sample in family.samples:
                if sample.name == DELIVERIES.name and sample.labels["output"].startswith(PREFIX):
                    both = counts.setdefault(sample.labels["output"].removeprefix(PREFIX), [0.0, 0.0])
                    both[sample.labels["outcome"] != "ok"] += sample.value
        for name, (taken, refused) in counts.items():
            _note(self._peers.setdefault(name, _Peer()), taken, refused, now_seconds)

    def sentence(self, now_seconds: float) -> Sentence | None:
        """What is wrong with paging; None while every Alertmanager that was tried takes what it is sent."""
        self.observe(now_seconds)
        if self._is_unset and not self._peers:
            return Sentence("watch", "Nobody can be paged: no Alertmanager is configured")
        silent = {name: _silence(peer, now_seconds) for name, peer in self._peers.items()}
        mute = [f"Alertmanager at {name} {said}" for name, said in silent.items() if said]
        taking = [name for name, peer in self._peers.items() if peer.last_taken_at_seconds and not peer.is_failing]
        if not mute:
            return None
        if taking:
            return Sentence("watch", f"{'; '.join(mute)}; {words.listing(taking)} {words.has(len(taking))}")
        return Sentence("bad", f"Nobody can be paged: {'; '.join(mute)}")


def _note(peer: _Peer, taken: float, refused: float, now_seconds: float) -> None:
    if peer.first_tried_at_seconds is None:
        peer.first_tried_at_seconds = now_seconds
    if taken > peer.taken:
        peer.last_taken_at_seconds, peer.is_failing = now_seconds, False
    elif refused > peer.refused:
        peer.is_failing = True
    peer.taken, peer.refused = taken, refused


def _silence(peer: _Peer, now_seconds: float) -> str:
    """How long it has taken nothing, in words; "" while that is no news."""
    since = peer.last_taken_at_seconds or peer.first_tried_at_seconds
    if not peer.is_failing or since is None or now_seconds - since < GRACE_SECONDS:
        return ""
    lasting = words.duration(now_seconds - since)
    return (
        f"has not taken anything for {lasting}"
        if peer.last_taken_at_seconds
        else f"has never taken anything, tried for {lasting}"
    )
