"""Write the rendered files of the repository: `python -m agent.render rules|dashboards --out DIR [--config FILE]`."""

import argparse
import sys
from pathlib import Path

from agent.config_file import load_config
from agent.render.dashboard import render_dashboards
from agent.render.deadman import render_deadman
from agent.render.rules import render_rules


def main(words: list[str]) -> None:
    """Render, write, and name what was written."""
    parser = argparse.ArgumentParser(prog="python -m agent.render")
    parser.add_argument("what", choices=("rules", "dashboards"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=Path("deploy/agent.example.yaml"))
    asked = parser.parse_args(words)
    texts = _rules(asked.config) if asked.what == "rules" else render_dashboards()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (asked.out / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{asked.out / name}\n")


def _rules(config: Path) -> dict[str, str]:
    return {"example-slos.yaml": render_rules(load_config(config)), "slo-agent-deadman.yaml": render_deadman()}


if __name__ == "__main__":
    main(sys.argv[1:])
