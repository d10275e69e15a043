"""`slo-agent`: the command line. Exit codes: 0 good, 1 the answer is "bad", 2 wrong usage or config."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from agent.commands import (
    advise,
    calibrate,
    capacity,
    check,
    dashboards,
    demo,
    explain,
    inspect,
    probe,
    record,
    replay,
    report,
    rules,
    run,
    slos,
    suggest,
)
from agent.errors import AgentError, ConfigError
from agent.simulator import command as simulate
from agent.stretch import EmptyStretchError
from probes.prometheus.api import PrometheusError
from probes.recording import RecordingError

BAD_USAGE = 2


@dataclass(frozen=True, slots=True)
class Command:
    """A word after `slo-agent`, what it does, and its two functions."""

    name: str
    does: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS = (
    Command("run", "watch, evaluate, alert and advise, as the config says", run.add_arguments, run.run),
    Command(
        "demo", "the agent on the embedded simulator: one story, nothing else needed", demo.add_arguments, demo.run
    ),
    Command(
        "check",
        "validate a config; say when each SLO would page and what canaries cost",
        check.add_arguments,
        check.run,
    ),
    Command("probe", "send one canary to an OpenAI-compatible endpoint", probe.add_arguments, probe.run),
    Command("inspect", "show what the agent reads from one metrics page", inspect.add_arguments, inspect.run),
    Command("record", "write readings to a recording", record.add_arguments, record.run),
    Command(
        "replay",
        "evaluate a recording or a Prometheus in virtual time: what would have paged",
        replay.add_arguments,
        replay.run,
    ),
    Command("report", "signals over one stretch of a recording", report.add_arguments, report.run),
    Command("advise", "what to do, why, what it costs, and how sure that is", advise.add_arguments, advise.run),
    Command(
        "calibrate",
        "drive a server with `vllm bench serve`, and learn what it carries",
        calibrate.add_arguments,
        calibrate.run,
    ),
    Command("capacity", "what one engine can carry, learned from a recording", capacity.add_arguments, capacity.run),
    Command("explain", "show the arithmetic of one SLO with its counts", explain.add_arguments, explain.run),
    Command(
        "suggest",
        "SLOs that a history could keep, what would have paged, presets beside",
        suggest.add_arguments,
        suggest.run,
    ),
    Command("slos", "read SLOs of OpenSLO, Sloth and Pyrra; write ours as OpenSLO", slos.add_arguments, slos.run),
    Command("rules", "print Prometheus rules for the same SLOs", rules.add_arguments, rules.run),
    Command("dashboards", "write Grafana dashboards", dashboards.add_arguments, dashboards.run),
    Command("simulate", "the simulator: as a server, or one run in virtual time", simulate.add_arguments, simulate.run),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What people got wrong is told in a sentence, never as a traceback."""
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, where a failure can still be told
    except ConfigError as error:
        print("\n".join(error.lines), file=sys.stderr)
    except (AgentError, RecordingError, EmptyStretchError, PrometheusError) as error:
        print(f"slo-agent: {error}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has seen enough
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        where = f"{error.filename}: " if error.filename else ""
        print(f"slo-agent: {where}{error.strerror or type(error).__name__}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return BAD_USAGE


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return BAD_USAGE
    return chosen.command.run(chosen)  # type: ignore[no-any-return]  # a Command, set below


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slo-agent",
        description="The SLO agent for LLM inference: canaries, vLLM metrics, SLO burn, alerts and advice.",
        epilog="First steps: `slo-agent demo`, then `slo-agent probe http://your-vllm:8000`.",
    )
    parser.add_argument("--version", action="version", version=f"slo-agent {version('vllm-slo-agent')}")
    parser.set_defaults(command=None)
    words = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in COMMANDS:
        word = words.add_parser(command.name, help=command.does, description=command.does[0].upper() + command.does[1:])
        command.add_arguments(word)
        word.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
