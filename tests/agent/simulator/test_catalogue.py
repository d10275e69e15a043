"""The simulator speaks as vLLM speaks: its catalogue is compared with captured pages, family by family."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agent.simulator.catalogue import CATALOGUE

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared"))
IDENTITY = {"engine", "model_name"}


def families_of(page: str) -> list[dict[str, Any]]:
    """Names, types, help, further labels and bucket edges of one captured page, in its order, without `_created`."""
    families: list[dict[str, Any]] = []
    help_text = ""
    for line in page.splitlines():
        if line.startswith("# HELP "):
            help_text = line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            if not name.endswith("_created"):
                families.append({"name": name, "type": kind, "help": help_text, "labels": [], "series": []})
        elif not line.startswith(families[-1]["name"] + "_created") and "_created" not in line.split("{")[0]:
            _learn(families[-1], line)
    return families


def _learn(family: dict[str, Any], line: str) -> None:
    labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
    edge = labels.pop("le", None)
    family["labels"] = sorted(labels)
    if edge is not None and edge != "+Inf" and float(edge) not in family.setdefault("edges", []):
        family["edges"].append(float(edge))
    further = {name: value for name, value in labels.items() if name not in IDENTITY}
    if family["name"].startswith("http"):
        further = {}
    if further and further not in family["series"]:
        family["series"].append(further)


def described(family: dict[str, Any]) -> dict[str, Any]:
    """What the catalogue keeps of a family; token buckets follow from the longest model length instead."""
    kept = {key: family[key] for key in ("name", "type", "help", "labels") if key in family}
    if family["series"]:
        kept["series"] = family["series"]
    edges = family.get("edges")
    if edges:
        kept["edges"] = "tokens" if edges[:4] == [1.0, 2.0, 5.0, 10.0] and edges[-1] > 100 else edges
    return kept


def page(name: str) -> str:
    path = SHARED / "data" / "pages" / "vllm" / name
    if not path.exists():
        pytest.skip(f"needs the captured page {path} (set SLO_AGENT_SHARED)")
    return path.read_text()


@pytest.mark.parametrize(
    ("captured", "group"),
    [("vllm_0.32_cpu.prom", "engine"), ("vllm_0.32_cpu_idle.prom", "engine")],
)
def test_catalogue_is_the_captured_page(captured: str, group: str) -> None:
    """Every family of vLLM 0.32 stands in the catalogue with the same type, help, labels and edges."""
    told = {family["name"]: described(family) for family in families_of(page(captured))}
    kept = {family["name"]: family for family in CATALOGUE[group]}
    assert list(told) == [name for name in kept if name in told]
    if not captured.endswith("idle.prom"):
        assert set(kept) == set(told)
        assert kept == told


@pytest.mark.parametrize(
    ("captured", "group"),
    [("vllm_0.24_pd_decode.prom", "nixl"), ("vllm_0.32_with_lmcache.prom", "kv_consumer")],
)
def test_connector_families_are_captured_ones(captured: str, group: str) -> None:
    """What a connector adds to the page is what it added to a real one."""
    base = {family["name"] for family in CATALOGUE["engine"]}
    told = [described(family) for family in families_of(page(captured)) if family["name"] not in base]
    assert json.loads(json.dumps(CATALOGUE[group])) == told
