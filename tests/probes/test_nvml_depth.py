"""NVML beyond the basics: GPM, XID errors, NVLink, MIG. The fakes are built from documented return codes; what a whole
H200 answers was seen on one (GPM, events, fields), MIG and XID errors were not.
"""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from fake_nvml import FakeNvml

from probes.nvml import GpuReader, gpu_reading
from probes.nvml_events import XidWatch
from probes.sample import Reading

MEMORY = {"gpu_memory_used_bytes": 1_704_853_504, "gpu_memory_total_bytes": 150_754_820_096}
NOT_SUPPORTED, NO_PERMISSION, GPU_LOST, UNKNOWN = 3, 4, 15, 999


def values(reading: Reading) -> dict[str, float]:
    return {s.signal + (f"/{s.label}" if s.label else ""): s.value for s in reading.samples}


def by_target(found: list[tuple[Reading, dict[str, object]]]) -> dict[str, Reading]:
    return {reading.target: reading for reading, _ in found}


async def until(is_so: Callable[[], bool]) -> None:
    """Within two seconds, or the test fails."""
    ends_at = time.monotonic() + 2
    while not is_so():
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.005)


async def test_gpm_compares_with_the_reading_before() -> None:
    """The first has nothing to compare with; the fake's values are the metrics' numbers: 2 % is 0.02, 20 MiB/s."""
    reader = GpuReader(FakeNvml())
    first, second, third = [values(r) for _ in range(3) for r, _ in await reader.read(1.0)]
    assert "gpu_sm_activity_ratio" not in first
    assert second["gpu_sm_activity_ratio"] == pytest.approx(0.02)
    assert second["gpu_tensor_activity_ratio"] == pytest.approx(0.05)
    assert second["gpu_dram_activity_ratio"] == pytest.approx(0.10)
    assert second["gpu_pcie_sent_bytes_per_second"] == 20 * 1024 * 1024
    assert second["gpu_pcie_received_bytes_per_second"] == 21 * 1024 * 1024
    assert third == second


async def test_a_metric_without_a_value_is_left_out_and_the_others_stay() -> None:
    library = FakeNvml()
    library.faults["metric", 20] = NOT_SUPPORTED
    reader = GpuReader(library)
    await reader.read(1.0)
    ((reading, _),) = await reader.read(2.0)
    assert "gpu_pcie_sent_bytes_per_second" not in values(reading)
    assert "gpu_pcie_received_bytes_per_second" in values(reading)


