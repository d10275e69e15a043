"""The rule files in the repository: rendered from today's code, accepted by promtool, and doing what they promise."""

import subprocess
from pathlib import Path

import pytest
import yaml
from real_tools import real_tool

from agent.config_file import load_config
from agent.render.deadman import render_deadman
from agent.render.rules import render_rules

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "rules" / "prometheus"
SCENARIOS = sorted((ROOT / "rules" / "tests").glob("*.test.yaml"))


def test_the_example_rules_are_those_of_the_example_config() -> None:
    """After a change to either: make rules."""
    rendered = render_rules(load_config(ROOT / "deploy" / "agent.example.yaml"))
    assert (COMMITTED / "example-slos.yaml").read_text(encoding="utf-8") == rendered


def test_the_dead_man_rules_are_what_the_code_renders() -> None:
    """After a change: make rules."""
    assert (COMMITTED / "slo-agent-deadman.yaml").read_text(encoding="utf-8") == render_deadman()


def test_the_burn_windows_obey_their_own_arithmetic() -> None:
    """factor = budget_ratio * 30 d / long, short = long / 12, and no two pairs are the same alert."""
    rows = yaml.safe_load((ROOT / "rules" / "burn_windows.yaml").read_text(encoding="utf-8"))
    for row in rows:
        assert row["factor"] == pytest.approx(row["budget_ratio"] * 30 * 86_400 / row["long_seconds"])
        assert row["short_seconds"] * 12 == row["long_seconds"]
        assert row["source"].startswith("SRE Workbook ch. 5")
    assert len({(row["severity"], row["tier"]) for row in rows}) == len(rows) == 4


def test_the_package_carries_the_burn_windows() -> None:
    """An installed agent has no folder rules/: the file travels inside the package."""
    packed = ROOT / "agent" / "burn_windows.yaml"
    assert packed.read_text(encoding="utf-8") == (ROOT / "rules" / "burn_windows.yaml").read_text(encoding="utf-8")


def promtool(verb: str, file: Path) -> subprocess.CompletedProcess[str]:
    command = [real_tool("promtool"), verb, "rules", file]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.real
@pytest.mark.parametrize("file", sorted(COMMITTED.glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_accepts(file: Path) -> None:
    """Lint errors count: a duplicate or malformed rule would not load, or load half."""
    told = promtool("check", file)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "SUCCESS" in told.stdout


@pytest.mark.real
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_rules_do_what_their_scenarios_say(scenario: Path) -> None:
    """Outages, blips and silences, step by step, in a real PromQL engine."""
    told = promtool("test", scenario)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "SUCCESS" in told.stdout


def test_there_are_scenarios_for_every_rule_file() -> None:
    """A rule file without a scenario is a rule file nobody has seen fire."""
    assert {path.name.removesuffix(".test.yaml") for path in SCENARIOS} == {
        path.stem for path in COMMITTED.glob("*.yaml")
    }
