"""What a recording body of source `nvml` says: our signals of one GPU."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from probes.sample import PageWarning, Reading, Sample

# recording key -> (our signal, kind, factor to its unit)
SIGNALS: dict[str, tuple[str, str, float]] = {
    "gpu": ("gpu_utilization_ratio", "gauge", 0.01),
    "mem": ("gpu_memory_activity_ratio", "gauge", 0.01),
    "used": ("gpu_memory_used_bytes", "gauge", 1.0),
    "total": ("gpu_memory_total_bytes", "gauge", 1.0),
    "power_mw": ("gpu_power_watts", "gauge", 0.001),
    "energy_mj": ("gpu_energy_joules_total", "counter", 0.001),
    "temp": ("gpu_temperature_celsius", "gauge", 1.0),
    "sm_mhz": ("gpu_sm_clock_hertz", "gauge", 1e6),
    "power_limited_ns": ("gpu_power_limited_seconds_total", "counter", 1e-9),
    "thermal_limited_ns": ("gpu_thermal_limited_seconds_total", "counter", 1e-9),
    "ecc_corrected": ("gpu_ecc_corrected_errors_total", "counter", 1.0),
    "ecc_uncorrected": ("gpu_ecc_uncorrected_errors_total", "counter", 1.0),
    "remapped_corrected": ("gpu_remapped_corrected_rows", "gauge", 1.0),
    "remapped_uncorrected": ("gpu_remapped_uncorrected_rows", "gauge", 1.0),
    "remap_pending": ("gpu_row_remap_pending_state", "gauge", 1.0),
    "remap_failed": ("gpu_row_remap_failed_state", "gauge", 1.0),
    "nvlink_tx_kib": ("gpu_nvlink_sent_bytes_total", "counter", 1024.0),
    "nvlink_rx_kib": ("gpu_nvlink_received_bytes_total", "counter", 1024.0),
    "sm_active": ("gpu_sm_activity_ratio", "gauge", 0.01),
    "tensor_active": ("gpu_tensor_activity_ratio", "gauge", 0.01),
    "dram_active": ("gpu_dram_activity_ratio", "gauge", 0.01),
    "pcie_tx_mibs": ("gpu_pcie_sent_bytes_per_second", "gauge", 1024.0 * 1024.0),
    "pcie_rx_mibs": ("gpu_pcie_received_bytes_per_second", "gauge", 1024.0 * 1024.0),
    "xids": ("gpu_xid_errors_total", "counter", 1.0),
    "clock_reasons": ("gpu_clock_limit_state", "gauge", 1.0),
    "processes": ("gpu_processes", "gauge", 1.0),
    "processes.pod": ("gpu_pod_processes", "gauge", 1.0),
    "processes.used": ("gpu_pod_memory_bytes", "gauge", 1.0),
}
BASIC: Final = (
    "gpu",
    "mem",
    "used",
    "power_mw",
    "energy_mj",
    "temp",
    "sm_mhz",
)  # every whole data-centre GPU has these

# Bits of nvmlClocksEventReason that slow a GPU down (nvml.h). Idle, application clocks, sync boost, display do not.
CLOCK_LIMITS: Final = {
    "power_cap": 0x04,
    "hw_slowdown": 0x08,
    "thermal_software": 0x20,
    "thermal_hardware": 0x40,
    "power_brake": 0x80,
}


def gpu_reading(target: str, at_seconds: float, body: Mapping[str, Any], *, is_whole: bool = True) -> Reading:
    """The reading that a recording body of source `nvml` says. Keys it does not know are ignored."""
    samples = (*_plain(body), *_clock_limits(body.get("clock_reasons")), *_counted(body))
    missing = [key for key in BASIC if key not in body] if is_whole else []
    warnings = (PageWarning("not_supported", "this GPU does not give " + ", ".join(missing)),) if missing else ()
    return Reading(target, "nvml", at_seconds, samples=samples, warnings=warnings)


def _plain(body: Mapping[str, Any]) -> Iterator[Sample]:
    for key, (signal, kind, factor) in SIGNALS.items():
        if key != "clock_reasons" and is_known(body.get(key)):
            yield Sample(signal, "counter" if kind == "counter" else "gauge", "", "", float(body[key]) * factor)


def _clock_limits(reasons: object) -> Iterator[Sample]:
    """1 for every reason that slows the GPU down now, 0 for the others; nothing where it is not known."""
    if isinstance(reasons, int) and is_known(reasons):
        for label, bit in CLOCK_LIMITS.items():
            yield Sample(SIGNALS["clock_reasons"][0], "gauge", "", "", float(bool(reasons & bit)), label)


def _counted(body: Mapping[str, Any]) -> Iterator[Sample]:
    """XID errors by code, and how many processes compute there."""
    xids, processes = body.get("xids"), body.get("processes")
    if isinstance(xids, Mapping):
        known = {str(code): count for code, count in xids.items() if is_known(count)}
        yield from (Sample("gpu_xid_errors_total", "counter", "", "", float(n), code) for code, n in known.items())
        if not known:
            yield Sample("gpu_xid_errors_total", "counter", "", "", 0.0)
    if isinstance(processes, list):
        yield Sample("gpu_processes", "gauge", "", "", float(len(processes)))
        yield from _by_pod(processes)


def _by_pod(processes: list[Any]) -> Iterator[Sample]:
    """Processes by pod, and their memory where it is known of each; nothing for those of no known pod."""
    memory: dict[str, list[object]] = {}
    for process in processes:
        if isinstance(process, Mapping) and process.get("pod"):
            memory.setdefault(str(process["pod"]), []).append(process.get("used"))
    for pod, used in memory.items():
        yield Sample("gpu_pod_processes", "gauge", "", "", float(len(used)), pod)
        sizes = [float(size) for size in used if isinstance(size, int | float) and is_known(size)]
        if len(sizes) == len(used):
            yield Sample("gpu_pod_memory_bytes", "gauge", "", "", sum(sizes), pod)


def is_known(value: object) -> bool:
    """A number that can be one: finite, not negative, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
