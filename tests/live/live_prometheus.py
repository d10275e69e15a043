"""A real Prometheus that scrapes agents every second and evaluates the dead-man rules as they are shipped."""

import json
from pathlib import Path
from typing import Any

import yaml
from live_http import get_json, get_text
from live_parts import ROOT, free_port, program
from live_process import Server

RULES = ROOT / "rules" / "prometheus"
STEP_SECONDS = 2.0


class Prometheus:
    """Agents are named to it with `watch`, at any time."""

    def __init__(self, folder: Path) -> None:
        self._targets = folder / "agents.json"
        self._agents: list[str] = []
        self.watch()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "5s"},
            "rule_files": [str(RULES / "slo-agent-deadman.yaml")],
            "scrape_configs": [
                {
                    "job_name": "slo-agent",
                    "file_sd_configs": [{"files": [str(self._targets)], "refresh_interval": "1s"}],
                }
            ],
        }
        path = folder / "prometheus.yaml"
        path.write_text(yaml.safe_dump(config))
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        command = [
            program("prometheus"),
            f"--config.file={path}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self.server = Server(command, folder / "prometheus.log")
        self.server.start_until("Prometheus is ready", 60, lambda: get_text(f"{self.url}/-/ready"))

    def watch(self, *urls: str) -> None:
        """From now on these agents too."""
        self._agents += [url.removeprefix("http://") for url in urls]
        self._targets.write_text(json.dumps([{"targets": self._agents}]))

    def series(self, query: str, from_seconds: float, to_seconds: float) -> list[dict[str, Any]]:
        """What the query returned at any moment of this stretch."""
        stretch = {"start": repr(from_seconds), "end": repr(to_seconds), "step": repr(STEP_SECONDS)}
        answer = get_json(f"{self.url}/api/v1/query_range", query=query, **stretch)
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def now(self, query: str) -> list[dict[str, Any]]:
        """What the query returns now."""
        found: list[dict[str, Any]] = get_json(f"{self.url}/api/v1/query", query=query)["data"]["result"]
        return found

    def alerts(self) -> list[dict[str, str]]:
        """Labels of the alerts that fire."""
        listed = get_json(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return [alert["labels"] for alert in listed if alert["state"] == "firing"]
