"""The NVML calls of one GPU, and the recording keys each fills. All take microseconds but energy (about 4 ms).

Not called: nvmlDeviceGetPcieThroughput (blocks 21 ms, measured) and the PCIe byte counters (fields 197 and 198: 32 bits
wide, an H200's copies wrap them every 80 ms, measured: between two readings nobody knows how often).
"""

from collections.abc import Callable, Mapping
from typing import Any

POWER_LIMITED, THERMAL_LIMITED = 74, 75  # NVML_FI_DEV_PERF_POLICY_*: nanoseconds, cumulative
NVLINK_SENT, NVLINK_RECEIVED = 138, 139  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_*: KiB, cumulative
ALL_LINKS = 0xFFFFFFFF  # scope of a field: all of a GPU's NVLinks together
CORRECTED, UNCORRECTED, SINCE_LOAD = 0, 1, 0  # NVML_MEMORY_ERROR_TYPE_*, NVML_VOLATILE_ECC
UNSIGNED_INT, UNSIGNED_LONG, UNSIGNED_LONG_LONG = 1, 2, 3  # NVML_VALUE_TYPE_*

Call = Callable[[], Mapping[str, Any]]


def gpu_calls(library: Any, handle: Any) -> dict[str, Call]:
    """The calls by name, for a whole GPU."""

    def utilisation() -> dict[str, Any]:
        rates = library.nvmlDeviceGetUtilizationRates(handle)
        return {"gpu": rates.gpu, "mem": rates.memory}

    def remapped_rows() -> dict[str, Any]:
        keys = ("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed")
        return dict(zip(keys, library.nvmlDeviceGetRemappedRows(handle), strict=True))

    def limited() -> dict[str, Any]:
        return _fields(library, handle, {"power_limited_ns": POWER_LIMITED, "thermal_limited_ns": THERMAL_LIMITED})

    def nvlink() -> dict[str, Any]:
        scoped = {"nvlink_tx_kib": (NVLINK_SENT, ALL_LINKS), "nvlink_rx_kib": (NVLINK_RECEIVED, ALL_LINKS)}
        return _fields(library, handle, scoped)

    def errors(kind: int) -> int:
        return int(library.nvmlDeviceGetTotalEccErrors(handle, kind, SINCE_LOAD))

    return memory_calls(library, handle) | {
        "utilisation": utilisation,
        "power": lambda: {"power_mw": library.nvmlDeviceGetPowerUsage(handle)},
        "energy": lambda: {"energy_mj": library.nvmlDeviceGetTotalEnergyConsumption(handle)},
        "temperature": lambda: {"temp": library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)},
        "clock": lambda: {"sm_mhz": library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)},
        "clock_reasons": lambda: {"clock_reasons": library.nvmlDeviceGetCurrentClocksEventReasons(handle)},
        "ecc": lambda: {"ecc_corrected": errors(CORRECTED), "ecc_uncorrected": errors(UNCORRECTED)},
        "remapped_rows": remapped_rows,
        "limited": limited,
        "nvlink": nvlink,
    }


def memory_calls(library: Any, handle: Any) -> dict[str, Call]:
    """What a MIG instance gives too: its memory, and the processes on it (their ids are the host's)."""

    def processes() -> dict[str, Any]:
        found = library.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        return {"processes": [{"pid": one.pid, "used": one.usedGpuMemory} for one in found]}

    def memory() -> dict[str, Any]:
        found = library.nvmlDeviceGetMemoryInfo(handle)
        return {"used": found.used, "total": found.total}

    return {
        "memory": memory,
        "processes": processes,
    }


def _fields(library: Any, handle: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Values by key. Raises NVMLError where one has none: each field has a return code of its own."""
    values = library.nvmlDeviceGetFieldValues(handle, list(wanted.values()))
    for value in values:
        if value.nvmlReturn != 0:
            raise library.NVMLError(value.nvmlReturn)
    return {key: _number(value) for key, value in zip(wanted, values, strict=True)}


def _number(field: Any) -> int | None:
    """The union's member that the type names; None for a type that no field of ours has."""
    names = {UNSIGNED_INT: "uiVal", UNSIGNED_LONG: "ulVal", UNSIGNED_LONG_LONG: "ullVal"}
    return int(getattr(field.value, names[field.valueType])) if field.valueType in names else None
