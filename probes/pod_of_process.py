"""Which pod a process belongs to, by its control group: /proc/PID/cgroup of the host.

Sources: cgroups(7) (`hierarchy-ID:controllers:path` a line; v2 has one line `0::path`), cgroup_namespaces(7) (a reader
in a container sees others' paths from its own, with `/..`), Kubernetes' design "Pod level resource management in
Kubelet" and its `pkg/kubelet/cm` (cgroupfs: `kubepods/burstable/pod<uid>/<container>`; systemd:
`kubepods-burstable-pod<uid, - written _>.slice/<runtime>-<container>.scope`). A static pod has the hash of its manifest
instead of a uid, without dashes. Unverified on a real cluster.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UID: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
POD: Final = re.compile(rf"(?:[^/]*-)?pod({UID})(?:\.slice)?")
MAX_BYTES: Final = 65_536
KTHREADD: Final = "kthreadd"  # process 2 of the host, and of no container


@dataclass(frozen=True, slots=True)
class HostProcesses:
    """The host's /proc, in which NVML's process ids hold: seen with hostPID, or mounted at another path."""

    root: Path = Path("/proc")

    @property
    def is_host(self) -> bool:
        """It is: in a container without hostPID the same ids are other processes, and no pod may be named by them."""
        try:
            return (self.root / "2/comm").read_text(encoding="utf-8").strip() == KTHREADD
        except (OSError, UnicodeDecodeError):
            return False

    def pod_uid(self, pid: int) -> str | None:
        """The pod's uid; None for a process of no pod, one that is gone, and where this is not the host's /proc."""
        if not self.is_host:
            return None
        try:
            with (self.root / str(pid) / "cgroup").open(encoding="utf-8", errors="replace") as file:
                return pod_uid_in(file.read(MAX_BYTES))
        except OSError:
            return None


def pod_uid_in(cgroup: str) -> str | None:
    """The pod's uid in the text of a /proc/PID/cgroup; None where it names none, or several."""
    paths = [line.split(":", 2)[2] for line in cgroup.splitlines() if line.count(":") >= 2]
    parts = (POD.fullmatch(part) for path in paths for part in path.split("/"))
    found = {match[1].replace("_", "-") for match in parts if match}
    return found.pop() if len(found) == 1 else None
