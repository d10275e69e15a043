"""Small pieces of PromQL, and rule files as YAML that people can read."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

Labels = Sequence[tuple[str, str, str]]
"""Matchers as (label, operator, value), such as ("model_name", "=", "llama")."""


def duration(seconds: float) -> str:
    """Seconds as Prometheus writes durations: 300 -> 5m, 259200 -> 3d, 90 -> 90s."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    if seconds != int(seconds):
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.0f}s"


def quoted(text: str) -> str:
    """A PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def selector(metric: str, labels: Labels, extra: str = "") -> str:
    """`metric{label="value",...}`; `extra` is further matchers as the user wrote them, such as `job="vllm"`."""
    matchers = [f"{label}{operator}{quoted(value)}" for label, operator, value in labels]
    inside = ",".join([*matchers, *([extra] if extra else [])])
    return f"{metric}{{{inside}}}" if inside else metric


def edge_pattern(seconds: float) -> str:
    """A regular expression for the label `le` of one bucket, however its number is spelt.

    2.5 is served as "2.5"; 1 as "1.0" by Python, as "1" by Go, and a Prometheus 3 rewrites "1" to "1.0" on the way in.
    """
    text = f"{seconds:f}".rstrip("0")
    whole, _, decimals = text.partition(".")
    return rf"{whole}\.{decimals}0*" if decimals else rf"{whole}(\.0*)?"


def rule_file(groups: Sequence[Mapping[str, Any]], remark: str) -> str:
    """Rule groups as a file for Prometheus, with `remark` as comment lines above them."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in remark.strip().splitlines())
    body = yaml.dump(
        {"groups": list(groups)}, Dumper=_Dumper, sort_keys=False, width=100_000, allow_unicode=True, indent=2
    )
    return head + body


class _Dumper(yaml.SafeDumper):
    """Texts of several lines stay several lines; lists are indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  the base class's signature
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
