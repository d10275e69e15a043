"""GPUs of this node through NVML. The library is an argument; its calls block, so a thread of their own makes them."""

import asyncio
import contextlib
import math
import threading
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from probes.sample import PageWarning, Reading, Sample

Answer = TypeVar("Answer")

NOT_SUPPORTED_CODES = (3, 13)  # NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_FUNCTION_NOT_FOUND (nvml.h)
OUTCOMES: Final = {4: "no_permission", 15: "gpu_lost", 16: "reset_required"}  # by return code (nvml.h); else nvml_error
# After these (uninitialized, driver not loaded, GPU lost, reset required, version mismatch, unknown) NVML may stay
# broken until it is started anew: nvidia-container-toolkit#251.
BROKEN_CODES: Final = (1, 9, 15, 16, 18, 999)
UNKNOWN_ERROR: Final = 999
RETRY_FIRST_SECONDS: Final = 10.0
RETRY_LAST_SECONDS: Final = 300.0


def load_nvml() -> tuple[Any, str]:
    """(library, "") ready for use, or (None, why not): no package, no driver, no permission. Can block for seconds."""
    try:
        import pynvml  # noqa: PLC0415  only where GPUs are asked for
    except ImportError:
        return None, "the package nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, str(error)
    return pynvml, ""


async def in_own_thread(call: Callable[[], Answer]) -> Answer:
    """What `call` returns, from a daemon thread: one that never returns keeps neither loop nor exit waiting."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def settle(value: Answer | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]  # no error: it is the answer

    def work() -> None:
        value: Answer | None = None
        failure: Exception | None = None
        try:
            value = call()
        except Exception as error:  # noqa: BLE001  handed on to whoever waits
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=work, name="nvml", daemon=True).start()
    return await answer


@dataclass(slots=True)
class GpuReader:
    """Reads every GPU of the node. What a GPU does not support is remembered and not asked again.

    When NVML breaks, it is started anew after 10 s, then after twice as long each time, up to 5 minutes; until then
    every GPU that was known has an outcome that says so, and no numbers.
    """

    library: Any
    _unsupported: set[tuple[int, str]] = field(default_factory=set)
    _count: int = 0
    _pause_seconds: float = 0.0
    _retry_at_seconds: float = 0.0

    async def read(self, at_seconds: float) -> list[tuple[Reading, dict[str, Any]]]:
        """One (reading, recording body) per GPU, target `gpu-N`; a GPU that fails has an outcome that says so."""
        return await in_own_thread(lambda: self._read_all(at_seconds))

    def _read_all(self, at_seconds: float) -> list[tuple[Reading, dict[str, Any]]]:
        if self._pause_seconds and at_seconds >= self._retry_at_seconds:
            self._start_anew(at_seconds)
        try:
            self._count = self.library.nvmlDeviceGetCount()
        except self.library.NVMLError as error:
            self._note(error, at_seconds)
            targets = [f"gpu-{index}" for index in range(self._count)] or ["gpu"]
            return [(_failed(target, at_seconds, error), {}) for target in targets]
        found = [self._read_one(index, at_seconds) for index in range(self._count)]
        if all(reading.outcome == "ok" for reading, _ in found):
            self._pause_seconds = 0.0
        return found

    def _read_one(self, index: int, at_seconds: float) -> tuple[Reading, dict[str, Any]]:
        library, target = self.library, f"gpu-{index}"
        body: dict[str, Any] = {}
        trouble: dict[str, Exception] = {}
        try:
            calls = _calls(library, library.nvmlDeviceGetHandleByIndex(index))
        except library.NVMLError as error:
            self._note(error, at_seconds)
            return _failed(target, at_seconds, error), {}
        for name, call in calls.items():
            if (index, name) in self._unsupported:
                continue
            try:
                body.update(call())
            except library.NVMLError as error:
                if error.value in NOT_SUPPORTED_CODES:
                    self._unsupported.add((index, name))
                else:
                    trouble[name] = error
                    self._note(error, at_seconds)
        if trouble and not body:
            return _failed(target, at_seconds, next(iter(trouble.values()))), {}
        reading = gpu_reading(target, at_seconds, body)
        told = tuple(PageWarning("nvml_error", f"{name}: {error}") for name, error in trouble.items())
        return replace(reading, warnings=(*reading.warnings, *told)), body

    def _note(self, error: Any, at_seconds: float) -> None:
        """The first sign of a broken NVML sets the time of the first new start."""
        if error.value in BROKEN_CODES and not self._pause_seconds:
            self._pause_seconds = RETRY_FIRST_SECONDS
            self._retry_at_seconds = at_seconds + RETRY_FIRST_SECONDS

    def _start_anew(self, at_seconds: float) -> None:
        self._pause_seconds = min(2 * self._pause_seconds, RETRY_LAST_SECONDS)
        self._retry_at_seconds = at_seconds + self._pause_seconds
        with contextlib.suppress(self.library.NVMLError):
            self.library.nvmlShutdown()
        with contextlib.suppress(self.library.NVMLError):  # the calls that follow say what is wrong
            self.library.nvmlInit()


def _failed(target: str, at_seconds: float, error: Any) -> Reading:
    hint = "; in a container, start it again: its devices were taken away" if error.value == UNKNOWN_ERROR else ""
    outcome = OUTCOMES.get(error.value, "nvml_error")
    return Reading(target, "nvml", at_seconds, outcome=outcome, detail=f"{error}{hint}")


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
        if _is_known(body.get(key))
    )
    missing = [key for key in SIGNALS if key not in body]
    warnings = (PageWarning("not_supported", "this GPU does not give " + ", ".join(missing)),) if missing else ()
    return Reading(target, "nvml", at_seconds, samples=samples, warnings=warnings)


def _is_known(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
