"""The advisor: what advice remembers from tick to tick, fed with what came in; one of the things that remember."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.advice.capacity_book import CapacityBook, Kind, Learned
from agent.advice.carries import Carries
from agent.advice.demand import BIN_SECONDS, Demand
from agent.advice.forecast import DAY_BINS, Forecaster
from agent.advice.replicas import LEAST_HOLD_SECONDS, LOST_LEADS, Group, Steadiness
from agent.model import TargetStatus
from agent.plan import Plan
from agent.windows import CLOCK_STEP_SECONDS, EngineKey, Increment, Windows

Named = tuple[str, str]
"""Model and role."""
LATE_GAPS = 1.5  # usual gaps between readings, after which a bin is closed
LEADS_KEPT = 20


@dataclass(slots=True)
class GroupMemory:
    """What is remembered of one model and role."""

    demand: Demand = field(default_factory=Demand)
    forecaster: Forecaster = field(default_factory=Forecaster)
    carries: Carries = field(default_factory=Carries)
    steadiness: Steadiness = field(default_factory=Steadiness)

    def outline(self) -> dict[str, object]:
        """All but the forecaster's rates, as plain values."""
        return {
            "demand": self.demand.outline(),
            "forecaster": self.forecaster.outline(),
            "carries": self.carries.outline(),
            "steadiness": self.steadiness.outline(),
        }

    @classmethod
    def restored(cls, form: Mapping[str, Any], chunks: Mapping[int, Sequence[float]]) -> "GroupMemory":
        """What `outline` and the forecaster's `chunks` told."""
        return cls(
            Demand.restored(form["demand"]),
            Forecaster.restored(form["forecaster"], chunks),
            Carries.restored(form["carries"]),
            Steadiness.restored(form["steadiness"]),
        )


