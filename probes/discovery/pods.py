"""From a pod, as Kubernetes' API tells of it, to the endpoints in it.

Source: the Pod of API v1 (metadata, spec.containers[].ports, status); the annotations prometheus.io/{port,path,scheme}
are what Prometheus' own examples use; llm-d.ai/role is llm-d's. Unverified on a real cluster.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from probes.discovery.file import Found
from probes.discovery.item import KubernetesDiscovery
from probes.discovery.role import role_of
from probes.engine_args import args_of

GPU_RESOURCE = "nvidia.com/gpu"
NAME_LENGTH = 63  # of a target's name; a pod's may be longer, and its end is what tells replicas apart


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Its own readiness says so."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_gone(pod: Mapping[str, Any]) -> bool:
    """It ended, or is told to end, or has no address (any more)."""
    status = pod.get("status", {})
    ended = status.get("phase") in ("Succeeded", "Failed") or bool(pod["metadata"].get("deletionTimestamp"))
    return ended or not status.get("podIP")


def pod_endpoint(pod: Mapping[str, Any], item: KubernetesDiscovery) -> Found | str:
    """Where its metrics are, with labels as file_sd would give them; or what is missing, for people."""
    metadata, spec = pod["metadata"], pod.get("spec", {})
    said, noted = metadata.get("labels") or {}, metadata.get("annotations") or {}
    port = _port(item, list(_ports(spec)), noted)
    if isinstance(port, str):
        return f"pod {metadata['name']} has {port}"
    labels = {
        "name": target_name(metadata, with_namespace=item.all_namespaces),
        "kind": item.target_kind,
        "namespace": str(metadata.get("namespace", "")),
        "pod": str(metadata["name"]),
        "node": str(spec.get("nodeName", "")),
        "pod_uid": str(metadata.get("uid", "")),
    }
    role = role_of({"role": str(said.get(item.role_label, ""))}) or role_of(said)
    if role is not None:
        labels |= {"role": role[0], "role_evidence": role[1].replace("role=", f"{item.role_label}=", 1)}
    if said.get(item.model_label):
        labels["model"] = str(said[item.model_label])
    args = str(args_of(list(_words(spec)))[0])
    if args:
        labels |= {"engine_args": args, "engine_args_evidence": "pod"}
    gpus = _gpus(spec)
    if gpus:
        labels["gpus"] = str(gpus)
    scheme, path = noted.get("prometheus.io/scheme"), noted.get("prometheus.io/path")
    if scheme:
        labels["__scheme__"] = str(scheme)
    if path:
        labels["__metrics_path__"] = str(path)
    host = str(pod["status"]["podIP"])
    return Found(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", labels)


def target_name(metadata: Mapping[str, Any], *, with_namespace: bool) -> str:
    """The pod's name, cut at its front where it is too long."""
    name = f"{metadata['namespace']}.{metadata['name']}" if with_namespace else str(metadata["name"])
    return re.sub(r"^[^A-Za-z0-9]+", "", name[-NAME_LENGTH:])


def _ports(spec: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """(name, number) of every TCP port of its containers; sidecars are init containers that stay."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("protocol", "TCP") == "TCP" and isinstance(port.get("containerPort"), int):
                yield str(port.get("name", "")), port["containerPort"]


def _port(item: KubernetesDiscovery, ports: list[tuple[str, int]], noted: Mapping[str, str]) -> int | str:
    """The number, or what is missing."""
    if isinstance(item.port, int):
        return item.port
    if isinstance(item.port, str):
        return next((number for name, number in ports if name == item.port), f"no port named {item.port!r}")
    annotation = str(noted.get("prometheus.io/port", ""))
    if annotation.isdecimal():
        return int(annotation)
    numbers = {number for _, number in ports}
    if len(numbers) == 1:
        return numbers.pop()
    return f"{len(numbers) or 'no'} ports; write port: with a number or a port's name"


def _words(spec: Mapping[str, Any]) -> Iterator[str]:
    """Commands and arguments of its containers; of them only what is known of vLLM's is kept."""
    for container in spec.get("containers") or ():
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            yield str(word)


def _gpus(spec: Mapping[str, Any]) -> int:
    """GPUs of its containers together; 0 where none is asked for."""
    limits = (container.get("resources", {}).get("limits") or {} for container in spec.get("containers") or ())
    counts = [str(limit.get(GPU_RESOURCE, "0")) for limit in limits]
    return sum(int(count) for count in counts if count.isdecimal())
