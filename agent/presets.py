"""SLO presets by kind of service, read from presets.yaml, where their sources stand."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("presets.yaml")  # a link to rules/presets.yaml; a wheel has the file itself


@cache
def presets() -> Mapping[str, Mapping[str, Any]]:
    """By name: `about` in words, `slos` as the config writes them, `goodput` where the kind has one."""
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def preset_slos(name: str) -> list[dict[str, Any]]:
    """The SLOs of a preset as the config writes them, named and of the service that the preset is called after."""
    return [{**slo, "name": f"{name}-{slo['name']}", "service": name} for slo in presets()[name]["slos"]]


def with_preset(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """A config tree with the SLOs of its `preset` behind its own. An SLO of the same name takes the preset's place, and
    so does a section `goodput`. A tree without a preset that is known stays as it is.
    """
    name, own = tree.get("preset"), tree.get("slos") or []
    if not isinstance(name, str) or name not in presets() or not isinstance(own, list):
        return tree
    taken = {slo.get("name") for slo in own if isinstance(slo, dict)}
    services = {slo.get("service") for slo in own if isinstance(slo, dict)} - {None}
    service = services.pop() if len(services) == 1 else name
    added = [{**slo, "service": service} for slo in preset_slos(name) if slo["name"] not in taken]
    goodput = {"goodput": presets()[name]["goodput"]} if "goodput" in presets()[name] else {}
    return {**goodput, **tree, "slos": [*own, *added]}
