"""The sentence: readings are counted, SLOs judged, alerts and recommendations follow. No clock, no socket, no log."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from agent.advice.advisor import Advisor
from agent.advice.applied import was_applied
from agent.advice.foreseen import foreseen
from agent.advice.ledger import Ledger
from agent.advice.review import Review
from agent.advice.scale import Scaling, scale
from agent.advice.scale_out import scale_out
from agent.advice.scene import Scene
from agent.alerts.book import AlertBook, Labels, Wanted
from agent.alerts.cause import likely_cause
from agent.alerts.gpu_alerts import gpu_alerts
from agent.alerts.health import target_status
from agent.alerts.silence import no_data, no_data_of_one
from agent.alerts.slo_alerts import held_labels, slo_alerts, wants_alerts
from agent.alerts.target_alerts import blind_alert, lost_alert, target_alerts
from agent.model import Effects, Recommendation, SliSource, Slo, SloStatus, Snapshot, TargetStatus
from agent.plan import Plan
from agent.sli.count import PendingBook, count_events
from agent.sli.roles import RoleBook
from agent.sli.slices import judged_until_seconds
from agent.slo.status import slo_status
from agent.windows import Windows
from probes.systems import ENGINES, ROUTERS

# which targets tell what an SLO of each source counts; None: any
TELLERS: Mapping[SliSource, tuple[str, ...] | None] = {
    "engine": ENGINES,
    "router": ROUTERS,
    "canary": None,
    "span": ENGINES,
    "slos": (),
}


EARLIER = " (seen earlier; no engine signal stands out now)"


@dataclass(slots=True)
class Memory:
    """All that outlives a tick. `lost_at_seconds` is when a memory of before was lost; None: there was none, or it is
    this one.
    """

    windows: Windows = field(default_factory=Windows)
    pending: PendingBook = field(default_factory=PendingBook)
    alerts: AlertBook = field(default_factory=AlertBook)
    ledger: Ledger = field(default_factory=Ledger)
    review: Review = field(default_factory=Review)
    advisor: Advisor = field(default_factory=Advisor)
    lost_at_seconds: float | None = None
    roles: RoleBook = field(default_factory=RoleBook)


def tick(plan: Plan, memory: Memory, now_seconds: float) -> Effects:
    """One evaluation at `now_seconds`; called by run, replay, demo and the tests alike."""
    windows = memory.windows
    plan, targets = take_in(plan, memory, now_seconds)
    ours = _by_slo(memory.pending, targets)
    silences = {slo.name: no_data(slo, ours[slo.name], windows, now_seconds) for slo in plan.slos if not slo.all_of}
    slos = tuple(
        slo_status(
            slo,
            windows.events[slo.name],
            judged_until_seconds(slo, now_seconds),
            no_data=no_data_of_one(slo, silences) if slo.all_of else silences[slo.name],
            lost_at_seconds=memory.lost_at_seconds,
            exclusions=plan.exclusions,
        )
        for slo in plan.slos
    )
    scalings = list(scale(plan, memory.advisor, targets, slos, windows, now_seconds))
    modelled = {(one.wish.model, one.wish.role) for one in scalings if one.is_modelled}
    scene = Scene(plan, targets, slos, windows, now_seconds)
    advice = [advice for one in scalings for advice in _advised(one, memory, scene)]
    proven = scale_out(plan, targets, slos, windows, now_seconds)  # where no model is to be trusted
    advice += [one for one in proven if (one.model, one.role) not in modelled]
    advice += memory.review.advise(scene)
    wishes = tuple(memory.ledger.trusted(one.wish, now_seconds) for one in scalings)
    advised = memory.ledger.settle(advice, targets, slos, now_seconds, wishes, partial(was_applied, scene))
    wanted = [
        *_burn_alerts(plan, memory, slos, targets, now_seconds),
        *target_alerts(targets, plan, windows, now_seconds),
        *gpu_alerts(windows, plan, now_seconds),
        *blind_alert(windows, plan, now_seconds),
        *lost_alert(memory.lost_at_seconds, plan, now_seconds),
    ]
    held = {labels for status in slos for labels in held_labels(status, plan, now_seconds)}
    held.update(_held_while_stale(targets, memory.alerts.firing))
    held.update(_held_after_restart(plan, memory, now_seconds))
    alerts = memory.alerts.settle(wanted, frozenset(held), now_seconds)
    firing = tuple(memory.alerts.firing.values())
    entries, learned = tuple(memory.ledger.entries), memory.advisor.capacity.engines()
    return Effects(alerts, advised, Snapshot(now_seconds, slos, targets, firing, entries, wishes, learned))


def take_in(
    plan: Plan, memory: Memory, now_seconds: float, *, holds_back: bool = True
) -> tuple[Plan, tuple[TargetStatus, ...]]:
    """Readings are counted and learned from, each once; returns the plan with the parts that targets have shown, and
    how they look. What may hold a canary without a result waits for it, unless nothing is to be held back.
    """
    plan, windows = _with_roles(plan, memory), memory.windows
    fresh = count_events(plan.slos, plan.targets, windows, memory.pending, now_seconds if holds_back else None)
    targets = tuple(target_status(name, facts, plan, windows, now_seconds) for name, facts in plan.targets.items())
    memory.advisor.take(plan, targets, fresh, now_seconds)
    return plan, targets


def _advised(scaling: Scaling, memory: Memory, scene: Scene) -> Iterator[Recommendation]:
    """Its advice, with predictions where it is news: they take their time."""
    advice = scaling.advice
    if advice is not None and scaling.basis is not None and memory.ledger.is_news(advice, scene.now_seconds):
        advice = foreseen(advice, scaling.basis, scene)
    if advice is not None:
        yield advice


def _with_roles(plan: Plan, memory: Memory) -> Plan:
    """The plan with the parts that targets have shown."""
    targets = memory.roles.applied(plan.targets, memory.windows)
    return plan if targets is plan.targets else replace(plan, targets=targets)


def _burn_alerts(
    plan: Plan, memory: Memory, slos: tuple[SloStatus, ...], targets: tuple[TargetStatus, ...], now_seconds: float
) -> list[Wanted]:
    wanted: list[Wanted] = []
    for status in slos:
        if wants_alerts(status):
            cause = likely_cause(status.slo, targets, plan.targets, memory.windows, now_seconds)
            advice = next((entry.summary for entry in memory.ledger.open if _names_slo(entry, status.slo)), "")
            fresh = slo_alerts(status, cause, advice, plan)
            wanted += fresh if cause.code != "unknown" else (_with_earlier_cause(want, memory.alerts) for want in fresh)
    return wanted


def _with_earlier_cause(want: Wanted, book: AlertBook) -> Wanted:
    """The cause that was clear earlier goes on being told while the alert fires and nothing else stands out."""
    known = book.firing.get(want.labels)
    if known is None or known.annotations.get("cause", "") == want.annotations["cause"]:
        return want
    earlier = known.annotations["cause"].removesuffix(EARLIER)
    return replace(want, annotations={**want.annotations, "cause": earlier + EARLIER})


def _names_slo(entry: Recommendation, slo: Slo) -> bool:
    return any(evidence.signal == f"burn_rate:{slo.name}" for evidence in entry.evidence)


def _by_slo(pending: PendingBook, targets: tuple[TargetStatus, ...]) -> Mapping[str, list[TargetStatus]]:
    """The targets that each SLO, by its name, counts."""
    found: dict[str, list[TargetStatus]] = defaultdict(list)
    for target in targets:
        for source, tellers in TELLERS.items():
            if tellers is not None and target.source and target.source not in tellers:
                continue
            for slo in pending.concerned(target.name, target.model, source):
                found[slo.name].append(target)
    return found


def _held_while_stale(targets: tuple[TargetStatus, ...], firing: Iterable[Labels]) -> Iterator[Labels]:
    """Alerts about targets that just do not answer: nothing shows that their cause is over."""
    stale = {target.name for target in targets if target.health == "stale"}
    yield from (labels for labels in firing if dict(labels).get("target") in stale)


def _held_after_restart(plan: Plan, memory: Memory, now_seconds: float) -> Iterable[Labels]:
    """All that fires, until everything that made it fire had the time to show itself again."""
    restored_at, patience = memory.windows.restored_at_seconds, max(plan.down_after_seconds, plan.stuck_after_seconds)
    is_new = restored_at is not None and now_seconds - restored_at < patience + 3 * plan.scrape_interval_seconds
    return memory.alerts.firing if is_new else ()
