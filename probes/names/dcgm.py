"""NVIDIA's DCGM exporter: our signals and its metric names; the same signals as NVML's, for where NVML cannot be read.

Source: the exporter's documented default fields (etc/default-counters.csv, etc/dcp-metrics-included.csv). **Not
verified against a live exporter.**
"""

from probes.names.table import Name

GPU_LABEL = "gpu"
MIG_LABEL = "GPU_I_ID"  # which MIG instance of the GPU
ACTIVITY = "Stays away, or 0, under MIG: there gpu_graphics_activity_ratio tells."

NAMES = (
    Name(
        "gpu_utilization_ratio",
        "gauge",
        ("DCGM_FI_DEV_GPU_UTIL",),
        "ratio",
        "Time with a kernel on it.",
        ACTIVITY,
        scale=0.01,
    ),
    Name(
        "gpu_memory_activity_ratio",
        "gauge",
        ("DCGM_FI_DEV_MEM_COPY_UTIL",),
        "ratio",
        "Time its memory was used.",
        scale=0.01,
    ),
    Name("gpu_memory_used_bytes", "gauge", ("DCGM_FI_DEV_FB_USED",), "bytes", "Memory in use.", scale=1_048_576.0),
    Name("gpu_power_watts", "gauge", ("DCGM_FI_DEV_POWER_USAGE",), "watts", "Power."),
    Name(
        "gpu_energy_joules_total",
        "counter",
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",),
        "joules",
        "Energy.",
        "Millijoules on the page, joules here.",
        scale=0.001,
    ),
    Name("gpu_temperature_celsius", "gauge", ("DCGM_FI_DEV_GPU_TEMP",), "celsius", "Temperature."),
    Name("gpu_sm_clock_hertz", "gauge", ("DCGM_FI_DEV_SM_CLOCK",), "hertz", "SM clock.", scale=1e6),
    Name(
        "gpu_last_xid_state",
        "gauge",
        ("DCGM_FI_DEV_XID_ERRORS",),
        "code",
        "Code of the last XID error, by GPU.",
        "A gauge of the last one: says neither when nor how many.",
        label=GPU_LABEL,
    ),
    Name(
        "gpu_remapped_uncorrected_rows",
        "gauge",
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",),
        "rows",
        "Rows remapped for uncorrectable errors.",
    ),
    Name(
        "gpu_remapped_corrected_rows",
        "gauge",
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",),
        "rows",
        "Rows remapped for correctable errors.",
    ),
    Name("gpu_row_remap_failed_state", "gauge", ("DCGM_FI_DEV_ROW_REMAP_FAILURE",), "state", "1: a remapping failed."),
    Name(
        "gpu_graphics_activity_ratio",
        "gauge",
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE",),
        "ratio",
        "Time its engines were busy; also of a MIG instance.",
    ),
    Name(
        "gpu_sm_activity_ratio",
        "gauge",
        ("DCGM_FI_PROF_SM_ACTIVE",),
        "ratio",
        "Time its SMs were busy.",
        "Off by default.",
    ),
    Name(
        "gpu_tensor_activity_ratio",
        "gauge",
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",),
        "ratio",
        "Time its tensor cores were busy.",
    ),
    Name("gpu_dram_activity_ratio", "gauge", ("DCGM_FI_PROF_DRAM_ACTIVE",), "ratio", "Time its memory was busy."),
    Name(
        "gpu_pcie_sent_bytes_per_second",
        "gauge",
        ("DCGM_FI_PROF_PCIE_TX_BYTES",),
        "bytes",
        "PCIe sent.",
        "A rate, whatever its type on the page says.",
    ),
    Name(
        "gpu_pcie_received_bytes_per_second",
        "gauge",
        ("DCGM_FI_PROF_PCIE_RX_BYTES",),
        "bytes",
        "PCIe received.",
        "A rate, whatever its type on the page says.",
    ),
)
