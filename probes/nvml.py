"""GPUs of this node through NVML. The library is an argument, its calls block, so they run in a worker thread."""

import asyncio
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from probes.sample import PageWarning, Reading, Sample

NOT_SUPPORTED_CODES = (3, 13)  # NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_FUNCTION_NOT_FOUND (nvml.h)


def load_nvml() -> tuple[Any, str]:
    """(library, "") ready for use, or (None, why not): no package, no driver, no permission."""
    try:
        import pynvml  # noqa: PLC0415  only where GPUs are asked for
    except ImportError:
        return None, "the package nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, str(error)
    return pynvml, ""


@dataclass(slots=True)
class GpuReader:
    """Reads every GPU of the node. What a GPU does not support is remembered and not asked again."""

    library: Any
    _unsupported: set[tuple[int, str]] = field(default_factory=set)

    async def read(self, at_seconds: float) -> list[tuple[Reading, dict[str, Any]]]:
        """One (reading, recording body) per GPU, target `gpu-N`; a GPU that fails has an outcome that says so."""
        return await asyncio.to_thread(self._read_all, at_seconds)

    def _read_all(self, at_seconds: float) -> list[tuple[Reading, dict[str, Any]]]:
        try:
            count = self.library.nvmlDeviceGetCount()
        except self.library.NVMLError as error:
            return [(Reading("gpu", "nvml", at_seconds, outcome="nvml_error", detail=str(error)), {})]
        found: list[tuple[Reading, dict[str, Any]]] = []
        for index in range(count):
            body, error_text = self._read_one(index)
            if error_text and not body:
                failed = Reading(f"gpu-{index}", "nvml", at_seconds, outcome="gpu_lost", detail=error_text)
                found.append((failed, {}))
            else:
                found.append((gpu_reading(f"gpu-{index}", at_seconds, body), body))
        return found

    def _read_one(self, index: int) -> tuple[dict[str, Any], str]:
        library, body, trouble = self.library, {}, ""
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            return {}, str(error)
        for name, call in _calls(library, handle).items():
            if (index, name) in self._unsupported:
                continue
            try:
                body.update(call())
            except library.NVMLError as error:
                if error.value in NOT_SUPPORTED_CODES:
                    self._unsupported.add((index, name))
                else:
                    trouble = str(error)
        return body, trouble


def _calls(library: types.ModuleType, handle: object) -> dict[str, Callable[[], dict[str, Any]]]:
    """The calls and the recording keys they fill. All of them take microseconds but energy (about 4 ms)."""

    def utilisation() -> dict[str, Any]:
        rates = library.nvmlDeviceGetUtilizationRates(handle)
        return {"gpu": rates.gpu, "mem": rates.memory}

    return {
        "utilisation": utilisation,
        "memory": lambda: {"used": library.nvmlDeviceGetMemoryInfo(handle).used},
        "power": lambda: {"power_mw": library.nvmlDeviceGetPowerUsage(handle)},
        "energy": lambda: {"energy_mj": library.nvmlDeviceGetTotalEnergyConsumption(handle)},
        "temperature": lambda: {"temp": library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)},
        "clock": lambda: {"sm_mhz": library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)},
    }


# recording key -> (our signal, kind, factor to its unit)
SIGNALS: dict[str, tuple[str, str, float]] = {
    "gpu": ("gpu_utilization_ratio", "gauge", 0.01),
    "mem": ("gpu_memory_activity_ratio", "gauge", 0.01),
    "used": ("gpu_memory_used_bytes", "gauge", 1.0),
    "power_mw": ("gpu_power_watts", "gauge", 0.001),
    "energy_mj": ("gpu_energy_joules_total", "counter", 0.001),
    "temp": ("gpu_temperature_celsius", "gauge", 1.0),
    "sm_mhz": ("gpu_sm_clock_hertz", "gauge", 1e6),
}


def gpu_reading(target: str, at_seconds: float, body: Mapping[str, Any]) -> Reading:
    """The reading that a recording body of source `nvml` says. Keys it does not know are ignored."""
    samples = tuple(
        Sample(signal, "counter" if kind == "counter" else "gauge", "", "", float(body[key]) * factor)
        for key, (signal, kind, factor) in SIGNALS.items()
        if isinstance(body.get(key), int | float)
    )
    missing = [key for key in SIGNALS if key not in body]
    warnings = (PageWarning("not_supported", "this GPU does not give " + ", ".join(missing)),) if missing else ()
    return Reading(target, "nvml", at_seconds, samples=samples, warnings=warnings)
