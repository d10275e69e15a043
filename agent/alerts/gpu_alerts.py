"""GPUFault: a GPU that gives no figures, whose driver told of an error, or that has memory rows to remap."""

from collections import Counter
from collections.abc import Iterator, Mapping

from agent.alerts.book import Wanted, alert_labels
from agent.plan import Plan
from agent.windows import TargetLog, Windows
from agent.xids import Mend, mend_of

XID_TOLD_SECONDS = 3600.0
"""An XID error is an event and has no end of its own: so long after it people are told."""
LOST = "drain the node; look for XID errors in the kernel log"
LOOK_AT_LOG = "look at the engine's log of that time"
XID_MENDS: Mapping[Mend, str] = {
    "restart_node": "drain the node and restart it; a GPU that is lost again is to be replaced",
    "reset": "drain the node and reset the GPU; the same code again is a case for the vendor",
    "look_up": "drain the node, and look the code up in NVIDIA's list of XID errors",
    "restart_engine": f"{LOOK_AT_LOG}, and restart it where it died; the same code again on one GPU alone is hardware",
    "none": f"nothing now, beyond a look: {LOOK_AT_LOG}",
}
REMAP_PENDING = "drain the node and reset the GPU: until then the bad rows stay in use"
REMAP_FAILED = "take the GPU out of service: it has no spare rows left for bad memory"


def gpu_alerts(windows: Windows, plan: Plan, now_seconds: float) -> Iterator[Wanted]:
    """One alert a GPU, with all that is wrong with it; the worst is its summary."""
    for name, log in windows.targets.items():
        if log.source != "nvml":
            continue
        found = [*_silent(name, log, windows, plan, now_seconds), *_faults(name, windows, now_seconds)]
        if found:
            summary, cause, _ = found[0]
            words = {
                "summary": summary,
                "description": ". ".join(detail for _, detail, _ in found),
                "cause": cause,
                "recommendation": "; ".join(dict.fromkeys(mend for _, _, mend in found)),
                "dashboard_url": plan.dashboard_url,
                "page_url": plan.page_url,
            }
            yield Wanted(alert_labels("GPUFault", "ticket", plan.node, target=name), words)


def _silent(name: str, log: TargetLog, windows: Windows, plan: Plan, now_seconds: float) -> Iterator[tuple[str, ...]]:
    """It gave figures, or should, and has given none for a while."""
    seen = log.last_ok.at_seconds if log.last_ok else log.first_attempt_at_seconds
    last = log.last_attempt
    watched = now_seconds - max(seen, windows.restored_at_seconds or seen)
    if last.outcome != "ok" and watched >= plan.down_after_seconds:
        detail = f"no reading for {now_seconds - seen:.0f} s: {last.outcome}: {last.detail}"
        yield f"{name} gives no figures", detail, LOST


def _faults(name: str, windows: Windows, now_seconds: float) -> Iterator[tuple[str, ...]]:
    """What its readings say: (summary, detail, what to do). A reading that does not say is no fault."""
    newest = windows.on_page(name)
    remaps = {
        state
        for state in ("failed", "pending")
        if any(increment.gauges.get((f"gpu_row_remap_{state}_state", ""), 0.0) > 0 for increment in newest)
    }
    if "failed" in remaps:
        yield f"{name} has bad memory", "memory rows could not be remapped", REMAP_FAILED
    xids: Counter[str] = Counter()
    told_at = 0.0
    for increment in windows.between(now_seconds - XID_TOLD_SECONDS, now_seconds, [name]):
        for (signal, code), rise in increment.counters.items():
            if signal == "gpu_xid_errors_total" and rise > 0:
                xids[code] += int(rise)
                told_at = max(told_at, increment.to_seconds)
    if xids:
        codes = ", ".join(f"XID {code}" + (f" {times} times" if times > 1 else "") for code, times in xids.items())
        mend = XID_MENDS[mend_of(xids)]
        yield f"{name} had an error", f"the driver told of {codes}, last {now_seconds - told_at:.0f} s ago", mend
    if "pending" in remaps:
        yield f"{name} waits for a reset", "memory rows wait to be remapped at the next reset", REMAP_PENDING
