"""`slo-agent demo` from beginning to end, and what it said, as rows."""

import re
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from live_agent import SLO_AGENT
from live_http import get_json
from live_parts import free_port
from live_process import Server, command_line, descendants

STORY_SECONDS = 900.0  # about five minutes on an idle machine
LOGGED = re.compile(
    r"^(\S+ \S+) WARNING agent\.alert_lines alert (firing|resolved) (.*?)(?: summary=.*)?$", re.MULTILINE
)


class Transition(NamedTuple):
    """An alert that began or ended. `at_seconds` is the story's time."""

    at_seconds: float
    state: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Demo:
    """A demo that runs or has run. Its log has what it says and, at level info, what the agent logs."""

    server: Server
    url: str
    recording: Path
    speed: float

    def said(self) -> str:
        return self.server.log.read_text(errors="replace")

    def lines(self) -> str:
        """Only the story: what has a minute before it."""
        return "\n" + "\n".join(line for line in self.said().splitlines() if line.startswith("["))

    def epoch_seconds(self) -> float:
        """Where its scaled time begins; the simulator it has started is told so."""
        lines = map(command_line, descendants(self.server.pid))
        (epoch,) = {found[1] for line in lines if (found := re.search(r"--epoch (\S+)", line))}
        return float(epoch)

    def transitions(self, epoch_seconds: float) -> list[Transition]:
        """What its agent logged."""
        rows = []
        for stamp, state, words in LOGGED.findall(self.said()):
            real = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
            labels = tuple(sorted(tuple(word.split("=", 1)) for word in words.split()))
            rows.append(Transition(epoch_seconds + (real - epoch_seconds) * self.speed, state, labels))
        return rows


@dataclass(frozen=True)
class Told:
    """A demo that has come to its end by itself. Stamps are real time."""

    demo: Demo
    epoch_seconds: float
    from_seconds: float
    to_seconds: float
    exit_code: int


def start_demo(folder: Path, *words: str, speed: float = 20.0) -> Demo:
    """The demo on free ports, once it answers."""
    port, recording = free_port(), folder / "demo.jsonl.gz"
    command = [SLO_AGENT, "demo", "--speed", f"{speed:g}", "--listen", f"127.0.0.1:{port}"]
    command += ["--record", recording, "--log-level", "info", *words]
    demo = Demo(Server(command, folder / "demo.log"), f"http://127.0.0.1:{port}", recording, speed)
    demo.server.start_until("the demo answers", 90, lambda: get_json(f"{demo.url}/api/v1/status")["ready"])
    return demo


def told_to_its_end(demo: Demo) -> Told:
    """Waits for `demo --exit`. Raises AssertionError when it goes on for ever."""
    epoch_seconds, began = demo.epoch_seconds(), time.time()
    while demo.server.exit_code() is None and time.time() < began + STORY_SECONDS:
        time.sleep(0.5)
    exit_code = demo.server.exit_code()
    assert exit_code is not None, f"the story did not end within {STORY_SECONDS:.0f} s\n{demo.server.said()}"
    return Told(demo, epoch_seconds, began, time.time(), exit_code)
