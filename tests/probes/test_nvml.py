"""GPU readings: what is not supported, lost or broken is unknown and told; never 0, never on the event loop."""

import asyncio
import inspect
import threading

import pynvml
import pytest
from fake_nvml import FakeNvml, NVMLError

from probes.nvml import RETRY_FIRST_SECONDS, RETRY_LAST_SECONDS, GpuReader, gpu_reading
from probes.own_thread import in_own_thread
from probes.sample import Reading

NOT_SUPPORTED, NO_PERMISSION, GPU_LOST, RESET_REQUIRED, UNKNOWN = 3, 4, 15, 16, 999


async def readings(reader: GpuReader, at_seconds: float = 100.0) -> list[Reading]:
    return [reading for reading, _ in await reader.read(at_seconds)]


def values(reading: Reading) -> dict[str, float]:
    return {s.signal + (f"/{s.label}" if s.label else ""): s.value for s in reading.samples}


def test_the_fake_has_the_real_librarys_functions() -> None:
    """Names, and as many arguments as we give; the constants too."""
    for name, function in inspect.getmembers(FakeNvml, inspect.isfunction):
        if name.startswith("nvml"):
            ours = len(inspect.signature(function).parameters) - 1  # less self
            inspect.signature(getattr(pynvml, name)).bind(*range(ours))
    assert (pynvml.NVML_TEMPERATURE_GPU, pynvml.NVML_CLOCK_SM) == (0, 1)
    assert {n: getattr(pynvml, n) for n in dir(pynvml) if n in CODES} == CODES
    assert pynvml.NVMLError(UNKNOWN).value == NVMLError(UNKNOWN).value


CODES = {
    "NVML_ERROR_UNINITIALIZED": 1,
    "NVML_ERROR_NOT_SUPPORTED": NOT_SUPPORTED,
    "NVML_ERROR_NO_PERMISSION": NO_PERMISSION,
    "NVML_ERROR_DRIVER_NOT_LOADED": 9,
    "NVML_ERROR_FUNCTION_NOT_FOUND": 13,
    "NVML_ERROR_GPU_IS_LOST": GPU_LOST,
    "NVML_ERROR_RESET_REQUIRED": RESET_REQUIRED,
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": 18,
    "NVML_ERROR_UNKNOWN": UNKNOWN,
}


async def test_reads_an_h200_in_our_units() -> None:
    (reading,) = await readings(GpuReader(FakeNvml()))
    assert values(reading) == pytest.approx(
        {
            "gpu_utilization_ratio": 0.99,
            "gpu_memory_activity_ratio": 0.22,
            "gpu_memory_used_bytes": 1_704_853_504,
            "gpu_memory_total_bytes": 150_754_820_096,
            "gpu_power_watts": 689.523,
            "gpu_energy_joules_total": 6_082.34,
            "gpu_temperature_celsius": 61,
            "gpu_sm_clock_hertz": 1.5e9,
            "gpu_power_limited_seconds_total": 4.870914112,
            "gpu_thermal_limited_seconds_total": 0,
            "gpu_ecc_corrected_errors_total": 7,
            "gpu_ecc_uncorrected_errors_total": 0,
            "gpu_remapped_corrected_rows": 2,
            "gpu_remapped_uncorrected_rows": 1,
            "gpu_row_remap_pending_state": 1,
            "gpu_row_remap_failed_state": 0,
            "gpu_nvlink_sent_bytes_total": 1_024_000,
            "gpu_nvlink_received_bytes_total": 2_048_000,
            "gpu_processes": 1,
            "gpu_clock_limit_state/power_cap": 1,
            "gpu_clock_limit_state/hw_slowdown": 0,
            "gpu_clock_limit_state/thermal_software": 0,
            "gpu_clock_limit_state/thermal_hardware": 0,
            "gpu_clock_limit_state/power_brake": 0,
        }
    )
    assert (reading.target, reading.outcome, reading.warnings) == ("gpu-0", "ok", ())


async def test_a_recorded_body_reads_the_same() -> None:
    ((reading, body),) = await GpuReader(FakeNvml()).read(100.0)
    assert gpu_reading("gpu-0", 100.0, {**body, "a key of a later version": 1}) == reading


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, None, "99", True])
def test_what_is_no_number_is_unknown(value: object) -> None:
    reading = gpu_reading("gpu-0", 1.0, {"gpu": value, "temp": 61})
    assert values(reading) == {"gpu_temperature_celsius": 61}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, 13])
