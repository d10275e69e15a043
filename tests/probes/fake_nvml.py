# ruff: noqa: N802  the names are the library's
"""A stand-in for the module pynvml: the calls we make, with the answers of a real H200, and faults on demand."""

import threading
from collections import Counter
from types import SimpleNamespace


class NVMLError(Exception):
    """As pynvml's: `value` is the return code of nvml.h."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(f"NVML error {value}")


class FakeNvml:
    """`faults` maps a function, or (function, GPU), to the return code it fails with."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.faults: dict[object, int] = {}
        self.calls: Counter[str] = Counter()
        self.threads: set[int] = set()

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
