"""A real Dynamo front end with mocker workers: what its clients saw is what the agent counts, and a kill is named."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_figures import tell
from live_http import get_json, get_text
from live_load import Load, send_load
from live_neighbours import alert_about, settled, watching
from live_parts import NEIGHBOURS_SCRIPT, free_port, neighbours_folder
from live_process import Server, until

pytestmark = [pytest.mark.real, pytest.mark.neighbours]
START_SECONDS = 120.0


def _low_port() -> int:
    """A free one that Dynamo can take: it reads the system port as a number of 16 bits with a sign."""
    while True:
        port = 21_000 + free_port() % 11_000
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Dynamo:
    """A front end and its workers, each a process of its own."""

    def __init__(self, folder: Path, workers: dict[str, tuple[str, ...]], front: tuple[str, ...] = ()) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.targets: list[dict[str, Any]] = [{"name": "front", "url": self.url, "kind": "dynamo_frontend"}]
        self.workers: dict[str, Server] = {}
        self._started: list[Server] = []
        script, installed, store = ["bash", NEIGHBOURS_SCRIPT], neighbours_folder(), folder / "store"
        try:
            self._start(
                [*script, "dynamo-frontend", installed, store, "--http-port", str(port), *front], folder / "front"
            )
            for name, options in workers.items():
                command = [*script, "dynamo-worker", installed, store, "--model-name", "tiny", *options]
                system = _low_port()
                self.workers[name] = self._start(command, folder / name, DYN_SYSTEM_PORT=str(system))
                self.targets.append({"name": name, "url": f"http://127.0.0.1:{system}", "kind": "dynamo_worker"})
            until("Dynamo serves", START_SECONDS, lambda: get_json(f"{self.url}/v1/models")["data"])
            for target in self.targets[1:]:
                page = f"{target['url']}/metrics"
                until(page, START_SECONDS, lambda page=page: "dynamo_component_requests_total" in get_text(page))
            until("it answers", START_SECONDS, lambda: send_load(self.url, 4, 2, 4).answered == 4)
        except BaseException:
            self.stop()
            raise

    def _start(self, command: list[str | Path], log: Path, **environment: str) -> Server:
        server = Server(command, log.with_suffix(".log"), environment).start()
        self._started.append(server)
        return server

    def stop(self) -> None:
        for server in self._started:
            server.kill()


@pytest.fixture
def aggregated(tmp_path: Path) -> Iterator[Dynamo]:
    dynamo = Dynamo(tmp_path, {"worker-0": (), "worker-1": ()})
    try:
        yield dynamo
    finally:
        dynamo.stop()


@pytest.fixture
def disaggregated(tmp_path: Path) -> Iterator[Dynamo]:
    prefill = ("--disaggregation-mode", "prefill", "--bootstrap-ports", str(free_port()))
    decode = ("--disaggregation-mode", "decode")
    dynamo = Dynamo(tmp_path, {"prefill-0": prefill, "decode-0": decode, "decode-1": decode}, ("--enforce-disagg",))
    try:
        yield dynamo
    finally:
        dynamo.stop()


def counted(what: str, load: Load, work: dict[str, Any]) -> None:
    """The agent's counts are the clients'."""
    tell(f"Dynamo, {what}: clients {load}; agent", {k: work[k] for k in ("answered", "failed", "cancelled")})
    assert (work["answered"], work["failed"], work["cancelled"]) == (load.answered, load.bad, load.hung_up)


def test_requests_errors_and_tokens_are_the_clients(aggregated: Dynamo, tmp_path: Path) -> None:
    """Two workers that serve alone; some clients hang up, and they are no errors."""
    agent = watching(aggregated.targets, tmp_path)
    try:
        load = send_load(aggregated.url, 60, 8, 32)
        work = settled(agent, "front", 60)
        counted("aggregated", load, work)
        assert (work["prompt_tokens"], work["output_tokens"]) == (load.prompt_tokens, load.tokens)
        assert work["ttft_seconds"]["count"] == load.answered == 60
        left = send_load(aggregated.url, 20, 4, 256, hang_up=6)
        both = settled(agent, "front", 80)
        tell(f"Dynamo, 6 of 20 hang up: clients {left}; agent cancelled {both['cancelled']}, failed {both['failed']}")
        assert (both["answered"], both["failed"]) == (60 + left.answered, 0)
        assert both["cancelled"] == left.hung_up == 6
    finally:
        agent.server.stop()


def test_a_killed_worker_is_named_and_its_cut_off_streams_are_errors(aggregated: Dynamo, tmp_path: Path) -> None:
    """A stream that breaks off was HTTP 200 for its client, and no engine knows of it."""
    agent = watching(aggregated.targets, tmp_path)
    try:
        killer = threading.Thread(target=lambda: (time.sleep(2.0), aggregated.workers["worker-1"].kill()))
        killer.start()
        load = send_load(aggregated.url, 60, 8, 200)
        killer.join()
        work = settled(agent, "front", 60)
        counted("one of two workers killed", load, work)
        assert load.bad > 0
        assert work["output_tokens"] >= load.tokens
        alert = alert_about(agent, "EngineUnreachable", "worker-1")
        tell(f"Dynamo, the kill: {alert['annotations']['summary']}; reasons {work['failed_by_reason']}")
        assert agent.health("worker-0") == "up"
        burning = next(s for s in agent.api("slos")["slos"] if s["name"] == "front")
        assert burning["budget"]["counts"]["bad"] == load.bad
    finally:
        agent.server.stop()


def test_prefill_and_decode_count_once_and_their_roles_are_known(disaggregated: Dynamo, tmp_path: Path) -> None:
    """Each request has two legs; at the front end it is one. Roles come from the workers' own pages."""
    agent = watching(disaggregated.targets, tmp_path)
    try:
        load = send_load(disaggregated.url, 40, 4, 24)
        work = settled(agent, "front", 40)
        counted("prefill and decode", load, work)
        assert (work["prompt_tokens"], work["output_tokens"]) == (load.prompt_tokens, load.tokens)
        roles = {one["name"]: one["role"] for one in agent.api("targets")["targets"]}
        tell("Dynamo, roles:", roles)
        assert (roles["prefill-0"], roles["decode-0"], roles["decode-1"]) == ("prefill", "decode", "decode")
        killer = threading.Thread(target=lambda: (time.sleep(1.5), disaggregated.workers["decode-1"].kill()))
        killer.start()
        after = send_load(disaggregated.url, 40, 4, 200)
        killer.join()
        both = settled(agent, "front", 80)
        tell(f"Dynamo, a decode worker killed: clients {after}; agent failed {both['failed']}")
        assert both["failed"] == after.bad > 0
        assert both["answered"] == load.answered + after.answered
        alert_about(agent, "EngineUnreachable", "decode-1")
    finally:
        agent.server.stop()
