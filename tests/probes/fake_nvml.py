# ruff: noqa: N802  the names are the library's
"""A stand-in for the module pynvml: the calls we make, with the answers of a real H200, and faults on demand."""

import queue
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """As pynvml's: `value` is the return code of nvml.h."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(f"NVML error {value}")


class MetricsGet:
    """As the library's structure: places for metrics, each with a return code of its own."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1: Any = None
        self.sample2: Any = None
        self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(98)]


class FakeNvml:
    """`faults` maps a function, or (function, GPU), to the return code it fails with."""

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1
    c_nvmlGpmMetricsGet_t = MetricsGet  # noqa: N815  as the library calls it
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.faults: dict[object, int] = {}
        self.calls: Counter[str] = Counter()
        self.threads: set[int] = set()
        self.events: queue.Queue[Any] = queue.Queue()  # what the driver tells next: events, or return codes
        self.mig: dict[int, list[int]] = {}  # by GPU, the places that hold an instance; a GPU that is no key has no MIG
        self.gpu_instances: dict[tuple[int, int], int] = {}  # ids by GPU and place
        self.samples = 0

    def _call(self, name: str, gpu: object = None) -> None:
        self.calls[name] += 1
        self.threads.add(threading.get_ident())
        for key in (name, (name, gpu)):
            if key in self.faults:
                raise NVMLError(self.faults[key])

    def nvmlInit(self) -> None:
        self._call("nvmlInit")

    def nvmlShutdown(self) -> None:
        self._call("nvmlShutdown")

    def nvmlDeviceGetCount(self) -> int:
        self._call("nvmlDeviceGetCount")
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._call("nvmlDeviceGetHandleByIndex", index)
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        self._call("nvmlDeviceGetUtilizationRates", handle)
        return SimpleNamespace(gpu=99, memory=22)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        self._call("nvmlDeviceGetMemoryInfo", handle)
        return SimpleNamespace(total=150_754_820_096, free=149_049_966_592, used=1_704_853_504)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._call("nvmlDeviceGetPowerUsage", handle)
        return 689_523

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        self._call("nvmlDeviceGetTotalEnergyConsumption", handle)
        return 6_082_340

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        self._call("nvmlDeviceGetTemperature", handle)
        return 61

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        self._call("nvmlDeviceGetClockInfo", handle)
        return 1500

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        self._call("nvmlDeviceGetCurrentClocksEventReasons", handle)
        return 0x04

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        self._call("nvmlDeviceGetTotalEccErrors", handle)
        return (7, 0)[kind]

    def nvmlDeviceGetRemappedRows(self, handle: int) -> tuple[int, int, int, int]:
        self._call("nvmlDeviceGetRemappedRows", handle)
        return (2, 1, 1, 0)

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: object) -> list[SimpleNamespace]:
        self._call("nvmlDeviceGetComputeRunningProcesses_v3", handle)
        return [SimpleNamespace(pid=438, usedGpuMemory=1_050_673_152)]

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[Any]) -> list[SimpleNamespace]:
        """Fields 74 and 75 in nanoseconds, 138 and 139 in KiB; a fault names ("field", id)."""
        self._call("nvmlDeviceGetFieldValues", handle)
        ids = [one[0] if isinstance(one, tuple) else one for one in fields]
        values = {74: 4_870_914_112, 75: 0, 138: 1_000, 139: 2_000}
        return [
            SimpleNamespace(
                nvmlReturn=self.faults.get(("field", one), 0), valueType=3, value=SimpleNamespace(ullVal=values[one])
            )
            for one in ids
        ]

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> SimpleNamespace:
        self._call("nvmlGpmQueryDeviceSupport", handle)
        return SimpleNamespace(isSupportedDevice=1)

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        self._call("nvmlGpmSampleAlloc")
        return SimpleNamespace(number=0)

    def nvmlGpmSampleGet(self, handle: int, sample: SimpleNamespace) -> SimpleNamespace:
        self._call("nvmlGpmSampleGet", handle)
        self.samples += 1
        sample.number = self.samples
        return sample

    def nvmlGpmMigSampleGet(self, handle: int, instance: int, sample: SimpleNamespace) -> SimpleNamespace:
        """By the whole GPU's handle and the id of one of its GPU instances."""
        self._call("nvmlGpmMigSampleGet", handle)
        assert instance in self.gpu_instances.values()
        self.samples += 1
        sample.number, sample.instance = self.samples, instance
        return sample

    def nvmlDeviceGetGpuInstanceId(self, instance: tuple[int, int]) -> int:
        self._call("nvmlDeviceGetGpuInstanceId", instance)
        return self.gpu_instances.setdefault(instance, 10 + instance[1])

    def nvmlGpmMetricsGet(self, asked: MetricsGet) -> MetricsGet:
        """Each metric's value is its number; which samples it compares must be the last and the one before."""
        self._call("nvmlGpmMetricsGet")
        assert asked.sample1.number < asked.sample2.number
        assert getattr(asked.sample1, "instance", None) == getattr(asked.sample2, "instance", None)
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = float(metric.metricId)
            metric.nvmlReturn = self.faults.get(("metric", metric.metricId), 0)
        return asked

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        self._call("nvmlDeviceGetMigMode", handle)
        return [1, 1] if handle in self.mig else [0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        self._call("nvmlDeviceGetMaxMigDeviceCount", handle)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, place: int) -> tuple[int, int]:
        self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle)
        if place not in self.mig[handle]:
            raise NVMLError(6)  # NVML_ERROR_NOT_FOUND
        return (handle, place)

    def nvmlEventSetCreate(self) -> str:
        self._call("nvmlEventSetCreate")
        return "events"

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str) -> None:
        self._call("nvmlDeviceRegisterEvents", handle)

    def nvmlEventSetWait_v2(self, events: str, milliseconds: int) -> Any:
        """The next event within at most 20 ms, else NVML_ERROR_TIMEOUT."""
        self._call("nvmlEventSetWait_v2")
        try:
            event = self.events.get(timeout=0.02)
        except queue.Empty:
            raise NVMLError(10) from None
        if isinstance(event, int):
            raise NVMLError(event)
        return event

    def nvmlEventSetFree(self, events: str) -> None:
        self._call("nvmlEventSetFree")

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        self._call("nvmlDeviceGetIndex", handle)
        return handle
