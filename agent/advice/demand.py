"""What users ask of a group of replicas: arrivals in even bins, known only where every replica was read."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from agent.advice.step_samples import prefilled_tokens
from agent.windows import EngineKey, Increment

BIN_SECONDS = 20.0  # two readings at the usual interval
KEPT_BINS = 45  # a quarter of an hour: the forecaster keeps what it needs of the time before
MOST_MISSED = 7 * 4_320  # a week of bins in which nobody looked: more than that is told by nobody
LEAST_COVERED_RATIO = 0.9
MIX_SECONDS = 300.0
LEAST_BEGUN, LEAST_FINISHED = 20.0, 10.0  # requests that make a mean


@dataclass(frozen=True, slots=True)
class Mix:
    """Mean tokens of a request of late, and the part of its prompt that was not computed."""

    input_tokens: float
    output_tokens: float
    hit_ratio: float


@dataclass(slots=True)
class _Bin:
    arrivals: float = 0.0
    covered_seconds: float = 0.0
    replicas: int = 0


@dataclass(slots=True)
class Demand:
    """Arrivals of one group. `first` is the number of the oldest bin; bin n is (n·BIN, (n+1)·BIN] seconds."""

    bins: deque[_Bin] = field(default_factory=lambda: deque(maxlen=KEPT_BINS))
    first: int = 0
    _waiting: dict[EngineKey, float] = field(default_factory=dict)
    _closed: int | None = None
    _last_mix: Mix | None = None
    _recent: deque[tuple[float, float, float, float, float, float]] = field(default_factory=deque)

    def take(self, increments: Sequence[Increment]) -> None:
        """Count what came in: first tokens, and what the queue grew by, spread over the time between the readings.

        Readings may come late: they fill the bins of their own time.
        """
        for increment in increments:
            first_tokens = increment.histograms.get("ttft_seconds")
            waiting = increment.gauges.get(("requests_waiting", ""))
            before = self._waiting.get(increment.key)
            if waiting is not None:
                self._waiting[increment.key] = waiting
            seconds = increment.to_seconds - increment.from_seconds
            if first_tokens is None or waiting is None or seconds <= 0 or increment.restarted:
                continue  # of a process that ended, nobody knows what came after its last page
            grown = waiting - (before if before is not None else 0.0)
            self._spread(increment.from_seconds, increment.to_seconds, max(0.0, first_tokens.count + grown))
            self._remember(increment, first_tokens.count)

    def close(self, now_seconds: float, replicas: int, patience_seconds: float) -> list[float | None]:
        """End the bins that all replicas should have told of by now, of whom there are so many.

        Returns their requests per second, oldest first; None for one where somebody was not read, and for all the bins
        that passed while nobody looked.
        """
        last = int((now_seconds - patience_seconds) // BIN_SECONDS) - 1
        if not self.bins:
            return []
        closed, before = 0, self._closed
        for number in range(max(self.first, last - 3), last + 1):
            each = self._at(number)
            if each is not None and each.replicas == 0:
                each.replicas, closed, self._closed = max(1, replicas), closed + 1, number
        missed = last - closed - before if closed and before is not None else 0
        return [None] * min(missed, MOST_MISSED) + self.rates(closed)

    def rates(self, count: int) -> list[float | None]:
        """Requests per second in the last so many closed bins, oldest first; None where somebody was not read."""
        found: list[float | None] = []
        for each in reversed(self.bins) if count > 0 else ():
            if each.replicas == 0 and not found:
                continue  # still open
            known = each.covered_seconds >= LEAST_COVERED_RATIO * BIN_SECONDS * max(1, each.replicas)
            found.append(each.arrivals / BIN_SECONDS if known and each.replicas else None)
            if len(found) == count:
                break
        return found[::-1]

    def mix(self, now_seconds: float) -> Mix | None:
        """Of the last minutes, or as it was when enough requests last said so; None where none ever did."""
        while self._recent and self._recent[0][0] < now_seconds - MIX_SECONDS:
            self._recent.popleft()
        begun, finished, prompts, computed, generated = (sum(row[i] for row in self._recent) for i in range(1, 6))
        if begun < LEAST_BEGUN or prompts <= 0:
            return self._last_mix
        ended = finished if finished >= LEAST_FINISHED else begun
        self._last_mix = Mix(prompts / begun, max(1.0, generated / ended), max(0.0, min(0.98, 1 - computed / prompts)))
        return self._last_mix

    def waiting(self, targets: Sequence[str]) -> float:
        """Requests in the queues of these targets, as last read."""
        return sum(count for key, count in self._waiting.items() if key.target in targets)

    def forget(self, targets: Sequence[str]) -> None:
        """Keep nothing of other targets than these."""
        for key in [key for key in self._waiting if key.target not in targets]:
            del self._waiting[key]

    def outline(self) -> dict[str, object]:
        """All of it, as plain values."""
        return {
            "first": self.first,
            "bins": [astuple(each) for each in self.bins],
            "closed": self._closed,
            "waiting": list(self._waiting.items()),
            "mix": None if self._last_mix is None else astuple(self._last_mix),
            "recent": list(self._recent),
        }

    @classmethod
    def restored(cls, form: Mapping[str, Any]) -> "Demand":
        """What `outline` told. Raises ValueError, LookupError or TypeError where it is something else."""
        return cls(
            deque((_Bin(float(a), float(covered), int(n)) for a, covered, n in form["bins"]), maxlen=KEPT_BINS),
            int(form["first"]),
            {EngineKey(*key): float(count) for key, count in form["waiting"]},
            None if form["closed"] is None else int(form["closed"]),
            None if form["mix"] is None else Mix(*map(float, form["mix"])),
            deque((at, a, b, c, d, e) for at, a, b, c, d, e in (map(float, row) for row in form["recent"])),
        )

    def _remember(self, increment: Increment, begun: float) -> None:
        """What its requests were made of, where it tells of all of it: a first token is a generated one, too."""
        counters = increment.counters
        prompts, generated = counters.get(("prompt_tokens_total", "")), counters.get(("generation_tokens_total", ""))
        finished = [rise for (name, _), rise in counters.items() if name == "requests_finished_total"]
        if prompts is None or generated is None or generated < begun or not finished:
            return
        computed = prefilled_tokens(increment)
        fresh = prompts if computed is None else computed  # no hits are claimed that nobody counted
        self._recent.append((increment.to_seconds, begun, sum(finished), prompts, fresh, generated))

    def _spread(self, start: float, end: float, arrivals: float) -> None:
        number = max(int(start // BIN_SECONDS), int(end // BIN_SECONDS) + 1 - KEPT_BINS)  # older ones are not kept
        if not self.bins:
            self.first = number
        while number * BIN_SECONDS < end:
            overlap = min(end, (number + 1) * BIN_SECONDS) - max(start, number * BIN_SECONDS)
            each = self._at(number)
            if each is not None and overlap > 0:
                each.arrivals += arrivals * overlap / (end - start)
                each.covered_seconds += overlap
            number += 1

    def _at(self, number: int) -> _Bin | None:
        """The bin of that number, made where it is the next; None where it is too old."""
        if number < self.first:
            return None
        if number >= self.first + len(self.bins) + KEPT_BINS:  # all there is would be forgotten on the way there
            self.bins.clear()
            self.first = number
        while number >= self.first + len(self.bins):
            if len(self.bins) == KEPT_BINS:
                self.first += 1
            self.bins.append(_Bin())
        return self.bins[number - self.first]
