"""Targets from a file in Prometheus' file_sd format; read again when it changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Found:
    """One discovered endpoint: `host:port` and its labels."""

    address: str
    labels: Mapping[str, str]


@dataclass(slots=True)
class FileTargets:
    """The targets in one file. A file that vanishes or breaks keeps the last good list, and `trouble` says why."""

    path: Path
    trouble: str = ""
    _stamp: tuple[int, int] | None = None
    _found: tuple[Found, ...] = field(default_factory=tuple)

    def look(self) -> tuple[Found, ...]:
        """The current list; the file is parsed only when its time or size changed."""
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                self._found = _parse(self.path.read_text(encoding="utf-8"), self.path.suffix)
                self._stamp = stamp
            self.trouble = ""
        except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
            self.trouble = f"{self.path}: {error}. The last good list ({len(self._found)} targets) stays in use."
        return self._found


def _parse(text: str, suffix: str) -> tuple[Found, ...]:
    groups = json.loads(text) if suffix == ".json" else yaml.safe_load(text)
    if not isinstance(groups, list):
        raise TypeError("expected a list of {targets: [host:port], labels: {...}}")
    found = []
    for group in groups:
        if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
            raise ValueError("a group lacks `targets: [host:port]`")
        labels = {str(key): str(value) for key, value in (group.get("labels") or {}).items()}
        found += [Found(str(address), labels) for address in group["targets"]]
    return tuple(found)
