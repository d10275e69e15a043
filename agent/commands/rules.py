"""`slo-agent rules`: Prometheus rules for the same SLOs."""

import argparse

from agent.commands.common import add_config
from agent.config_file import load_config
from agent.render.rules import render_rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)
    parser.epilog = "Check them with: slo-agent rules -c FILE > rules.yaml && promtool check rules rules.yaml"


def run(options: argparse.Namespace) -> int:
    """Print the rules."""
    print(render_rules(load_config(options.config)), end="")
    return 0