async def test_what_is_not_supported_is_absent_told_and_not_asked_again(code: int) -> None:
    """Utilisation on a GPU with MIG: an absent series, not an idle GPU."""
    library = FakeNvml(count=2)
    library.faults["nvmlDeviceGetUtilizationRates", 0] = code
    reader = GpuReader(library)
    for _ in range(3):
        first, second = await readings(reader)
        assert "gpu_utilization_ratio" not in values(first)
        assert values(first)["gpu_temperature_celsius"] == 61
        assert [w.code for w in first.warnings] == ["not_supported"]
        assert values(second)["gpu_utilization_ratio"] == 0.99
    assert library.calls["nvmlDeviceGetUtilizationRates"] == 1 + 3


@pytest.mark.parametrize(
    ("code", "outcome"), [(GPU_LOST, "gpu_lost"), (RESET_REQUIRED, "reset_required"), (NO_PERMISSION, "no_permission")]
)
async def test_a_lost_gpu_has_an_outcome_and_the_others_their_numbers(code: int, outcome: str) -> None:
    library = FakeNvml(count=2)
    library.faults["nvmlDeviceGetHandleByIndex", 1] = code
    first, second = await readings(GpuReader(library))
    assert first.outcome == "ok"
    assert (second.target, second.outcome, second.samples) == ("gpu-1", outcome, ())


async def test_one_failing_call_costs_its_figure_only_and_is_told() -> None:
    library = FakeNvml()
    library.faults["nvmlDeviceGetPowerUsage"] = UNKNOWN
    (reading,) = await readings(GpuReader(library))
    assert reading.outcome == "ok"
    assert "gpu_power_watts" not in values(reading)
    assert "nvml_error" in [w.code for w in reading.warnings]


async def test_unknown_error_makes_every_known_gpu_unknown_with_a_hint() -> None:
    """nvidia-container-toolkit#251: all calls fail after a daemon reload. Absent, not the last value and not 0."""
    library = FakeNvml(count=2)
    reader = GpuReader(library)
    assert [r.outcome for r in await readings(reader, 100)] == ["ok", "ok"]
    library.faults["nvmlDeviceGetCount"] = UNKNOWN
    found = await readings(reader, 110)
    assert [(r.target, r.outcome, r.samples) for r in found] == [
        ("gpu-0", "nvml_error", ()),
        ("gpu-1", "nvml_error", ()),
    ]
    assert "container" in found[0].detail


async def test_a_broken_library_is_started_anew_with_growing_pauses_and_heals() -> None:
    """Broken at 0: starts at 10, 30, 70, 150, 310, then every 300 s; healed, the pauses begin at 10 again."""
    library = FakeNvml()
    reader = GpuReader(library)
    library.faults["nvmlDeviceGetCount"] = UNKNOWN
    started_at = []
    for second in range(0, 1000, 5):
        before = library.calls["nvmlInit"]
        await readings(reader, second)
        if library.calls["nvmlInit"] > before:
            started_at.append(second)
    assert started_at == [10, 30, 70, 150, 310, 610, 910]
    assert library.calls["nvmlShutdown"] == len(started_at)
    library.faults.clear()
    assert [r.outcome for r in await readings(reader, 1000)] == ["ok"]
    library.faults["nvmlDeviceGetCount"] = UNKNOWN
    for second in (1100, 1105, 1110):
        await readings(reader, second)
    assert library.calls["nvmlInit"] == len(started_at) + 1
    assert (RETRY_FIRST_SECONDS, RETRY_LAST_SECONDS) == (10, 300)


async def test_a_start_that_fails_too_is_an_outcome() -> None:
    library = FakeNvml()
    library.faults |= {"nvmlDeviceGetCount": UNKNOWN, "nvmlInit": UNKNOWN, "nvmlShutdown": 1}
    reader = GpuReader(library)
    assert [[r.outcome for r in await readings(reader, at)] for at in (0, 10, 30)] == [["nvml_error"]] * 3


async def test_no_call_is_made_on_the_event_loop() -> None:
    library = FakeNvml()
    await readings(GpuReader(library))
    assert threading.get_ident() not in library.threads


async def test_a_call_that_never_returns_keeps_nobody() -> None:
    """A GPU that fell off the bus can hang a call for ever: the loop goes on, and giving up is at once."""
    stuck = threading.Event()
    waiting = asyncio.create_task(in_own_thread(stuck.wait))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "nvml")
    stuck.set()


async def test_an_error_in_the_thread_reaches_who_waits() -> None:
    def fails() -> None:
        raise OSError("no such device")

    with pytest.raises(OSError, match="no such device"):
        await in_own_thread(fails)
