"""The demo as a newcomer sees it: a story with an end, a clean Ctrl-C, and a recording that tells the same again."""

import json
import os
import signal
from pathlib import Path

import pytest
import yaml
from live_agent import slo_agent
from live_demo import Told, Transition, start_demo
from live_figures import tell
from live_parts import ROOT
from live_process import descendants, is_alive, until

pytestmark = pytest.mark.real
CONFIG = ROOT / "agent" / "demo.yaml"


def test_the_story_is_told_to_its_end(story: Told) -> None:
    """Overload, a page, advice that is followed and verified, recovery."""
    wanted = ("PAGE: chat-ttft", "ADVICE: Scale", ": kept", "resolved: SLOBurnRate", "The story is over")
    said = story.demo.said()
    assert [words for words in wanted if words not in said] == [], story.demo.lines()
    assert story.exit_code == 0


def test_nobody_is_paged_for_a_server_that_is_well(story: Told) -> None:
    """The story has one trouble, too much load. A simulator that lags behind its own clock would look unreachable."""
    names = {dict(row.labels)["alertname"] for row in story.demo.transitions(story.epoch_seconds)}
    assert names == {"SLOBurnRate"}, story.demo.lines()


def test_a_replay_of_the_recording_gives_the_same_alerts(story: Told) -> None:
    """Same names, labels and order. Its ticks have another phase: one reading and one tick may lie between."""
    config = yaml.safe_load(CONFIG.read_text())
    room_seconds = config["scrape"]["interval_seconds"] + config["tick_seconds"]
    live = story.demo.transitions(story.epoch_seconds)
    replayed = replay_of(story.demo.recording)
    tell(f"replay: {len(replayed)} alert transitions, live {len(live)}")
    assert [(row.state, row.labels) for row in replayed] == [(row.state, row.labels) for row in live]
    apart = [after.at_seconds - before.at_seconds for before, after in zip(live, replayed, strict=True)]
    tell(f"replay: transitions apart from the live ones by {min(apart):.1f} to {max(apart):.1f} s of the story")
    assert max(map(abs, apart)) <= room_seconds


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    """A terminal sends it to the whole process group."""
    demo = start_demo(tmp_path)
    try:
        until("it has read the engines", 90, lambda: "outcome=ok" in demo.said())
        family = descendants(demo.server.pid)
        assert len(family) >= 2, "the simulator and the canaries have processes of their own"
        os.killpg(demo.server.pid, signal.SIGINT)
        until("it has ended", 30, lambda: demo.server.exit_code() is not None)
        assert demo.server.exit_code() == 0, demo.said()
        until("its processes are gone", 30, lambda: not any(map(is_alive, family)))
        assert demo.said().rstrip().endswith("stopped.")
        assert "Traceback" not in demo.said()
    finally:
        demo.server.stop()


def replay_of(recording: Path) -> list[Transition]:
    ended = slo_agent("replay", recording, "-c", CONFIG, "--json")
    assert ended.returncode == 1, ended.stdout + ended.stderr  # it would have paged
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    alerts = [(line["at"], line["alert"]) for line in lines if "alert" in line]
    return [Transition(at, alert["state"], tuple(sorted(alert["labels"].items()))) for at, alert in alerts]
