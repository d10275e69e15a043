"""GPUs of this node through NVML. The library is an argument; its calls block, so a thread of their own makes them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from probes.nvml_calls import gpu_calls, memory_calls
from probes.nvml_events import XidWatch
from probes.nvml_gpm import GpmMeter
from probes.nvml_reading import SIGNALS, gpu_reading
from probes.own_thread import in_own_thread
from probes.pod_of_process import HostProcesses
from probes.sample import PageWarning, Reading

__all__ = ["SIGNALS", "GpuReader", "gpu_reading", "load_nvml"]

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


@dataclass(slots=True)
class GpuReader:
    """Reads every GPU of the node. What a GPU does not support is remembered and not asked again.

    When NVML breaks, it is started anew after 10 s, then after twice as long each time, up to 5 minutes; until then
    every GPU that was known has an outcome that says so, and no numbers.
    """

    library: Any
    xids: XidWatch | None = None
    host: HostProcesses | None = None
    _unsupported: set[tuple[str, str]] = field(default_factory=set)
    _gpm: dict[tuple[int, ...], GpmMeter] = field(default_factory=dict)
    _told_xids: dict[int, int] = field(default_factory=dict)
    _count: int = 0
    _pause_seconds: float = 0.0
    _retry_at_seconds: float = 0.0

    async def read(self, at_seconds: float) -> list[tuple[Reading, dict[str, Any]]]:
        """One (reading, recording body) per GPU, target `gpu-N`, and per MIG instance, target `gpu-N-mig-M`.

        A GPU that fails has an outcome that says so.
        """
        return await in_own_thread(lambda: self._read_all(at_seconds))

    def close(self) -> None:
        """Nobody waits for XID errors any more; the library stays as it is."""
        if self.xids is not None:
            self.xids.stop()

    def _read_all(self, at_seconds: float) -> list[tuple[Reading, dict[str, Any]]]:
        if self._pause_seconds and at_seconds >= self._retry_at_seconds:
            self._start_anew(at_seconds)
        before = self._count
        try:
            self._count = self.library.nvmlDeviceGetCount()
        except self.library.NVMLError as error:
            self._note(error, at_seconds)
            targets = [f"gpu-{index}" for index in range(self._count)] or ["gpu"]
            return [(_failed(target, at_seconds, error), {}) for target in targets]
        if self.xids is not None and self._count != before:
            self.xids.start(self._count)
        found = [one for index in range(self._count) for one in self._read_gpu(index, at_seconds)]
        if all(reading.outcome == "ok" for reading, _ in found):
            self._pause_seconds = 0.0
        return found

    def _read_gpu(self, index: int, at_seconds: float) -> Iterator[tuple[Reading, dict[str, Any]]]:
        """The GPU, then its MIG instances."""
        library, target = self.library, f"gpu-{index}"
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            self._note(error, at_seconds)
            yield _failed(target, at_seconds, error), {}
            return
        calls = gpu_calls(library, handle)
        meter = self._gpm.setdefault((index,), GpmMeter(library))
        calls["gpm"] = lambda: meter.read(handle)
        reading, body = self._read_one(target, at_seconds, calls)
        yield self._with_xids(index, reading, body)
        for number, instance in self._instances(target, handle):
            calls = memory_calls(library, instance)
            calls["gpm"] = partial(self._gpm_of_instance, (index, number), handle, instance)
            yield self._read_one(f"{target}-mig-{number}", at_seconds, calls, is_whole=False)

    def _gpm_of_instance(self, place: tuple[int, int], handle: Any, instance: Any) -> dict[str, Any]:
        """An instance made anew in the same place has another meter: nothing compares the one with the other."""
        number = self.library.nvmlDeviceGetGpuInstanceId(instance)
        meter = self._gpm.get(place)
        if meter is None or meter.instance != number:
            meter = self._gpm[place] = GpmMeter(self.library, number)
        return meter.read(handle)

    def _read_one(
        self,
        target: str,
        at_seconds: float,
        calls: Mapping[str, Callable[[], Mapping[str, Any]]],
        *,
        is_whole: bool = True,
    ) -> tuple[Reading, dict[str, Any]]:
        body: dict[str, Any] = {}
        trouble: dict[str, Exception] = {}
        for name, call in calls.items():
            if (target, name) in self._unsupported:
                continue
            try:
                body.update(call())
            except self.library.NVMLError as error:
                if error.value in NOT_SUPPORTED_CODES:
                    self._unsupported.add((target, name))
                else:
                    trouble[name] = error
                    self._note(error, at_seconds)
        if self.host is not None:
            for process in body.get("processes", ()):
                process["pod"] = self.host.pod_uid(process["pid"])
        if trouble and not body:
            return _failed(target, at_seconds, next(iter(trouble.values()))), {}
        reading = gpu_reading(target, at_seconds, body, is_whole=is_whole)
        told = tuple(PageWarning("nvml_error", f"{name}: {error}") for name, error in trouble.items())
        return replace(reading, warnings=(*reading.warnings, *told)), body

    def _instances(self, target: str, handle: Any) -> Iterator[tuple[int, Any]]:
        """The GPU's MIG instances; none where it has no MIG, which is asked once."""
        library = self.library
        if (target, "mig") in self._unsupported:
            return
        try:
            is_on = library.nvmlDeviceGetMigMode(handle)[0] == 1
            count = library.nvmlDeviceGetMaxMigDeviceCount(handle) if is_on else 0
        except library.NVMLError:
            is_on, count = False, 0
        if not is_on:
            self._unsupported.add((target, "mig"))  # MIG is switched with the GPU idle and the driver's clients gone
        for number in range(count):
            with contextlib.suppress(library.NVMLError):  # NOT_FOUND: no instance in that place
                yield number, library.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)

    def _with_xids(self, index: int, reading: Reading, body: dict[str, Any]) -> tuple[Reading, dict[str, Any]]:
        """The XID errors counted so far; those since the reading before are told as a warning, once."""
        counts = self.xids.counts(index) if self.xids is not None else None
        if counts is None or reading.outcome != "ok":
            return reading, body
        body = body | {"xids": {str(code): count for code, count in sorted(counts.items())}}
        told = reading.warnings
        if counts.total() > self._told_xids.get(index, 0):
            self._told_xids[index] = counts.total()
            words = ", ".join(f"XID {code} ({count} so far)" for code, count in sorted(counts.items()))
            told = (*told, PageWarning("xid", f"the driver told of an error: {words}"))
        fresh = gpu_reading(reading.target, reading.at_seconds, body)
        return replace(fresh, warnings=told), body

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
        self._gpm.clear()  # samples of a library that has ended
        with contextlib.suppress(self.library.NVMLError):  # the calls that follow say what is wrong
            self.library.nvmlInit()
            self._count = 0  # and with it XID errors are waited for anew


def _failed(target: str, at_seconds: float, error: Any) -> Reading:
    hint = "; in a container, start it again: its devices were taken away" if error.value == UNKNOWN_ERROR else ""
    outcome = OUTCOMES.get(error.value, "nvml_error")
    return Reading(target, "nvml", at_seconds, outcome=outcome, detail=f"{error}{hint}")
