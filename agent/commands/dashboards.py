"""`slo-agent dashboards`: Grafana dashboards as JSON files."""

import argparse
from pathlib import Path

from agent.errors import UsageError
from agent.render.dashboard import render_dashboards


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files; made if missing")


def run(options: argparse.Namespace) -> int:
    """Write every dashboard."""
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in render_dashboards().items():
            (options.out / name).write_text(text, encoding="utf-8")
            print(options.out / name)
    except OSError as error:
        raise UsageError(f"{options.out} cannot be written: {error.strerror}", "Name a folder of yours.") from None
    return 0
