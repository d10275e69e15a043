"""The agent as its users start it: `slo-agent` with a config file, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from live_http import get_json
from live_parts import free_port
from live_process import Server

SLO_AGENT = Path(sys.executable).with_name("slo-agent")
START_SECONDS = 90.0


class RunningAgent:
    """`slo-agent run` with this config, listening on a free port."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        path = write_config({**config, "server": {"listen": f"127.0.0.1:{port}"}}, folder / "agent.yaml")
        self.server = Server([SLO_AGENT, "run", "-c", path], folder / "agent.log")
        self.server.start_until("the agent has evaluated once", START_SECONDS, lambda: self.api("status")["ready"])

    def api(self, part: str, **query: str) -> Any:
        return get_json(f"{self.url}/api/v1/{part}", **query)

    def health(self, target: str) -> str:
        """What it says of one of its targets: up, stale, down, stuck or unknown."""
        (health,) = [one["health"] for one in self.api("targets")["targets"] if one["name"] == target]
        return str(health)


def write_config(config: dict[str, Any], path: Path) -> Path:
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def slo_agent(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return subprocess.run([SLO_AGENT, *map(str, words)], capture_output=True, text=True, timeout=600, check=False)


def answer_of(*words: str | Path, exit_code: int = 0) -> Any:
    """The JSON that a command prints."""
    ended = slo_agent(*words, "--json")
    assert ended.returncode == exit_code, ended.stdout + ended.stderr
    return json.loads(ended.stdout)
