"""The real servers that several files share."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest
from live_agent import RunningAgent
from live_demo import Told, start_demo, told_to_its_end
from live_figures import TOLD, tell
from live_parts import vllm_folder
from live_process import until
from live_prometheus import Prometheus
from live_vllm import RealVllm


@pytest.fixture(scope="session")
def vllm_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    """One vLLM for all files: starting it takes most of a minute."""
    vllm = RealVllm(vllm_folder(), tmp_path_factory.mktemp("vllm"))
    try:
        yield vllm
    finally:
        vllm.stop()


@pytest.fixture(scope="module")
def vllm(vllm_session: RealVllm) -> RealVllm:
    """That vLLM, serving."""
    vllm_session.start()
    return vllm_session


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One Prometheus, which remembers: what it saw of the demo can be asked afterwards."""
    started = Prometheus(tmp_path_factory.mktemp("prometheus"))
    try:
        yield started
    finally:
        started.server.stop()


@pytest.fixture(scope="session")
def killed_agent(prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an agent that Prometheus has scraped, and that was killed then: rules wait for minutes."""
    agent = RunningAgent({"gpu": {"enabled": "no"}}, tmp_path_factory.mktemp("killed"))
    try:
        prometheus.watch(agent.url)
        look = f'slo_agent_config_info{{instance="{agent.url.removeprefix("http://")}"}}'
        until("Prometheus has scraped it", 60, lambda: prometheus.now(look))
    finally:
        agent.server.kill()
    return agent.url


@pytest.fixture(scope="session")
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """One telling of the demo for all files; where there is a Prometheus, it watches."""
    demo = start_demo(tmp_path_factory.mktemp("demo"), "--exit")
    try:
        if shutil.which("prometheus"):
            request.getfixturevalue("killed_agent")
            request.getfixturevalue("prometheus").watch(demo.url)
        told = told_to_its_end(demo)
        tell(f"the demo at {demo.speed:g}x: {told.to_seconds - told.from_seconds:.0f} s, exit code {told.exit_code}")
        yield told
    finally:
        with contextlib.suppress(AssertionError):
            demo.server.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures that were measured against real systems, whether the tests passed or not."""
    if TOLD:
        terminalreporter.section("measured against real systems")
        for line in TOLD:
            terminalreporter.write_line(line)
