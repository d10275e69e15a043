"""`slo-agent run` and `record` as real processes: signals, a taken port, and what is left when they are gone."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from probes.recording import read_entries

PATIENCE_SECONDS = 40.0
CONFIG = """
tick_seconds: 0.2
gpu: {{enabled: "no"}}
scrape: {{interval_seconds: 0.2, timeout_seconds: 0.2}}
targets: [{{name: a, url: "http://127.0.0.1:9"}}]
canaries: [{{kind: chat, interval_seconds: 1}}]
server: {{listen: "127.0.0.1:{port}"}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  our own
        return bool(answer.status == 200)
    return False


def children_of(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        found |= {int(child) for child in (task / "children").read_text().split()}
    return found


def is_alive(pid: int) -> bool:
    """Not gone, and no zombie that only waits for whoever adopted it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextlib.contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The process with its output in files; killed at the end, should it still be there."""
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen([sys.executable, "-m", "agent.cli", *arguments], stdout=out, stderr=err, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 0, no traceback, no child left, the port free; SIGHUP before it only reads the config again."""
    port = free_port()
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG.format(port=port))
    err = tmp_path / "err"
    with started(tmp_path, "run", "-c", str(path)) as process:
        until(lambda: answers(f"http://127.0.0.1:{port}/-/ready"), "it is ready")
        children = children_of(process.pid)
        assert children
        path.write_text("targets: 7\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "reload refused mistakes=1" in err.read_text(), "the bad config was refused")
        path.write_text(CONFIG.format(port=port) + "goodput: {ttft_seconds: 1}\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "reloaded config_hash=" in err.read_text(), "the good config was taken")
        assert answers(f"http://127.0.0.1:{port}/-/ready")
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0
    until(lambda: not any(is_alive(child) for child in children), "its children were gone")
    assert "Traceback" not in err.read_text()
    assert "agent stopped" in err.read_text()
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_signal_in_its_first_moments_does_not_break_it(tmp_path: Path) -> None:
    """Whenever SIGTERM comes, it ends without a traceback (before the interpreter is up, the signal's own way)."""
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG.format(port=free_port()))
    for pause in (0.5, 1.0, 1.5):
        with started(tmp_path, "run", "-c", str(path)) as process:
            time.sleep(pause)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) in (0, -signal.SIGTERM)
        assert "Traceback" not in (tmp_path / "err").read_text()


def test_when_it_is_killed_its_canaries_end_too(tmp_path: Path) -> None:
    """SIGKILL leaves nobody to clean up: the probing process sees its input end."""
    port = free_port()
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG.format(port=port))
    with started(tmp_path, "run", "-c", str(path)) as process:
        until(lambda: answers(f"http://127.0.0.1:{port}/-/ready"), "it is ready")
        children = children_of(process.pid)
        assert children
        process.kill()
        process.wait()
    until(lambda: not any(is_alive(child) for child in children), "its children were gone")


def test_a_taken_port_is_a_sentence_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = tmp_path / "agent.yaml"
        path.write_text(CONFIG.format(port=port))
        with started(tmp_path, "run", "-c", str(path)) as process:
            assert process.wait(PATIENCE_SECONDS) == 2
    assert (tmp_path / "err").read_text().splitlines()[-1] == (
        f"slo-agent: cannot listen on 127.0.0.1:{port}: address already in use. "
        "Is another agent running? Set server.listen to another port: server: {listen: 127.0.0.1:9471}."
    )


def test_record_writes_what_it_saw_and_ends_by_itself(tmp_path: Path) -> None:
    path, out = tmp_path / "agent.yaml", tmp_path / "r.jsonl.gz"
    state = tmp_path / "state.db"
    down = "scrape: {interval_seconds: 0.2, timeout_seconds: 0.2, down_after_seconds: 0.4}"
    config = CONFIG.format(port=free_port()) + f"state: {{path: {state}}}\n"
    path.write_text(config.replace("scrape: {interval_seconds: 0.2, timeout_seconds: 0.2}", down))
    with started(tmp_path, "record", "-c", str(path), "--out", str(out), "--for", "3s") as process:
        assert process.wait(PATIENCE_SECONDS) == 0
    assert f"wrote {out}" in (tmp_path / "out").read_text()
    assert "warning: a never answered: " in (tmp_path / "out").read_text(), "told at the end, too"
    assert "alert" not in (tmp_path / "err").read_text(), "nobody is told, so nothing fires"
    assert not state.exists(), "the memory is that of the agent that runs"
    entries = list(read_entries(out))
    looks = [json.loads(entry.body) for entry in entries if entry.source == "scrape"]
    assert looks
    assert {look["outcome"] for look in looks} == {"connect_refused"}
    assert "probe" in {entry.source for entry in entries}
    assert [entry.at_seconds for entry in entries] == sorted(entry.at_seconds for entry in entries)
