"""What each engine has observed since it is watched: its histograms, added up when somebody asks."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from agent.increment import EngineKey, Increment
from agent.stats.buckets import Buckets, merged

MOST_WAITING = 256  # so many increments wait to be added up: many at once cost little

Place = tuple[EngineKey, str]  # and the signal


class Totals:
    """One histogram of each engine and signal. Where its edges change, it begins anew."""

    def __init__(self) -> None:
        self._whole: dict[Place, Buckets] = {}
        self._waiting: list[Increment] = []

    def take(self, increment: Increment) -> None:
        """What one engine has observed now."""
        self._waiting.append(increment)
        if len(self._waiting) >= MOST_WAITING:
            self._add_up()

    def all(self) -> Mapping[Place, Buckets]:
        """All observations of every engine that was taken and not dropped."""
        self._add_up()
        return self._whole

    def drop(self, keys: Collection[EngineKey]) -> None:
        """Forget these engines."""
        self._waiting = [increment for increment in self._waiting if increment.key not in keys]
        self._whole = {place: whole for place, whole in self._whole.items() if place[0] not in keys}

    def _add_up(self) -> None:
        parts: dict[Place, list[Buckets]] = defaultdict(list)
        for increment in self._waiting:
            for signal, buckets in increment.histograms.items():
                place = (increment.key, signal)
                alike = parts[place]
                if not alike and place in self._whole:
                    alike.append(self._whole[place])
                if alike and alike[0].edges != buckets.edges:
                    alike.clear()
                alike.append(buckets)
        self._whole |= {place: whole for place, alike in parts.items() if (whole := merged(alike)) is not None}
        self._waiting.clear()