@pytest.mark.parametrize("call", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet"])
async def test_a_gpu_before_hopper_has_no_gpm_and_is_not_asked_again(call: str) -> None:
    library = FakeNvml()
    library.faults[call] = NOT_SUPPORTED
    reader = GpuReader(library)
    for _ in range(3):
        ((reading, _),) = await reader.read(1.0)
        assert "gpu_sm_activity_ratio" not in values(reading)
        assert reading.warnings == ()
    assert library.calls[call] == 1


async def test_samples_of_a_library_that_ended_are_not_used() -> None:
    """Started anew, the first reading compares with nothing again."""
    library = FakeNvml()
    reader = GpuReader(library)
    for at in (0, 1):
        await reader.read(at)
    library.faults["nvmlDeviceGetCount"] = UNKNOWN
    await reader.read(2)
    library.faults.clear()
    ((reading, _),) = await reader.read(60)
    assert "gpu_sm_activity_ratio" not in values(reading)
    assert library.calls["nvmlGpmSampleAlloc"] == 4


@pytest.mark.parametrize(
    ("field", "lost"),
    [
        (138, "gpu_nvlink_sent_bytes_total"),
        (139, "gpu_nvlink_received_bytes_total"),
        (74, "gpu_power_limited_seconds_total"),
    ],
)
async def test_a_field_has_a_return_code_of_its_own(field: int, lost: str) -> None:
    """No NVLink (an H200 alone in its machine): absent, never 0 bytes, and not asked again."""
    library = FakeNvml()
    library.faults["field", field] = NOT_SUPPORTED
    reader = GpuReader(library)
    for _ in range(3):
        ((reading, _),) = await reader.read(1.0)
        assert lost not in values(reading)
        assert reading.outcome == "ok"
    assert library.calls["nvmlDeviceGetFieldValues"] == 1 + 3


@pytest.mark.parametrize(
    ("reasons", "limits"),
    [
        (0x0, []),
        (0x1 | 0x2 | 0x10 | 0x100, []),
        (0x4, ["power_cap"]),
        (0x8 | 0x40, ["hw_slowdown", "thermal_hardware"]),
        (0x20 | 0x80, ["thermal_software", "power_brake"]),
    ],
)
def test_only_reasons_that_slow_a_gpu_down_are_limits(reasons: int, limits: list[str]) -> None:
    """Idle, application clocks, sync boost and display (0x1, 0x2, 0x10, 0x100) are no trouble."""
    found = values(gpu_reading("gpu-0", 1.0, {"clock_reasons": reasons}))
    assert [name.partition("/")[2] for name, value in found.items() if value == 1] == limits
    assert len(found) == 5


async def test_an_xid_error_is_counted_once_by_code_and_told_once() -> None:
    """An edge: told with the reading after it; the count stays, so that nothing is lost between two readings."""
    library = FakeNvml(count=2)
    watch = XidWatch(library)
    reader = GpuReader(library, watch)
    before = by_target(await reader.read(1.0))
    assert values(before["gpu-0"])["gpu_xid_errors_total"] == 0
    for code in (79, 31, 79):
        library.events.put(SimpleNamespace(device=1, eventType=8, eventData=code))
    await until(lambda: (watch.counts(1) or {}).get(79) == 2)
    after, later = by_target(await reader.read(2.0)), by_target(await reader.read(3.0))
    watch.stop()
    assert values(after["gpu-1"])["gpu_xid_errors_total/79"] == 2
    assert values(after["gpu-1"])["gpu_xid_errors_total/31"] == 1
    assert values(after["gpu-0"])["gpu_xid_errors_total"] == 0
    assert [w.message for w in after["gpu-1"].warnings] == [
        "the driver told of an error: XID 31 (1 so far), XID 79 (2 so far)"
    ]
    assert values(later["gpu-1"])["gpu_xid_errors_total/79"] == 2
    assert later["gpu-1"].warnings == ()


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
async def test_where_events_cannot_be_had_xid_errors_are_unknown_not_none(code: int) -> None:
    """vGPU guests, and containers that may not register."""
    library = FakeNvml()
    library.faults["nvmlDeviceRegisterEvents"] = code
    watch = XidWatch(library)
    ((reading, body),) = await GpuReader(library, watch).read(1.0)
    assert not {name for name in values(reading) if "xid" in name}
    assert "xids" not in body
    assert "XID errors are not seen" in watch.trouble


async def test_a_wait_that_breaks_makes_xid_errors_unknown_until_the_library_is_started_anew() -> None:
    library = FakeNvml()
    watch = XidWatch(library)
    reader = GpuReader(library, watch)
    await reader.read(0.0)
    library.events.put(GPU_LOST)
    await until(lambda: bool(watch.trouble))
    assert watch.counts(0) is None
    library.faults["nvmlDeviceGetCount"] = UNKNOWN
    await reader.read(1.0)
    library.faults.clear()
    await reader.read(60.0)
    assert (watch.trouble, watch.counts(0)) == ("", {})
    watch.stop()


async def test_the_watch_ends_and_frees_what_it_had() -> None:
    library = FakeNvml()
    watch = XidWatch(library)
    watch.start(1)
    await until(lambda: library.calls["nvmlEventSetWait_v2"] > 0)
    watch.stop()
    await until(lambda: library.calls["nvmlEventSetFree"] == 1)


async def test_every_mig_instance_is_a_target_with_its_memory_and_processes() -> None:
    """Places 0 and 2 of seven hold an instance; what only the whole GPU gives stays with the GPU."""
    library = FakeNvml(count=2)
    library.mig[1] = [0, 2]
    library.faults["nvmlDeviceGetUtilizationRates", 1] = NOT_SUPPORTED
    found = by_target(await GpuReader(library).read(1.0))
    assert list(found) == ["gpu-0", "gpu-1", "gpu-1-mig-0", "gpu-1-mig-2"]
    assert values(found["gpu-1-mig-2"]) == MEMORY | {"gpu_processes": 1}
    assert found["gpu-1-mig-2"].warnings == ()
    assert "gpu_power_watts" in values(found["gpu-1"])


async def test_a_mig_instance_has_gpm_of_its_own() -> None:
    """From the second reading on; in one made anew in the same place not before the second reading of that."""
    library = FakeNvml()
    library.mig[0] = [0, 1]
    reader = GpuReader(library)
    shown = [values(by_target(await reader.read(at))["gpu-0-mig-1"]).get("gpu_sm_activity_ratio") for at in (1.0, 2.0)]
    library.gpu_instances[0, 1] = 77
    shown += [values(by_target(await reader.read(at))["gpu-0-mig-1"]).get("gpu_sm_activity_ratio") for at in (3.0, 4.0)]
    assert shown == [None, 0.02, None, 0.02]
    assert library.calls["nvmlGpmMigSampleGet"] == 8


async def test_a_mig_instance_without_gpm_keeps_its_memory_and_is_not_asked_again() -> None:
    library = FakeNvml()
    library.mig[0] = [0]
    library.faults["nvmlGpmMigSampleGet"] = NOT_SUPPORTED
    reader = GpuReader(library)
    for at in (1.0, 2.0):
        instance = by_target(await reader.read(at))["gpu-0-mig-0"]
        assert values(instance) == MEMORY | {"gpu_processes": 1}
    assert library.calls["nvmlGpmMigSampleGet"] == 1


async def test_whether_there_is_mig_is_asked_once_where_there_is_none() -> None:
    library = FakeNvml()
    reader = GpuReader(library)
    for _ in range(3):
        await reader.read(1.0)
    assert library.calls["nvmlDeviceGetMigMode"] == 1


def test_a_body_recorded_by_an_older_version_gives_what_it_has() -> None:
    body = {"gpu": 99, "mem": 22, "power_mw": 1, "energy_mj": 1, "sm_mhz": 1, "temp": 61, "used": 1}
    reading = gpu_reading("gpu-0", 1.0, body)
    assert len(reading.samples) == 7
    assert reading.warnings == ()
