"""The ledger: what was advised, and whether it came true; one of the things that remember."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.advice.replicas import UNKNOWN
from agent.model import Recommendation, ReplicaWish, SloStatus, TargetStatus
from agent.windows import CLOCK_STEP_SECONDS

KEPT = 200
REPEAT_SECONDS = 900.0  # the same advice is not given again within it, unless it grows
CONFOUNDED_RATIO = 0.2  # facts/recommend.md 5f: the load was another one than foreseen by so much
RECORD_SECONDS = 86_400.0  # what missed is not followed, and so never kept: after a day it gets another chance
PRIOR_KEPT, PRIOR_MISSED = 4.0, 1.0  # before anything was judged: as if four of five had been kept
LOST = "replicas_lost"
FORESEEN = ("forecast_arrival_rate_q90_per_second", "requests_per_second")  # by scaling advice, by all other

Topic = tuple[str, str, str]


@dataclass(slots=True)
class Ledger:
    """Recommendations, oldest first; the open ones have no verdict."""

    entries: list[Recommendation] = field(default_factory=list)

    def settle(
        self,
        advised: Iterable[Recommendation],
        statuses: Sequence[TargetStatus],
        slos: Sequence[SloStatus],
        now_seconds: float,
        wishes: Sequence[ReplicaWish] = (),
        was_applied: Callable[[Recommendation], bool | None] = lambda _: None,
    ) -> tuple[Recommendation, ...]:
        """Give verdicts that are due and enter new advice; returns the entries that are new or changed.

        `wishes` are the counts that groups should have now: scaling advice that says otherwise is over, except where
        nobody knows.
        `was_applied` says of other advice whether it was followed, None where nothing tells. Advice from a time to come
        is closed as unknown: the clock was set back.
        """
        wanted = {(wish.model, wish.role): wish for wish in wishes}
        ahead = [entry for entry in self.open if _is_ahead(entry, now_seconds)]
        changed = [self._replace(entry, "unknown", now_seconds) for entry in ahead]
        for entry in [entry for entry in self.open if now_seconds >= entry.verify_at_seconds]:
            verdict = _verdict(entry, statuses, slos, wanted.get((entry.model, entry.role)), was_applied)
            changed.append(self._replace(entry, verdict, now_seconds))
        for advice in advised:
            open_ones = [entry for entry in self.open if _topic(entry) == _topic(advice)]
            if not self.is_news(advice, now_seconds):
                continue
            changed += [self._replace(entry, "superseded", now_seconds) for entry in open_ones]
            trusted = replace(
                advice, confidence=round(advice.confidence * self.track_record(_topic(advice), now_seconds), 2)
            )
            self.entries.append(trusted)
            changed.append(trusted)
        for entry in self.open:
            wish = wanted.get((entry.model, entry.role))
            says_otherwise = wish is not None and wish.reason not in UNKNOWN and not _still_says(entry, wish.value)
            if says_otherwise and entry.is_by_model:
                changed.append(self._replace(entry, "withdrawn", now_seconds))
        del self.entries[:-KEPT]
        return tuple(changed)

    def is_news(self, advice: Recommendation, now_seconds: float) -> bool:
        """Whether it would be entered: it is not what was said last on this topic."""
        latest = next((e for e in reversed(self.entries) if _topic(e) == _topic(advice)), None)
        return latest is None or _is_ahead(latest, now_seconds) or not _is_repeat(latest, advice, now_seconds)

    @property
    def open(self) -> list[Recommendation]:
        return [entry for entry in self.entries if entry.verdict is None]

    def track_record(self, topic: Topic, now_seconds: float) -> float:
        """How far advice of this kind is to be believed, 1 at best: the part of it that was kept, over the part that
        is taken to be kept before anything was judged. Verdicts that tell nothing do not count, nor what was advised
        more than a day ago.
        """
        since = now_seconds - RECORD_SECONDS
        verdicts = [entry.verdict for entry in self.entries if _topic(entry) == topic and entry.at_seconds >= since]
        kept, missed = verdicts.count("kept"), verdicts.count("missed")
        prior = PRIOR_KEPT / (PRIOR_KEPT + PRIOR_MISSED)
        return min(1.0, (PRIOR_KEPT + kept) / (PRIOR_KEPT + PRIOR_MISSED + kept + missed) / prior)

    def trusted(self, wish: ReplicaWish, now_seconds: float) -> ReplicaWish:
        """The wish, as sure as advice of its kind has shown itself to be."""
        record = self.track_record((wish.model, wish.role, "scale"), now_seconds)
        return replace(wish, confidence=round(wish.confidence * record, 2))

    def _replace(self, entry: Recommendation, verdict: str, now_seconds: float) -> Recommendation:
        done = replace(entry, verdict=verdict, verdict_at_seconds=now_seconds)
        self.entries[self.entries.index(entry)] = done
        return done


def _is_ahead(entry: Recommendation, now_seconds: float) -> bool:
    """It was advised by a clock that was set back since: when it is to be judged is not known."""
    return entry.at_seconds > now_seconds + CLOCK_STEP_SECONDS


def _topic(entry: Recommendation) -> Topic:
    """Replicas are one topic, whoever speaks; each setting is one of its own, and their numbers are not compared."""
    return entry.model, entry.role, entry.action if entry.action == "scale" else entry.reason_code


def _is_repeat(latest: Recommendation, advice: Recommendation, now_seconds: float) -> bool:
    """The same again. Advice by a model is another one as soon as its count is, unless it only asks for fewer more;
    without one it has to ask for more than the open one allows, or than the one that was just judged.

    A setting (anything but a number of replicas) is advised anew where by now doing nothing breaks a promise.
    """
    if advice.is_by_model:
        if latest.verdict is None and _still_says(latest, advice.proposed):
            return True
        is_recent = latest.verdict is None or now_seconds - latest.at_seconds < REPEAT_SECONDS
        return is_recent and latest.verdict != "withdrawn" and advice.proposed == latest.proposed
    if advice.action != "scale" and advice.do_nothing.get("meets_slo") != latest.do_nothing.get("meets_slo"):
        return False
    if latest.verdict is None and advice.action == "rebalance":
        return (advice.proposed > advice.current) == (latest.proposed > latest.current)  # the other way is other advice
    if latest.verdict is None:
        return advice.proposed <= latest.high
    return now_seconds - latest.at_seconds < REPEAT_SECONDS and advice.proposed <= latest.proposed


def _still_says(entry: Recommendation, replicas: float) -> bool:
    """Whether a count is what open advice says: fewer more, within what it allows, are no other advice."""
    if entry.proposed > entry.current:
        return max(entry.low, entry.current + 1) <= replicas <= entry.proposed
    return replicas == entry.proposed


def _verdict(
    entry: Recommendation,
    statuses: Sequence[TargetStatus],
    slos: Sequence[SloStatus],
    now: ReplicaWish | None,
    was_applied: Callable[[Recommendation], bool | None],
) -> str:
    """One of kept (applied, and the objectives hold now), missed (applied, and they do not), not_applied, confounded
    (applied, but the load is another one than was foreseen), and unknown: applied, but nothing tells how the objectives
    fare. Now is the shortest window: longer ones remember the trouble.
    """
    applied = _is_scaled(entry, statuses) if entry.action == "scale" else was_applied(entry)
    if not applied:
        return "unknown" if applied is None else "not_applied"
    foreseen = next((e.value for e in entry.evidence if e.signal in FORESEEN), None)
    rate = None if now is None else now.rate_per_second
    if foreseen and rate is not None and rate > foreseen * (1 + CONFOUNDED_RATIO):
        return "confounded"
    names = {e.signal.removeprefix("burn_rate:") for e in entry.evidence if e.signal.startswith("burn_rate:")}
    fastest = [
        min(slo.burns, key=lambda b: b.pair.short_seconds) for slo in slos if slo.slo.name in names and slo.burns
    ]
    rates = [burn.short_rate for burn in fastest]
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates):
        return "unknown"
    return "kept" if max(known) <= 1.0 else "missed"


def _is_scaled(entry: Recommendation, statuses: Sequence[TargetStatus]) -> bool:
    replicas = sum(s.health == "up" and (s.model, s.role) == (entry.model, entry.role) for s in statuses)
    lost = next((e.value or 0.0 for e in entry.evidence if e.signal == LOST), 0.0)  # counted in, but never up
    return replicas >= entry.low - lost if entry.proposed > entry.current else replicas <= entry.high
