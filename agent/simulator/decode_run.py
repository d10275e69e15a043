"""A stretch of equal engine steps, counted instead of stepped through: step i lasts first + i·increment."""

from dataclasses import dataclass
from math import sqrt

from agent.simulator.scheduler import Plan


@dataclass(slots=True)
class Run:
    """`limit` steps of one plan from `start_seconds` on; `done` of them have been accounted for."""

    plan: Plan
    start_seconds: float
    first_seconds: float
    increment_seconds: float = 0.0
    limit: int = 1
    done: int = 0
    is_decode: bool = False

    @property
    def end_seconds(self) -> float:
        return self.end_of(self.limit)

    def end_of(self, steps: int) -> float:
        """When so many steps of the run are done."""
        return self.start_seconds + steps * self.first_seconds + self.increment_seconds * (steps * (steps - 1) / 2)

    def step_seconds(self, step: int) -> float:
        """How long the step with that index lasts."""
        return self.first_seconds + step * self.increment_seconds

    def steps_by(self, at_seconds: float) -> int:
        """How many steps are done by then, between `done` and `limit`."""
        if self.end_seconds <= at_seconds:
            return self.limit
        passed = at_seconds - self.start_seconds
        if passed <= 0:
            return self.done
        half = self.first_seconds - self.increment_seconds / 2
        guess = 2 * passed / (half + sqrt(half * half + 2 * self.increment_seconds * passed))
        steps = min(max(int(guess), self.done), self.limit)
        while steps < self.limit and self.end_of(steps + 1) <= at_seconds:
            steps += 1
        while steps > self.done and self.end_of(steps) > at_seconds:
            steps -= 1
        return steps

    def stop_after_current(self) -> None:
        """Let the step in flight be the last one."""
        self.limit = min(self.limit, self.done + 1)

    def current_step(self) -> "Run":
        """The step in flight alone."""
        first = self.step_seconds(self.done)
        return Run(self.plan, self.end_of(self.done), first, is_decode=self.is_decode)
