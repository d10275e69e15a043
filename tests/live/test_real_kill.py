"""A vLLM that dies and one that hangs: told apart, and seen from a real Alertmanager with the config we ship."""

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_agent import RunningAgent
from live_figures import tell
from live_http import get_json, get_text, webhook
from live_parts import ROOT, free_port, program
from live_process import Server, until
from live_vllm import RealVllm

pytestmark = pytest.mark.real
SHIPPED = ROOT / "deploy" / "alertmanager" / "alertmanager.example.yaml"
ITS_WEBHOOK = "http://127.0.0.1:9095"
SEEN_SECONDS = 180.0  # within seconds on an idle machine


class Alertmanager:
    """A real one. `told` are the (alert name, status) pairs that its webhooks got."""

    def __init__(self, folder: Path, hook_url: str, told: list[tuple[str, str]]) -> None:
        config = folder / "alertmanager.yaml"
        config.write_text(SHIPPED.read_text().replace(ITS_WEBHOOK, hook_url))
        self.url, self.told = f"http://127.0.0.1:{(port := free_port())}", told
        command = [
            program("alertmanager", "prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        self.server = Server(command, folder / "alertmanager.log")
        self.server.start_until("Alertmanager is ready", 60, lambda: get_text(f"{self.url}/-/ready"))

    def alerts(self) -> dict[str, dict[str, Any]]:
        """What its API lists, by name. A resolved alert is listed no more."""
        return {alert["labels"]["alertname"]: alert for alert in get_json(f"{self.url}/api/v2/alerts")}

    def amtool_names(self) -> set[str]:
        command = [program("amtool"), "alert", "query", "--active", "--inhibited", "--output=json"]
        command.append(f"--alertmanager.url={self.url}")
        listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        return {alert["labels"]["alertname"] for alert in listed}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with webhook() as (url, told):
        started = Alertmanager(tmp_path_factory.mktemp("alertmanager"), url, told)
        try:
            yield started
        finally:
            started.server.stop()


def config_of(url: str) -> dict[str, Any]:
    """It looks every 2 s, and sends a canary every 4 s; the burn windows are the standard ones."""
    return {
        "tick_seconds": 1,
        "targets": [{"name": "engine", "url": url}],
        "scrape": {"interval_seconds": 2, "timeout_seconds": 2, "down_after_seconds": 10},
        "gpu": {"enabled": "no"},
        "canaries": [
            {
                "kind": "chat",
                "interval_seconds": 4,
                "connect_timeout_seconds": 2,
                "first_token_timeout_seconds": 4,
                "stall_timeout_seconds": 4,
                "total_timeout_seconds": 8,
            }
        ],
        "slos": [
            {
                "name": "chat-canary",
                "service": "chat",
                "sli": "availability",
                "source": "canary",
                "objective_ratio": 0.99,
            }
        ],
    }


@pytest.fixture(scope="module")
def agent(
    vllm: RealVllm, alertmanager: Alertmanager, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningAgent]:
    config = {**config_of(vllm.url), "alertmanager": {"urls": [alertmanager.url], "resend_seconds": 5}}
    started = RunningAgent(config, tmp_path_factory.mktemp("agent"))
    try:
        yield started
    finally:
        started.server.stop()


@pytest.fixture(autouse=True)
def all_is_well_before(vllm: RealVllm, agent: RunningAgent, alertmanager: Alertmanager) -> None:
    """Burning budgets may still be told: a five-minute window remembers the test before."""
    vllm.start()
    target_alerts = {"EngineUnreachable", "EngineStuck", "CanaryDown"}
    until("the target is up", SEEN_SECONDS, lambda: agent.health("engine") == "up")
    until("its alerts are over", SEEN_SECONDS, lambda: not target_alerts & alertmanager.alerts().keys())


def test_a_killed_vllm_is_unreachable_until_it_is_back(
    vllm: RealVllm, agent: RunningAgent, alertmanager: Alertmanager
) -> None:
    """The page goes out for the cause alone: its canaries fail too, and Alertmanager inhibits that alert."""
    vllm.kill()
    until("firing", SEEN_SECONDS, lambda: {"EngineUnreachable", "CanaryDown"} <= alertmanager.alerts().keys())
    assert agent.health("engine") == "down"
    until("amtool shows it", 30, lambda: {"EngineUnreachable", "CanaryDown"} <= alertmanager.amtool_names())
    seen = alertmanager.alerts()
    unreachable, canary = seen["EngineUnreachable"], seen["CanaryDown"]
    tell("EngineUnreachable:", unreachable["annotations"]["description"])
    assert unreachable["labels"]["severity"] == "page"
    assert unreachable["labels"]["target"] == "engine"
    assert "connect_refused" in unreachable["annotations"]["description"]
    assert unreachable["status"]["state"] == "active"
    assert canary["status"]["inhibitedBy"] == [unreachable["fingerprint"]]
    assert "EngineStuck" not in seen
    until("a person is paged", SEEN_SECONDS, lambda: ("EngineUnreachable", "firing") in alertmanager.told)

    vllm.start()
    gone = {"EngineUnreachable", "CanaryDown"}
    until("resolved", SEEN_SECONDS, lambda: not gone & alertmanager.alerts().keys())
    until("up", SEEN_SECONDS, lambda: agent.health("engine") == "up")
    until("a person is told of the end", SEEN_SECONDS, lambda: ("EngineUnreachable", "resolved") in alertmanager.told)
    assert ("CanaryDown", "firing") not in alertmanager.told


@pytest.mark.parametrize("load", ["idle", "in the middle of an answer"])
def test_a_stopped_engine_process_is_stuck_not_unreachable(
    load: str, vllm: RealVllm, agent: RunningAgent, alertmanager: Alertmanager
) -> None:
    """SIGSTOP: the API server still answers /health and /metrics, but nothing is computed."""
    answer = None if load == "idle" else begin_long_answer(vllm.port)
    engine = vllm.engine_core()
    os.kill(engine, signal.SIGSTOP)
    try:
        until("EngineStuck fires", SEEN_SECONDS, lambda: "EngineStuck" in alertmanager.alerts())
        assert get_text(f"{vllm.url}/health") == ""
        assert agent.health("engine") == "stuck"
        until("CanaryDown fires", SEEN_SECONDS, lambda: "CanaryDown" in alertmanager.alerts())
        seen = alertmanager.alerts()
        tell(f"EngineStuck, {load}:", seen["EngineStuck"]["annotations"]["description"])
        assert "EngineUnreachable" not in seen
        assert seen["EngineStuck"]["labels"]["severity"] == "page"
        assert seen["CanaryDown"]["status"]["inhibitedBy"] == [seen["EngineStuck"]["fingerprint"]]
    finally:
        os.kill(engine, signal.SIGCONT)
        if answer is not None:
            answer.close()
    until("resolved", SEEN_SECONDS, lambda: not {"EngineStuck", "CanaryDown"} & alertmanager.alerts().keys())
    until("up", SEEN_SECONDS, lambda: agent.health("engine") == "up")


def test_without_canaries_a_stopped_engine_is_known_by_the_requests_in_it(vllm: RealVllm, tmp_path: Path) -> None:
    """The page goes on saying that a request runs, and no step is made in 30 s."""
    watcher = RunningAgent({**config_of(vllm.url), "canaries": [], "slos": []}, tmp_path)
    answer, engine = begin_long_answer(vllm.port), vllm.engine_core()
    os.kill(engine, signal.SIGSTOP)
    try:
        until("stuck", SEEN_SECONDS, lambda: watcher.health("engine") == "stuck")
        (alert,) = watcher.api("alerts")["alerts"]
        tell("EngineStuck without canaries:", alert["annotations"]["description"])
        assert alert["labels"]["alertname"] == "EngineStuck"
        assert "requests running and made no step" in alert["annotations"]["description"]
    finally:
        os.kill(engine, signal.SIGCONT)
        answer.close()
        until("up again", SEEN_SECONDS, lambda: watcher.health("engine") == "up")
        watcher.server.stop()


def begin_long_answer(port: int) -> http.client.HTTPConnection:
    """A request of thousands of tokens, after its first ones have come."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": "tiny", "prompt": "Once", "max_tokens": 8000, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    assert connection.getresponse().read(200)
    return connection
