"""`slo-agent slos`: SLOs from OpenSLO, Sloth and Pyrra specs into our config, and ours out as OpenSLO."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from agent.commands.common import add_config, add_examples
from agent.config_file import load_config
from agent.config_slo import Slo
from agent.errors import ConfigError
from agent.interchange.documents import Document, Imported, documents_in
from agent.interchange.openslo import is_openslo, read_openslo
from agent.interchange.openslo_export import openslo_documents
from agent.interchange.pyrra import is_pyrra, read_pyrra
from agent.interchange.queries import UnmappableError
from agent.interchange.sloth import is_sloth, read_sloth

TIERS = ("fast", "slow", "trend")
KNOWN = "openslo/v1, version: prometheus/v1 (Sloth) and pyrra.dev"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    ways = parser.add_subparsers(dest="way", required=True, metavar="WAY")
    into = ways.add_parser(
        "import",
        help="print specs of OpenSLO v1, Sloth or Pyrra as SLOs of our config",
        description="Print specs of OpenSLO v1, Sloth or Pyrra as SLOs of our config",
    )
    into.add_argument("files", type=Path, nargs="+", metavar="FILE", help="YAML; documents may name each other")
    add_examples(
        into, "slo-agent slos import openslo/*.yaml", "slo-agent slos import sloth.yaml pyrra.yaml > slos.yaml"
    )
    out = ways.add_parser(
        "export",
        help="print the SLOs of a config as OpenSLO v1",
        description="Print the SLOs of a config as OpenSLO v1",
    )
    add_config(out)
    add_examples(out, "slo-agent slos export -c agent.yaml > openslo.yaml")
    add_examples(parser, "slo-agent slos import sloth.yaml", "slo-agent slos export -c agent.yaml")


def run(options: argparse.Namespace) -> int:
    """Exit code 2, with every reason, where something could not be mapped; what could be is printed all the same."""
    if options.way == "export":
        documents = openslo_documents(load_config(options.config))
        print(yaml.safe_dump_all(documents, sort_keys=False, width=120), end="")
        return 0
    imported = _imported(options.files)
    if imported.slos:
        print(_yaml(imported), end="")
    for remark in dict.fromkeys(imported.remarks):
        print(f"remark: {remark}", file=sys.stderr)
    if imported.mistakes:
        raise ConfigError(imported.mistakes)
    return 0


def _imported(files: Sequence[Path]) -> Imported:
    imported, openslo = Imported(), list[Document]()
    for path in files:
        try:
            documents = documents_in(path)
        except UnmappableError as error:
            imported.mistakes.append(str(error))
            continue
        for document in documents:
            if is_openslo(document):
                openslo.append(document)
            elif is_sloth(document):
                read_sloth(document, imported)
            elif is_pyrra(document):
                read_pyrra(document, imported)
            else:
                version = document.get("apiVersion") or document.get("version")
                head = f"{version} is none of" if version else "a document names no apiVersion; known are"
                imported.mistakes.append(f"{path}: {head} {KNOWN}")
    read_openslo(openslo, imported)
    _check(imported)
    if not imported.slos and not imported.mistakes:
        imported.mistakes.append(f"{', '.join(map(str, files))}: there is no SLO in it")
    return imported


def _check(imported: Imported) -> None:
    """What our config would refuse is told as what could not be mapped."""
    good = []
    for slo in imported.slos:
        try:
            Slo.model_validate(slo)
            good.append(slo)
        except ValidationError as error:
            why = "; ".join(item["msg"].removeprefix("Value error, ") for item in error.errors())
            imported.mistakes.append(f'SLO "{slo.get("name")}": {why}')
    imported.slos[:] = good


def _yaml(imported: Imported) -> str:
    parts: dict[str, Any] = {"slos": imported.slos}
    if imported.windows:
        parts["burn"] = {"windows": _with_tiers(imported.windows)}
    return yaml.safe_dump(parts, sort_keys=False)


def _with_tiers(windows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each severity the shortest window is fast, the next slow, the third trend; a config has no more of them."""
    told: list[dict[str, Any]] = []
    for severity in ("page", "ticket"):
        ordered = sorted((w for w in windows if w["severity"] == severity), key=lambda window: window["long_seconds"])
        told += [{"tier": tier, **window} for tier, window in zip(TIERS, ordered, strict=False)]
    return told
