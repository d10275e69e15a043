"""Targets from a file in Prometheus' file_sd format; read again when it changes."""

import json
from collections.abc import Iterator, Mapping
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

    @property
    def place(self) -> str:
        """Its path."""
        return str(self.path)

    async def refresh(self, session: object) -> None:
        """A file is small: it is read when it is looked at."""

    def look(self) -> tuple[Found, ...]:
        """The current list; the file is parsed only when its time or size changed."""
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                self._found = _parse(self.path.read_text(encoding="utf-8"), self.path.suffix)
                self._stamp = stamp
            self.trouble = ""
        except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
            self.trouble = (
                f"{self.path}: {_reason(error)}. The last good list ({len(self._found)} targets) stays in use."
            )
        return self._found


def _reason(error: Exception) -> str:
    """In one line: YAML's own words have several."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return " ".join(str(error).split()) or type(error).__name__


def _parse(text: str, suffix: str) -> tuple[Found, ...]:
    return found_in(json.loads(text) if suffix == ".json" else yaml.safe_load(text))


def found_in(groups: object) -> tuple[Found, ...]:
    """The endpoints in a list of {targets, labels}, as file_sd and http_sd give it. Raises TypeError for others."""
    if not isinstance(groups, list):
        raise TypeError("expected a list of {targets: [host:port], labels: {...}}")
    return tuple(found for number, group in enumerate(groups) for found in _group(number, group))


def _group(number: int, group: object) -> Iterator[Found]:
    addresses, labels = (group.get("targets"), group.get("labels") or {}) if isinstance(group, dict) else (None, {})
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise TypeError(f"group {number} lacks `targets: [host:port]`")
    if not isinstance(labels, dict) or not all(isinstance(label, str | int | float) for label in labels.values()):
        raise TypeError(f"the labels of group {number} are no mapping of names to words")
    words = {str(key): str(value) for key, value in labels.items()}
    return (Found(address, words) for address in addresses)
