"""`slo-agent demo`: what it needs is told before the story begins, with the option that mends it."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli import main

PATIENCE_SECONDS = 60.0


def test_a_taken_port_names_the_option_of_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["demo", "--speed", "20", "--listen", listen, "--exit"]) == 2
    assert capsys.readouterr().err == (
        f"slo-agent: cannot listen on {listen}: address already in use. "
        "Is another agent running? Give --listen 127.0.0.1:9471.\n"
    )


def test_the_help_has_the_limits_of_the_speed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert "1 to 100; default: 20" in " ".join(capsys.readouterr().out.split())


def test_the_page_says_when_the_story_began_and_a_signal_ends_it(tmp_path: Path) -> None:
    """The note has the speed and minute 0; SIGTERM leaves exit code 0 and nothing behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    words = [sys.executable, "-m", "agent.cli", "demo", "--speed", "20", "--listen", listen]
    out = tmp_path / "out"
    with out.open("w") as told, subprocess.Popen(words, stdout=told, stderr=told) as process:
        try:
            until(lambda: "Ctrl-C stops everything" in out.read_text(), "the page is open")
            with urllib.request.urlopen(f"http://{listen}/api/v1/status", timeout=PATIENCE_SECONDS) as answer:
                note = json.loads(answer.read())["note"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
    assert re.fullmatch(r"Demo: simulated engines, time runs 20x\. The story's minute 0 was \d\d:\d\d:\d\d on .*", note)
    assert "It takes about 81 seconds here" in out.read_text()
    assert out.read_text().endswith("stopped.\n")
    assert "Traceback" not in out.read_text()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)
