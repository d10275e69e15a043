"""From a process to its pod: the control groups of cgroups(7) as kubelet's two drivers name them."""

from pathlib import Path

import pytest
from fake_nvml import FakeNvml

from probes.nvml import GpuReader, gpu_reading
from probes.pod_of_process import HostProcesses, pod_uid_in

UID = "74c13223-5a00-11e9-b385-42010a80018d"
UNDERSCORED = UID.replace("-", "_")
CONTAINER = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376"
HASH = "d1f3a5b7c9e0f2a4b6c8d0e2f4a6b8ca"
V1 = ("memory", "pids", "cpu,cpuacct", "name=systemd")


def version_one(path: str) -> str:
    return "".join(f"{12 - n}:{controllers}:{path}\n" for n, controllers in enumerate(V1))


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        pytest.param(version_one(f"/kubepods/burstable/pod{UID}/{CONTAINER}"), UID, id="v1 cgroupfs burstable"),
        pytest.param(version_one(f"/kubepods/pod{UID}/{CONTAINER}"), UID, id="v1 cgroupfs guaranteed"),
        pytest.param(
            version_one(
                f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice/"
                f"docker-{CONTAINER}.scope"
            ),
            UID,
            id="v1 systemd",
        ),
        pytest.param(f"0::/kubepods/besteffort/pod{UID}/{CONTAINER}\n", UID, id="v2 cgroupfs"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope\n",
            UID,
            id="v2 systemd guaranteed, containerd",
        ),
        pytest.param(
            "0::/kubepods.slice/kubepods-burstable.slice/"
            f"kubepods-burstable-pod{UNDERSCORED}.slice/crio-{CONTAINER}.scope/container\n",
            UID,
            id="v2 systemd, CRI-O, a group below",
        ),
        pytest.param(f"0::/../../pod{UID}/{CONTAINER}\n", UID, id="seen from a container, cgroupfs"),
        pytest.param(
            f"0::/../../kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope\n",
            UID,
            id="seen from a container, systemd",
        ),
        pytest.param(
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/x.scope\n",
            UID,
            id="under a root of kubelet's own",
        ),
        pytest.param(f"0::/kubepods/burstable/pod{HASH}/{CONTAINER}\n", HASH, id="a static pod"),
        pytest.param("0::/system.slice/vllm.service\n", None, id="a service of the host"),
        pytest.param(f"0::/system.slice/docker-{CONTAINER}.scope\n", None, id="docker alone"),
        pytest.param(f"0::/machine.slice/libpod-{CONTAINER}.scope\n", None, id="podman"),
        pytest.param(f"1:memory:/kubepods/pod{UID}/a\n2:pids:/kubepods/pod{HASH}/a\n", None, id="two pods"),
        pytest.param(f"0::/kubepods/pod{UID}x/a\n", None, id="a name that only begins like one"),
        pytest.param("", None, id="nothing"),
        pytest.param("no control group\n:\n", None, id="not that format"),
    ],
)
def test_the_pod_in_a_control_group(text: str, uid: str | None) -> None:
    assert pod_uid_in(text) == uid


def host(root: Path, *, of: dict[int, str], is_host: bool = True) -> HostProcesses:
    for pid, text in of.items():
        (root / str(pid)).mkdir(parents=True)
        (root / str(pid) / "cgroup").write_text(text)
    (root / "2").mkdir()
    (root / "2/comm").write_text("kthreadd\n" if is_host else "python\n")
    return HostProcesses(root)


def test_in_another_pid_namespace_no_process_has_a_pod(tmp_path: Path) -> None:
    """The same number is another process there."""
    text = f"0::/kubepods/pod{UID}/{CONTAINER}\n"
    assert host(tmp_path / "host", of={438: text}).pod_uid(438) == UID
    assert host(tmp_path / "container", of={438: text}, is_host=False).pod_uid(438) is None
    assert HostProcesses(tmp_path / "none").pod_uid(438) is None


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    assert host(tmp_path, of={}).pod_uid(438) is None


async def test_a_reading_has_the_memory_of_each_pod(tmp_path: Path) -> None:
    """And its recording body says the same when it is read again."""
    processes = host(tmp_path, of={438: f"0::/kubepods/pod{UID}/{CONTAINER}\n"})
    ((reading, body),) = await GpuReader(FakeNvml(), host=processes).read(100.0)
    assert body["processes"] == [{"pid": 438, "used": 1_050_673_152, "pod": UID}]
    pods = {s.signal: (s.label, s.value) for s in reading.samples if s.signal.startswith("gpu_pod")}
    assert pods == {"gpu_pod_processes": (UID, 1), "gpu_pod_memory_bytes": (UID, 1_050_673_152)}
    assert gpu_reading("gpu-0", 100.0, body).samples == reading.samples


def test_memory_that_is_not_told_of_one_process_is_not_known_of_its_pod() -> None:
    body = {"processes": [{"pid": 1, "used": 5, "pod": UID}, {"pid": 2, "used": None, "pod": UID}, {"pid": 3}]}
    samples = [s for s in gpu_reading("gpu-0", 1.0, body, is_whole=False).samples if s.signal.startswith("gpu_pod")]
    assert [(s.signal, s.label, s.value) for s in samples] == [("gpu_pod_processes", UID, 2)]
