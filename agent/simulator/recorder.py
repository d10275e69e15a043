"""Writes what an agent would have read, second by second: the recording format of docs/recordings.md."""

import gzip
import json
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.simulator.fleet import Fleet
from agent.simulator.lmcache_page import lmcache_page
from agent.simulator.nvml import GpuReadings
from agent.simulator.tier import CacheTier


class Recorder:
    """A context that holds the file open. Pages go in without comment lines, one a replica, NVML beside them."""

    def __init__(self, path: Path, tiers: tuple[CacheTier, ...] = ()) -> None:
        self._path = path
        self._tiers = tiers
        self._gpus: dict[str, GpuReadings] = {}
        self._file: TextIOWrapper | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open = ExitStack()
        plain = self._open.enter_context(self._path.open("wb"))
        packed = self._open.enter_context(gzip.GzipFile("", "wb", fileobj=plain, mtime=0))  # no name, no time in it
        self._file = self._open.enter_context(TextIOWrapper(packed, encoding="utf-8"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def record(self, fleet: Fleet, at_seconds: float) -> None:
        """One line per source of every replica that answers; the fleet has been settled to that moment."""
        for replica in fleet.replicas:
            if replica.phase not in ("ready", "draining"):
                continue
            page = "".join(line + "\n" for line in replica.page.text().splitlines() if not line.startswith("#"))
            self._write(at_seconds, replica.name, "vllm", page)
            gpu = self._gpus.setdefault(replica.name, GpuReadings(replica.engine, replica.created_at_seconds))
            self._write(at_seconds, f"gpu-{replica.index}", "nvml", json.dumps(gpu.read(at_seconds)))
        for tier in self._tiers:
            model = fleet.replicas[0].engine.config.model if fleet.replicas else ""
            self._write(at_seconds, f"lmcache-{tier.name}", "lmcache", lmcache_page(tier, model))

    def _write(self, at_seconds: float, target: str, source: str, body: str) -> None:
        if self._file is not None:
            line = {"at": at_seconds, "target": target, "source": source, "body": body}
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
