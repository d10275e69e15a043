"""What is wrong with a GPU, by its readings, with the figures that show it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from agent.model import Evidence
from agent.signals.sums import add_up
from agent.windows import Increment, TargetLog, Windows
from agent.xids import Mend, meaning_of, mend_of
from probes.systems import GPUS

Repair = Literal["replace", "restart_node", "reset", "look_up", "cool", "restart_engine"]
REPAIRS: Final[tuple[Repair, ...]] = ("replace", "restart_node", "reset", "look_up", "cool", "restart_engine")

OUTCOMES: Final[Mapping[str, Repair]] = {"gpu_lost": "restart_node", "reset_required": "reset"}  # of a look by NVML
FAULT_SECONDS = 3_600.0  # an XID or memory error so long ago still asks for its repair, as the alert GPUFault does
THROTTLE_SECONDS = 300.0
LEAST_READINGS = 10
THROTTLED_RATIO = 0.5  # of the readings: a moment's heat is none of ours
SLOWED: Final[Mapping[str, str]] = {
    "hw_slowdown": "the hardware slows it down",
    "thermal_hardware": "the hardware slows it down for heat",
    "thermal_software": "the driver slows it down for heat",
    "power_brake": "the power supply slows it down",
}
"""Reasons that a healthy GPU in a healthy host does not have. A power cap is none: an H200 under full load is at its
cap (facts/h200.md)."""


@dataclass(frozen=True, slots=True)
class GpuFault:
    """One GPU and what it needs most. `gpu` is its target, and behind a slash which one of it, where it has several."""

    gpu: str
    target: str
    repair: Repair
    words: str
    evidence: tuple[Evidence, ...]


def gpu_faults(windows: Windows, down_after_seconds: float, now_seconds: float) -> list[GpuFault]:
    """Every GPU that has a fault, with all of them, and the heaviest repair that one asks for.

    What a reading does not tell is no fault.
    """
    found: list[GpuFault] = []
    for name, log in windows.targets.items():
        if log.source in GPUS:
            for engine in sorted({key.engine for key in windows.increments if key.target == name} or {""}):
                faults = [
                    *_lost(name, log, windows, down_after_seconds, now_seconds),
                    *_of_readings(name, engine, windows, now_seconds),
                ]
                faults.sort(key=lambda fault: REPAIRS.index(fault.repair))
                if faults:
                    words = " and ".join(fault.words for fault in faults)
                    shown = tuple(figure for fault in faults for figure in fault.evidence)
                    found.append(replace(faults[0], words=words, evidence=shown))
    return found


def _lost(
    name: str, log: TargetLog, windows: Windows, down_after_seconds: float, now_seconds: float
) -> Iterator[GpuFault]:
    """NVML says that it is gone, or cannot work before a reset; not once, but for a while."""
    last = log.last_attempt
    mend = OUTCOMES.get(last.outcome)
    seen = log.last_ok.at_seconds if log.last_ok else log.first_attempt_at_seconds
    silent = now_seconds - max(seen, windows.restored_at_seconds or seen)
    if mend is not None and silent >= down_after_seconds:
        words = "is lost: the driver does not reach it" if mend == "restart_node" else "works no more before a reset"
        yield GpuFault(name, name, mend, words, (Evidence("gpu_silent_seconds", 0.0, silent),))


def _of_readings(name: str, engine: str, windows: Windows, now_seconds: float) -> Iterator[GpuFault]:
    hour = [i for i in windows.between(now_seconds - FAULT_SECONDS, now_seconds, [name]) if i.key.engine == engine]
    newest = next((i for i in windows.on_page(name) if i.key.engine == engine), None)
    gpu = f"{name}/{engine}" if engine and engine != "0" else name
    if newest is not None:
        yield from _rows(gpu, name, newest)
    rises = add_up(hour)
    xids = {code: n for code, n in rises.by_label("gpu_xid_errors_total").items() if n > 0 and code}
    mend = mend_of(xids)
    if (repair := _repair_of(mend)) is not None:
        told = ", ".join(meaning_of(code) for code in xids if mend_of([code]) == mend)
        shown = tuple(Evidence(f"gpu_xid_errors:{code}", FAULT_SECONDS, n) for code, n in xids.items())
        yield GpuFault(gpu, name, repair, f"had {told}", shown)
    errors = rises.counter("gpu_ecc_uncorrected_errors_total")
    if errors:
        shown = (Evidence("gpu_ecc_uncorrected_errors", FAULT_SECONDS, errors),)
        yield GpuFault(gpu, name, "reset", f"had {errors:.0f} memory errors that ECC could not correct", shown)
    yield from _throttled(gpu, name, [i for i in hour if i.to_seconds > now_seconds - THROTTLE_SECONDS])


def _repair_of(mend: Mend) -> Repair | None:
    return None if mend == "none" else mend


def _rows(gpu: str, name: str, newest: Increment) -> Iterator[GpuFault]:
    rows = newest.gauges.get(("gpu_remapped_uncorrected_rows", ""))
    shown = (Evidence("gpu_remapped_uncorrected_rows", 0.0, rows),)
    if newest.gauges.get(("gpu_row_remap_failed_state", ""), 0.0) > 0:
        yield GpuFault(gpu, name, "replace", "has bad memory rows and no spare ones left for them", shown)
    if newest.gauges.get(("gpu_row_remap_pending_state", ""), 0.0) > 0:
        yield GpuFault(gpu, name, "reset", "has bad memory rows that the next reset will remap", shown)


def _throttled(gpu: str, name: str, readings: Sequence[Increment]) -> Iterator[GpuFault]:
    """Slowed down for heat or power in most readings of the last minutes."""
    shares = {}
    for reason in SLOWED:
        known = [v for i in readings if (v := i.gauges.get(("gpu_clock_limit_state", reason))) is not None]
        if len(known) >= LEAST_READINGS:
            shares[reason] = sum(known) / len(known)
    worst = max(shares, key=lambda reason: shares[reason], default=None)
    if worst is None or shares[worst] < THROTTLED_RATIO:
        return
    sums = add_up(readings)
    clock, heat = sums.level("gpu_sm_clock_hertz"), sums.level("gpu_temperature_celsius")
    yield GpuFault(
        gpu,
        name,
        "cool",
        f"is slow: in {100 * shares[worst]:.0f} % of the readings {SLOWED[worst]}",
        (
            *(Evidence(f"gpu_clock_limit_ratio:{why}", THROTTLE_SECONDS, share) for why, share in shares.items()),
            Evidence("gpu_sm_clock_hertz", THROTTLE_SECONDS, None if clock is None else clock.mean),
            Evidence("gpu_temperature_celsius", THROTTLE_SECONDS, None if heat is None else heat.max),
            Evidence(
                "gpu_thermal_limited_seconds", THROTTLE_SECONDS, sums.counter("gpu_thermal_limited_seconds_total")
            ),
        ),
    )
