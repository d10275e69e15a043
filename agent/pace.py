"""How fast a story may run here: what this machine can simulate, and whether it keeps up while it runs."""

import math
import time
from dataclasses import dataclass

from agent.simulator.scenarios import SCENARIOS

FASTEST, USUAL, SLOWEST = 100.0, 20.0, 1.0
SHARE = 0.1  # of what the machine could simulate alone: the agent, its canaries and a browser want the rest
SAMPLE_SECONDS = (470.0, 530.0)  # of the demo's story: from just before the overload until a queue stands
LATE_SECONDS = 10.0  # of the story: a reading later than the next one is due makes figures wrong


def machine_speed() -> float:
    """Seconds of the demo's overload that one core of this machine simulates in one second, as busy as it now is."""
    start, end = SAMPLE_SECONDS
    fleet = SCENARIOS["demo"].stage(0, -start).fleet
    fleet.settle(0.0)
    began = time.perf_counter()
    fleet.settle(end - start)
    return (end - start) / (time.perf_counter() - began)


def default_speed(machine: float) -> float:
    """20, or less where the machine is slow: the whole number that leaves it most of its time."""
    return max(SLOWEST, min(USUAL, float(math.floor(SHARE * machine))))


def outruns(speed: float, machine: float) -> bool:
    """Whether so fast a story leaves such a machine too little time for anything else."""
    return speed > max(SLOWEST, SHARE * machine)


@dataclass(slots=True)
class Lateness:
    """Watches how late the simulator and the agent are, in the story's seconds, and says so when it harms."""

    speed: float
    _told: float = LATE_SECONDS / 2

    def judge(self, simulator_seconds: float, agent_seconds: float) -> str | None:
        """A sentence when this machine cannot keep up; said again only when it gets twice as bad."""
        worst = max(simulator_seconds, agent_seconds)
        if worst <= 2 * self._told:
            return None
        self._told = worst
        who = "the simulator" if simulator_seconds >= agent_seconds else "the agent"
        return (
            f"this machine cannot keep up at {self.speed:g}x: {who} was {worst:.0f} s of the story late, so figures "
            f"are late and targets may seem to be gone; {self._mend(worst)}"
        )

    def _mend(self, worst: float) -> str:
        """The speed at which the same pause would have been shorter than the time between two readings."""
        slower = math.floor(min(self.speed / 2, self.speed * LATE_SECONDS / worst))
        return f"try --speed {slower}" if slower >= SLOWEST else "stop other programs and start the demo again"
