"""The examples for Prometheus, Alertmanager and systemd, in the eyes of their own tools."""

import subprocess
from pathlib import Path

import pytest
from real_tools import real_tool

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTMANAGER = DEPLOY / "alertmanager" / "alertmanager.example.yaml"


def told(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.real
def test_promtool_takes_the_scrape_config_and_finds_its_rules() -> None:
    """The rule files stand where the example says."""
    words = told(real_tool("promtool"), "check", "config", DEPLOY / "prometheus" / "scrape.example.yaml")
    assert "2 rule files found" in words


@pytest.mark.real
def test_amtool_takes_the_alertmanager_config() -> None:
    words = told(real_tool("amtool"), "check-config", ALERTMANAGER)
    assert "SUCCESS" in words
    assert "5 inhibit rules" in words


@pytest.mark.real
@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=SLOBurnRate", "severity=page", "tier=fast", "slo=chat-ttft"), "pager"),
        (("alertname=SLOBurnRate", "severity=ticket", "tier=trend", "slo=chat-ttft"), "tickets"),
        (("alertname=AgentBlind", "severity=page", "reason=absent"), "pager"),
        (("alertname=Watchdog", "severity=none"), "heartbeat"),
        (("alertname=SomethingOfOthers",), "tickets"),
    ],
)
def test_each_alert_reaches_its_receiver(labels: tuple[str, ...], receiver: str) -> None:
    """What severity says is what happens; the Watchdog must never wake a person."""
    assert (
        told(real_tool("amtool"), "config", "routes", "test", "--config.file", ALERTMANAGER, *labels).strip()
        == receiver
    )


@pytest.mark.real
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """With the program at the place that the unit names; `security` gives below 3 where 10 is no protection at all."""
    unit = (DEPLOY / "systemd" / "slo-agent.service").read_text(encoding="utf-8")
    program = tmp_path / "slo-agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    here = tmp_path / "slo-agent.service"
    here.write_text(unit.replace("/opt/slo-agent/bin/slo-agent", str(program)))
    analyze = real_tool("systemd-analyze")
    done = subprocess.run([analyze, "verify", here], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    verdict = told(analyze, "security", "--offline=yes", "--threshold=30", here)
    assert "Overall exposure level" in verdict