@dataclass(slots=True)
class Advisor:
    """Feed it every tick before rules are asked. `leads` are cold starts as measured, seconds."""

    capacity: CapacityBook = field(default_factory=CapacityBook)
    groups: dict[Named, GroupMemory] = field(default_factory=dict)
    leads: dict[Named, deque[float]] = field(default_factory=dict)
    _first_seen: dict[str, float] = field(default_factory=dict)
    _served: dict[str, float] = field(default_factory=dict)
    _read_before: dict[str, Sequence[float]] = field(default_factory=dict)
    _last_at_seconds: float | None = None

    def take(
        self, plan: Plan, statuses: Sequence[TargetStatus], fresh: Iterable[Increment], now_seconds: float
    ) -> None:
        """Learn from what came in since the last tick; from nothing else, where the clock was set back since then."""
        if self._last_at_seconds is not None and now_seconds < self._last_at_seconds - CLOCK_STEP_SECONDS:
            self._begin_anew()
        self._last_at_seconds = now_seconds
        named = {status.name: (status.model, status.role) for status in statuses}
        for known in (self._first_seen, self._served):
            for name in [name for name in known if name not in named]:
                del known[name]
        self.capacity.keep(named)
        ours = [i for i in fresh if i.key.source == "vllm" and i.key.target in named]

        def kind_of(key: EngineKey) -> Kind:
            facts = plan.targets.get(key.target)
            return Kind(key.model, named[key.target][1], "" if facts is None else facts.gpu_type or "")

        self.capacity.take(ours, kind_of)
        for group, members in _grouped(statuses).items():
            memory = self.groups.setdefault(group, GroupMemory())
            mine = [i for i in ours if named[i.key.target] == group]
            memory.demand.take(mine)
            self._follow(group, members, now_seconds)
            lead = self.lead_seconds(plan, group)
            ahead = round((lead + plan.scrape_interval_seconds) / BIN_SECONDS)
            memory.forecaster.horizon_bins = min(DAY_BINS, max(3, ahead))
            serving = [status.name for status in members if status.health in ("up", "stuck")]
            memory.demand.forget([status.name for status in members])
            for rate in memory.demand.close(now_seconds, len(serving), LATE_GAPS * plan.scrape_interval_seconds):
                memory.forecaster.take(rate)

    def _begin_anew(self) -> None:
        """What was learned by a clock that was ahead would pass for the newest until that time comes again; cold starts
        have no time.
        """
        self.capacity = CapacityBook()
        for known in (self.groups, self._first_seen, self._served, self._read_before):
            known.clear()

    def lead_seconds(self, plan: Plan, group: Named) -> float:
        """The cold start as measured (the longest but one in ten), or as the plan says until one was seen."""
        seen = sorted(self.leads.get(group, ()))
        return seen[int(0.9 * (len(seen) - 1) + 0.5)] if seen else plan.advice.cold_start_seconds

    def group_of(self, plan: Plan, members: Sequence[TargetStatus], windows: Windows, now_seconds: float) -> Group:
        """The replicas as they are: serving, on their way, or lost; and how much of what they should tell came in."""
        lead = self.lead_seconds(plan, (members[0].model, members[0].role))
        serving = [m for m in members if m.health == "up"]
        away = [m for m in members if m.health != "up"]
        lost = sum(self._away_seconds(m, now_seconds) > LOST_LEADS * lead for m in away)
        if len(away) > len(serving):
            lost = 0  # so many at once are not gone: it is we who do not see them
        pending = sum(m.name not in self._served for m in away)
        pending = min(pending, len(away) - lost)
        silent = len(away) - lost - pending
        quality = self._quality(serving, windows, plan.scrape_interval_seconds, now_seconds)
        quality *= len(serving) / max(1, len(serving) + silent) if serving or silent else 0.0
        return Group(len(serving) + silent, pending, lost, quality)

    def _away_seconds(self, status: TargetStatus, now_seconds: float) -> float:
        since = status.last_seen_seconds
        return now_seconds - (since if since is not None else self._first_seen.get(status.name, now_seconds))

    def _follow(self, group: Named, members: Sequence[TargetStatus], now_seconds: float) -> None:
        """Measure cold starts: from the first sight of a target that does not answer yet to its first page."""
        for member in members:
            first = self._first_seen.setdefault(member.name, now_seconds)
            if member.health == "up" and member.name not in self._served:
                self._served[member.name] = now_seconds
                if now_seconds - first > BIN_SECONDS:
                    self.leads.setdefault(group, deque(maxlen=LEADS_KEPT)).append(now_seconds - first)

    def _quality(
        self, serving: Sequence[TargetStatus], windows: Windows, interval_seconds: float, now_seconds: float
    ) -> float:
        """Readings of the last minutes over those that should have come; a replica counts from its first one on."""
        got = expected = 0.0
        for status in serving:
            since = max(now_seconds - LEAST_HOLD_SECONDS, self._served.get(status.name, now_seconds))
            got += len(self._read_at(status.name, windows, since, now_seconds))
            expected += max(0.0, (now_seconds - since) / interval_seconds - 1)
        return min(1.0, got / expected) if expected else float(bool(serving))

    def _read_at(self, target: str, windows: Windows, since_seconds: float, now_seconds: float) -> set[float]:
        """When it was read, before a restart too."""
        before = {at for at in self._read_before.get(target, ()) if at > since_seconds}
        return before | {i.to_seconds for i in windows.between(since_seconds, now_seconds, [target])}

    def outline(self, windows: Windows, now_seconds: float) -> dict[str, object]:
        """What is remembered of targets, as plain values; what is learned of engines and groups tells its own."""
        since = now_seconds - LEAST_HOLD_SECONDS
        return {
            "at_seconds": now_seconds,
            "leads": [(group, list(seen)) for group, seen in self.leads.items()],
            "first_seen": self._first_seen,
            "served": self._served,
            "read": {name: sorted(self._read_at(name, windows, since, now_seconds)) for name in self._served},
        }

    @classmethod
    def restored(
        cls, form: Mapping[str, Any], learned: Mapping[Kind, Learned], groups: Mapping[Named, GroupMemory]
    ) -> "Advisor":
        """What was told of all three. Raises ValueError, LookupError or TypeError where it is something else."""
        return cls(
            CapacityBook(dict(learned)),
            dict(groups),
            {(model, role): deque(map(float, seen), LEADS_KEPT) for (model, role), seen in form["leads"]},
            {name: float(at) for name, at in form["first_seen"].items()},
            {name: float(at) for name, at in form["served"].items()},
            {name: [float(at) for at in times] for name, times in form["read"].items()},
            None if form.get("at_seconds") is None else float(form["at_seconds"]),
        )


def by_group(statuses: Iterable[TargetStatus]) -> Iterator[tuple[Named, Sequence[TargetStatus]]]:
    """The vLLM targets of every model and role, sorted; a target that never answered belongs to the only group of its
    role, where there is one.
    """
    yield from sorted(_grouped(statuses).items())


def _grouped(statuses: Iterable[TargetStatus]) -> Mapping[Named, list[TargetStatus]]:
    found: dict[Named, list[TargetStatus]] = {}
    nameless: list[TargetStatus] = []
    for status in statuses:
        if status.source not in ("vllm", ""):
            continue
        if status.model:
            found.setdefault((status.model, status.role), []).append(status)
        else:
            nameless.append(status)
    for status in nameless:
        homes = [group for group in found if group[1] == status.role]
        if len(homes) == 1:
            found[homes[0]].append(status)
    return found
