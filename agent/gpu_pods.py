"""Whose processes hold a GPU's memory: what NVML and control groups say, joined with what discovery knows."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.sli.count import TargetFacts
from agent.windows import Windows
from probes.sample import Reading


@dataclass(frozen=True, slots=True)
class PodOnGpu:
    """The processes of one pod on one GPU. `memory_bytes` is None where NVML does not say it of each of them.

    `pod`, `namespace` and `target` are "" for a pod that discovery does not know.
    """

    uid: str
    pod: str
    namespace: str
    target: str
    processes: int
    memory_bytes: float | None


@dataclass(frozen=True, slots=True)
class GpuPods:
    """Who computes on one GPU or MIG instance, by its newest reading. None: the GPU does not tell its processes."""

    gpu: str
    at_seconds: float
    memory_used_bytes: float | None
    processes: int | None
    processes_without_pod: int | None
    pods: tuple[PodOnGpu, ...]


def gpu_pods(windows: Windows, targets: Mapping[str, TargetFacts]) -> tuple[GpuPods, ...]:
    """One entry a GPU whose last look gave figures; empty without GPUs."""
    known = {facts.labels["pod_uid"]: (name, facts) for name, facts in targets.items() if "pod_uid" in facts.labels}
    lasts = (log.last_attempt for log in windows.targets.values() if log.source == "nvml")
    return tuple(_on_gpu(last, known) for last in lasts if last.outcome == "ok")


def _on_gpu(reading: Reading, known: Mapping[str, tuple[str, TargetFacts]]) -> GpuPods:
    said = {(sample.signal, sample.label): sample.value for sample in reading.samples}
    counts = {label: int(value) for (signal, label), value in said.items() if signal == "gpu_pod_processes"}
    total = said.get(("gpu_processes", ""))
    return GpuPods(
        gpu=reading.target,
        at_seconds=reading.at_seconds,
        memory_used_bytes=said.get(("gpu_memory_used_bytes", "")),
        processes=None if total is None else int(total),
        processes_without_pod=None if total is None else int(total) - sum(counts.values()),
        pods=tuple(
            _pod(uid, count, said.get(("gpu_pod_memory_bytes", uid)), known) for uid, count in sorted(counts.items())
        ),
    )


def _pod(uid: str, processes: int, memory: float | None, known: Mapping[str, tuple[str, TargetFacts]]) -> PodOnGpu:
    if uid not in known:
        return PodOnGpu(uid, "", "", "", processes, memory)
    target, facts = known[uid]
    return PodOnGpu(uid, facts.labels.get("pod", ""), facts.labels.get("namespace", ""), target, processes, memory)
