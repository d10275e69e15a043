"""A real vllm-router: in front of two real vLLM, one killed; and between stubs that prefill and decode."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_agent import RunningAgent
from live_figures import tell
from live_http import get_text
from live_load import Load, send_load
from live_neighbours import SEEN_SECONDS, alert_about, settled, watching
from live_parts import NEIGHBOURS_SCRIPT, ROOT, SLO_PYTHON, free_port, neighbours_folder, vllm_folder
from live_process import Server, until
from live_vllm import RealVllm

pytestmark = [pytest.mark.real, pytest.mark.neighbours]
START_SECONDS = 120.0
FAIL_EVERY = 4


class Router:
    """One in front of these workers, which answer already."""

    def __init__(self, folder: Path, *workers: str) -> None:
        port, page = free_port(), free_port()
        self.url, self.page = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{page}"
        self.target = {"name": "front", "url": self.url, "metrics_url": self.page, "kind": "vllm_router"}
        command = ["bash", NEIGHBOURS_SCRIPT, "router", neighbours_folder(), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(page), "--policy", "round_robin"]
        command += ["--worker-startup-check-interval", "1", "--health-check-interval-secs", "2", *workers]
        self.server = Server(command, folder / "router.log")
        self.server.start_until("the router serves", START_SECONDS, lambda: get_text(f"{self.url}/v1/models"))


class Stub:
    """A worker that is none: see stub_engine.py."""

    def __init__(self, folder: Path, name: str, fail_every: int = 0) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        stub = ROOT / "tests" / "live" / "stub_engine.py"
        self.server = Server([SLO_PYTHON, stub, str(port), str(fail_every)], folder / f"{name}.log")
        self.server.start_until("the stub answers", START_SECONDS, lambda: get_text(f"{self.url}/v1/models"))


def counted(what: str, load: Load, work: dict[str, Any]) -> None:
    """The agent's counts are the clients'; a stream that broke off was answered, for all that the router knows."""
    tell(f"vllm-router, {what}: clients {load}; agent", {k: work[k] for k in ("answered", "failed", "worker_failures")})
    assert (work["answered"], work["failed"]) == (load.answered + load.cut, load.failed)


def test_prefill_and_decode_over_stubs(tmp_path: Path) -> None:
    """A decode worker fails every fourth request, then it is killed; at last nobody prefills."""
    prefill, decode = Stub(tmp_path, "prefill"), Stub(tmp_path, "decode")
    failing = Stub(tmp_path, "failing", FAIL_EVERY)
    words = ["--vllm-pd-disaggregation", "--prefill", prefill.url, "none", "--decode", decode.url]
    router = Router(tmp_path, *words, "--decode", failing.url)
    agent = None
    try:
        agent = watching([router.target], tmp_path)
        load = send_load(router.url, 40, 4, 8)
        counted("P/D, every 4th of one decode worker fails", load, settled(agent, "front", 40))
        assert load.failed == 20 // FAIL_EVERY
        failing.server.kill()
        more = send_load(router.url, 40, 4, 8)
        load = _together(load, more)
        counted("P/D, that decode worker killed", load, settled(agent, "front", 80))
        assert more.failed > 0
        alert = alert_about(agent, "EngineUnreachable", failing.url)
        tell("vllm-router, the kill:", alert["annotations"]["description"])
        prefill.server.kill()
        load = _together(load, send_load(router.url, 10, 2, 8))
        until("the router misses it", SEEN_SECONDS, lambda: f'{prefill.url}"}} 0' in get_text(f"{router.page}/metrics"))
        load = _together(load, send_load(router.url, 10, 2, 8))
        counted("P/D, nobody prefills", load, settled(agent, "front", 100))
        alert_about(agent, "EngineUnreachable", prefill.url)
    finally:
        for server in (prefill.server, decode.server, failing.server, router.server):
            server.kill()
        if agent is not None:
            agent.server.stop()


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[RealVllm]]:
    """Two real vLLM."""
    started: list[RealVllm] = []
    try:
        for number in range(2):
            (folder := tmp_path / f"vllm-{number}").mkdir()
            started.append(RealVllm(vllm_folder(), folder))
            started[-1].start()
        yield started
    finally:
        for engine in started:
            engine.stop()


def test_two_real_engines_one_killed(engines: list[RealVllm], tmp_path: Path) -> None:
    """Requests at the router and tokens at the engines are the clients'; the router's retries hide most of the kill."""
    router = Router(tmp_path, "--worker-urls", *(engine.url for engine in engines))
    agent = None
    try:
        send_load(router.url, 4, 2, 4)  # what is compiled at a first request
        targets = [{"name": f"vllm-{n}", "url": engine.url, "kind": "vllm"} for n, engine in enumerate(engines)]
        agent = watching([router.target, *targets], tmp_path)
        load = send_load(router.url, 24, 4, 24)
        work = settled(agent, "front", 24)
        counted("two engines", load, work)
        total = until("the engines' pages were read", SEEN_SECONDS, lambda: _engines(agent, 24))
        tell("vllm-router, at the engines:", {k: total[k] for k in ("requests_finished", "generation_tokens")})
        assert (total["requests_finished"], total["generation_tokens"]) == (load.answered, load.tokens)
        assert total["prompt_tokens"] == load.prompt_tokens
        killer = threading.Thread(target=lambda: (time.sleep(1.0), engines[1].kill()))
        killer.start()
        after = send_load(router.url, 40, 4, 24)
        killer.join()
        counted("one of two engines killed", _together(load, after), settled(agent, "front", 64))
        alert = alert_about(agent, "EngineUnreachable", "vllm-1")
        tell("vllm-router, the kill:", alert["annotations"]["summary"], "cut off for clients:", after.cut)
        assert agent.health("vllm-0") == "up"
        assert after.answered > 0
    finally:
        router.server.kill()
        if agent is not None:
            agent.server.stop()


def _engines(agent: RunningAgent | None, requests: int) -> dict[str, Any] | None:
    """What all engines did together, once they have ended so many requests."""
    assert agent is not None
    total: dict[str, Any] = agent.api("signals", window_seconds="3600")["total"]["signals"]
    return total if (total["requests_finished"] or 0) >= requests else None


def _together(first: Load, second: Load) -> Load:
    return Load(
        first.answered + second.answered,
        first.failed + second.failed,
        first.cut + second.cut,
        first.hung_up + second.hung_up,
        first.prompt_tokens + second.prompt_tokens,
        first.tokens + second.tokens,
    )
