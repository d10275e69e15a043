"""NVML's GPM: what the streaming multiprocessors, the tensor cores, the memory and PCIe did between two readings.

On Hopper and later, also where MIG leaves no utilisation. Two samples are kept a GPU, and a MIG instance, and filled in
turn. Of a MIG instance NVML measures its GPU instance (nvmlGpmMigSampleGet, from NVML's documents, unverified): compute
instances that share one show the same.
"""

from dataclasses import dataclass, field
from typing import Any, Final

NOT_SUPPORTED: Final = 3  # NVML_ERROR_NOT_SUPPORTED (nvml.h)
# recording key -> metric (NVML_GPM_METRIC_*): percent, and MiB/s for PCIe
METRICS: Final = {"sm_active": 2, "tensor_active": 5, "dram_active": 10, "pcie_tx_mibs": 20, "pcie_rx_mibs": 21}


@dataclass(slots=True)
class GpmMeter:
    """The two samples of one GPU, or of one GPU instance of it (MIG).

    The first reading has nothing to compare with and gives nothing.
    """

    library: Any
    instance: int | None = None  # id of the GPU instance
    _samples: list[Any] = field(default_factory=list)
    _has_before: bool = False

    def read(self, handle: Any) -> dict[str, Any]:
        """Metrics since the reading before, by the handle of the whole GPU; one without a value is left out.

        Raises NVMLError.
        """
        library = self.library
        if not self._samples:
            if not library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                raise library.NVMLError(NOT_SUPPORTED)
            self._samples = [library.nvmlGpmSampleAlloc(), library.nvmlGpmSampleAlloc()]
        before, now = self._samples
        if self.instance is None:
            library.nvmlGpmSampleGet(handle, now)
        else:
            library.nvmlGpmMigSampleGet(handle, self.instance, now)
        self._samples.reverse()  # what is now is before at the next reading
        if not self._has_before:
            self._has_before = True
            return {}
        asked = library.c_nvmlGpmMetricsGet_t()
        asked.version = library.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(METRICS)
        asked.sample1, asked.sample2 = before, now
        for place, metric in enumerate(METRICS.values()):
            asked.metrics[place].metricId = metric
        library.nvmlGpmMetricsGet(asked)
        return {
            key: asked.metrics[place].value for place, key in enumerate(METRICS) if asked.metrics[place].nvmlReturn == 0
        }
