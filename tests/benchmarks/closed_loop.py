"""The agent in closed loop with the simulator, against the autoscalers of today and two oracles.

Run: python tests/benchmarks/closed_loop.py [--quick] [--service NAME ...] [--plant linear|mismatched] [--grid]
     [--markdown FILE]. Baselines are remembered in .cache/closed_loop; the agent runs anew every time.
"""

# ruff: noqa: T201 - a benchmark prints

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from loop.contest import Result, first_count, run_baselines
from loop.oracle import work_by_bin
from loop.ours import OurAgent
from loop.services import LAWS, SERVICES, Service
from loop.world import World

HEAD = ("policy", "setting", "kept", "GPU-hours", "$/M good", "acts", "turns", "worst s", "no answer")


def main(arguments: Sequence[str]) -> int:
    """Print a table for every service and plant."""
    options = _options(arguments)
    names = options.service or [name for name, service in SERVICES.items() if service.quick or not options.quick]
    plants = [options.plant] if options.plant else ["linear"] if options.quick else ["linear", "mismatched"]
    parts = []
    for name in names:
        for plant in plants:
            parts.append(contest(SERVICES[name], plant, with_grid=options.grid, seed=options.seed))
            print(parts[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(parts), encoding="utf-8")
    return 0


def contest(service: Service, plant: str, *, with_grid: bool, seed: int = 0) -> str:
    """One table, as Markdown: the agent first, and what follows from it in words."""
    began = time.process_time()
    first = first_count(work_by_bin(service, LAWS[plant, service.long], seed))
    outcome = World(service, plant, seed).run(OurAgent(service), first)
    spent = time.process_time() - began
    results = [Result("**this agent**", "", outcome), *run_baselines(service, plant, seed, with_grid=with_grid)]
    about = (
        f"{outcome.requests:,} requests; kept: TTFT {service.ttft_seconds:g} s, TPOT {service.tpot_seconds:g} s. "
        f"Begun with {first} replicas. (The agent's run took {spent:.0f} s of CPU time.)"
    )
    lines = [
        f"### {service.name}, {plant} plant",
        "",
        about,
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
        *(_line(result) for result in results),
        "",
        *_words(results),
        "",
    ]
    return "\n".join(lines)


def _line(result: Result) -> str:
    outcome = result.outcome
    dollars = outcome.dollars_per_million_good_tokens
    cells = (
        result.policy,
        result.setting + ("" if result.is_default else " (tuned)"),
        f"{100 * outcome.attainment_ratio:.1f} %",
        f"{outcome.gpu_hours:.2f}",
        "-" if dollars is None else f"{dollars:.2f}",
        f"{outcome.actions}",
        f"{outcome.reversals}",
        f"{outcome.longest_violation_seconds:.0f}",
        f"{outcome.never_answered}",
    )
    return f"| {' | '.join(cells)} |"


def _words(results: Sequence[Result]) -> list[str]:
    """How far from the oracle, and who is better on both axes."""
    ours, oracle = results[0].outcome, results[1].outcome
    behind = 100 * (oracle.attainment_ratio - ours.attainment_ratio)
    better = [
        f"{result.policy} {result.setting}{'' if result.is_default else ' (tuned)'}"
        for result in results[3:]
        if result.outcome.attainment_ratio > ours.attainment_ratio and result.outcome.gpu_hours < ours.gpu_hours
    ]
    against = f"Against the oracle that pays the cold start: {behind:.1f} points of attainment"
    times = f"{ours.gpu_hours / oracle.gpu_hours:.2f} times its GPU-hours"
    return [f"{against}, {times}. Better on both axes: {', '.join(better) if better else 'none'}."]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two services on the linear plant")
    parser.add_argument("--service", action="append", choices=list(SERVICES), help="only this one; repeatable")
    parser.add_argument("--plant", choices=("linear", "mismatched"), help="only this plant")
    parser.add_argument("--grid", action="store_true", help="the baselines at other settings, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
