"""vLLM's pages of the past, put together again from the series that a Prometheus scraped.

Every sample goes through the same tables as a page of now. A target is an address (label `instance`), within its
cluster and namespace where labels say so; who else scraped the same address (another job, the other of a redundant
pair) only adds looks at the same counters.
"""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field

from probes.discovery.file import Found
from probes.page import SystemPage
from probes.place import PROCESS_START
from probes.prometheus.api import PrometheusApi, PrometheusError, Series, TooMuchError
from probes.sample import Reading

EVERY_VLLM_SERIES = "(ray_|kserve_)?vllm[:_].+"
UP = "up"
SERVERS_LABELS = (  # put on by who scrapes, not by the page
    "__name__", "instance", "job", "pod", "namespace", "cluster", "node", "container", "service", "endpoint",
    "prometheus", "prometheus_replica", "replica", "region", "zone", "app", "role",
)  # fmt: skip
FIRST_CHUNK_SECONDS, SHORTEST_CHUNK_SECONDS, LONGEST_CHUNK_SECONDS = 600.0, 30.0, 43_200.0
MANY_SAMPLES = 400_000  # of one answer, about 12 MB
UNREADABLE = "Prometheus could not read its page (up is 0)"


@dataclass(frozen=True, slots=True)
class Piece:
    """All readings of (from_seconds, to_seconds], in order."""

    from_seconds: float
    to_seconds: float
    readings: tuple[Reading, ...]


@dataclass(slots=True)
class _Target:
    name: str
    page: SystemPage = field(default_factory=lambda: SystemPage("vllm"))
    numbers: dict[tuple[tuple[str, str], ...], int | None] = field(default_factory=dict)


class PrometheusHistory:
    """The history of every vLLM that one server knows. `found` are its targets, after `look_around`.

    `matchers` are further ones for every selector, such as `job="vllm"`. `names` calls an address as our config does.
    """

    def __init__(self, api: PrometheusApi, matchers: str = "", names: Mapping[str, str] | None = None) -> None:
        self.found: dict[str, Found] = {}
        self._api = api
        self._matchers = f",{matchers.strip(', ')}" if matchers.strip(", ") else ""
        self._names = names or {}
        self._targets: dict[tuple[str, ...], _Target] = {}
        self._selector = ""

    async def look_around(self, start_seconds: float, end_seconds: float) -> None:
        """Which targets there are in this stretch. Raises PrometheusError where there is none."""
        every = f'{{__name__=~"{EVERY_VLLM_SERIES}"{self._matchers}}}'
        known = [found for found in await self._api.labels(every, start_seconds, end_seconds) if "__name__" in found]
        page = SystemPage("vllm")
        names = {found["__name__"] for found in known if page.needs(found["__name__"])}
        if not names:
            raise PrometheusError(
                f"{self._api.access.url}: no series of vLLM with {every} in this stretch. Does it scrape vLLM, and are "
                f"the matchers right?"
            )
        instances = {found.get("instance", "") for found in known if found["__name__"] in names}
        wanted = "|".join(re.escape(name) for name in sorted({*names, PROCESS_START, UP}))
        where = "|".join(re.escape(instance) for instance in sorted(instances))
        quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (wanted, where)]
        self._selector = '{{__name__=~"{}",instance=~"{}"{}}}'.format(*quoted, self._matchers)
        for found in known:
            if found["__name__"] in names:
                self._target(found)

    async def pieces(
        self, start_seconds: float, end_seconds: float, step_seconds: float | None = None
    ) -> AsyncIterator[Piece]:
        """Readings of [start_seconds, end_seconds], piece by piece, ordered by time within and across pieces.

        They have the times and numbers of the scrapes, or, with a step, are what was known at every step. Pieces are
        as long as the server will answer well. Raises PrometheusError.
        """
        if not self._selector:
            await self.look_around(start_seconds, end_seconds)
        at, length = start_seconds - 0.001, max(FIRST_CHUNK_SECONDS, 10 * (step_seconds or 0))
        while at < end_seconds:
            until = min(at + length, end_seconds)
            try:
                series = await self._series(at, until, step_seconds)
            except TooMuchError:
                if length <= max(SHORTEST_CHUNK_SECONDS, step_seconds or 0):
                    raise
                length /= 4
                continue
            yield Piece(at, until, tuple(self._readings(series)))
            at = until
            samples = sum(len(one.samples) for one in series)
            if samples < MANY_SAMPLES / 3:
                length = min(2 * length, max(LONGEST_CHUNK_SECONDS, 1000 * (step_seconds or 0)))
            elif samples > MANY_SAMPLES:
                length /= 2

    async def _series(self, after: float, until: float, step: float | None) -> list[Series]:
        if step is None:
            return await self._api.scraped(self._selector, after, until)
        first = (after // step + 1) * step
        return await self._api.sampled(self._selector, first, until, step) if first <= until else []

    def _readings(self, series: Iterable[Series]) -> list[Reading]:
        values: dict[tuple[float, str], dict[int, float]] = defaultdict(dict)
        pages: dict[str, _Target] = {}
        unreadable: dict[tuple[float, str], bool] = {}
        for one in series:
            if "__name__" not in one.labels:  # an answer to another question: it tells of nothing of ours
                continue
            target = self._target(one.labels)
            pages[target.name] = target
            if one.labels["__name__"] == UP:
                unreadable.update({(at, target.name): value == 0 for at, value in one.samples})
                continue
            number = _number(target, one.labels)
            if number is not None:
                for at, value in one.samples:
                    values[at, target.name].setdefault(number, value)
        readings = [
            pages[name].page.assemble(numbers, name, at)
            for (at, name), numbers in values.items()
            if len(numbers) > 1 or not unreadable.get((at, name), False)
        ]
        readings += [
            Reading(name, "vllm", at, "unreadable", UNREADABLE)
            for (at, name), is_unreadable in unreadable.items()
            if is_unreadable and (at, name) not in values
        ]
        return sorted(readings, key=lambda reading: (reading.at_seconds, reading.target))

    def _target(self, labels: Mapping[str, str]) -> _Target:
        """The target of a series; one that is seen for the first time gets a name."""
        address = labels.get("instance", "")
        place = (labels.get("cluster", ""), labels.get("namespace", ""), address)
        known = self._targets.get(place)
        if known is None:
            taken = {target.name for target in self._targets.values()}
            name = self._names.get(address) or re.sub(r"[^A-Za-z0-9._-]+", "-", address).strip("-._") or "vllm"
            if name in taken:
                name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, place))).strip("-._")
            known = self._targets[place] = _Target(name[:63])
            about = {"name": known.name, "kind": "vllm"} | {k: v for k, v in labels.items() if k == "role"}
            self.found[known.name] = Found(address, about)
        return known


def _number(target: _Target, labels: Mapping[str, str]) -> int | None:
    key = tuple(sorted(labels.items()))
    if key not in target.numbers:
        own = {name: value for name, value in labels.items() if name not in SERVERS_LABELS}
        target.numbers[key] = target.page.number(labels["__name__"], own)
    return target.numbers[key]
