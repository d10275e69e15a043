"""Whose processes hold a GPU's memory, joined with the pods that discovery knows; what is not known stays unknown."""

from agent.config import Config
from agent.gpu_pods import GpuPods, PodOnGpu, gpu_pods
from agent.plan import Plan
from agent.planning import all_targets, make_plan
from agent.windows import Windows
from probes.discovery.file import Found
from probes.nvml_reading import gpu_reading
from probes.sample import Reading

LABELS = {"name": "decode-0", "pod": "decode-0", "namespace": "serving", "pod_uid": "uid-a"}
BODY = {
    "used": 1000,
    "processes": [
        {"pid": 1, "used": 300, "pod": "uid-a"},
        {"pid": 2, "used": 200, "pod": "uid-a"},
        {"pid": 3, "used": None, "pod": "uid-b"},
        {"pid": 4, "used": 50, "pod": None},
    ],
}


def plan() -> Plan:
    config = Config.model_validate({})
    return make_plan(config, all_targets(config, [Found("10.0.0.7:8000", LABELS)]))


def after(*readings: Reading) -> tuple[GpuPods, ...]:
    windows = Windows()
    for reading in readings:
        windows.take(reading)
    return gpu_pods(windows, plan().targets)


def test_a_pod_has_the_name_that_discovery_knows() -> None:
    known = PodOnGpu("uid-a", "decode-0", "serving", "decode-0", 2, 500.0)
    unknown = PodOnGpu("uid-b", "", "", "", 1, None)
    assert after(gpu_reading("gpu-0", 10.0, BODY)) == (GpuPods("gpu-0", 10.0, 1000.0, 4, 1, (known, unknown)),)


def test_a_gpu_that_does_not_tell_its_processes_is_unknown_and_not_idle() -> None:
    assert after(gpu_reading("gpu-0", 10.0, {"used": 7})) == (GpuPods("gpu-0", 10.0, 7.0, None, None, ()),)
    assert after(gpu_reading("gpu-0", 10.0, {"processes": []})) == (GpuPods("gpu-0", 10.0, None, 0, 0, ()),)


def test_a_pod_that_is_gone_is_not_shown_nor_is_a_gpu_that_is_lost() -> None:
    seen, idle = gpu_reading("gpu-0", 10.0, BODY), gpu_reading("gpu-0", 20.0, {"processes": []})
    assert after(seen, idle)[0].pods == ()
    assert after(seen, Reading("gpu-0", "nvml", 20.0, "gpu_lost", "it fell off the bus")) == ()
    assert after() == ()
