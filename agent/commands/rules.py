"""`slo-agent rules`: Prometheus rules for the same SLOs, or those that tell when the agent itself is gone."""

import argparse

from agent.commands.common import add_config, add_examples
from agent.config_file import load_config
from agent.errors import UsageError
from agent.render.deadman import render_deadman
from agent.render.rules import render_rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser, required=False)
    parser.add_argument("--deadman", action="store_true", help="the rules that tell when the agent is gone; no config")
    add_examples(
        parser,
        "slo-agent rules -c agent.yaml > slos.yaml && promtool check rules slos.yaml",
        "slo-agent rules --deadman > slo-agent-deadman.yaml",
    )


def run(options: argparse.Namespace) -> int:
    """Print the rules."""
    if options.deadman == (options.config is not None):
        raise UsageError("one of -c FILE and --deadman is needed", "The dead-man rules are the same for every config.")
    print(render_deadman() if options.deadman else render_rules(load_config(options.config)), end="")
    return 0
