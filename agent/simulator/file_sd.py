"""A Prometheus file_sd file of the replicas that take requests."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from agent.simulator.replica import Replica


def targets(replicas: Iterable[Replica], host: str, port: int, service: str) -> list[dict[str, object]]:
    """One group per replica, in the shape that Prometheus' file_sd_configs reads."""
    return [
        {
            "targets": [f"{host}:{port + replica.index}"],
            "labels": {
                "model": replica.engine.config.model,
                "role": replica.role,
                "service": service,
                "gpu_type": replica.gpu_type,
                **replica.labels,
            },
        }
        for replica in replicas
    ]


def write(path: Path, groups: list[dict[str, object]]) -> None:
    """Replace the file in one move, so that no reader sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(groups, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
