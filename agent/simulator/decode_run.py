"""A stretch of equal engine steps, counted instead of stepped through: step i lasts first + i·increment."""

from dataclasses import dataclass
from math import sqrt

from agent.simulator.blocks import BlockPool
from agent.simulator.scheduler import Plan
from agent.simulator.step_time import StepTime


@dataclass(slots=True)
class Run:
    """`limit` steps of one plan from `start_seconds` on; `done` of them have been accounted for."""

    plan: Plan
    start_seconds: float
    first_seconds: float
    increment_seconds: float = 0.0
    limit: int = 1
    done: int = 0

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
        return Run(self.plan, self.end_of(self.done), self.step_seconds(self.done))


def run_of(
    plan: Plan,
    law: StepTime,
    pool: BlockPool,
    resident_tokens: int,
    now_seconds: float,
    slowdown: float,
    *,
    may_run: bool,
) -> Run:
    """The steps that follow from a plan: one where a prompt is in it, as many as stay alike where all decode.

    `resident_tokens` are those of all running sequences before the step; `may_run` allows more than one step.
    """
    decodes = len(plan.decodes)
    if not plan.chunks and not plan.post_seconds and may_run:
        line = law.decode_line(decodes, resident_tokens + decodes)
        if line is not None:
            first, increment = line
            return Run(plan, now_seconds, first * slowdown, increment * slowdown, _alike(plan, pool))
    prefill = context = 0
    for sequence, tokens in plan.chunks:
        prefill += tokens
        context += tokens * sequence.resident_tokens + tokens * (tokens - 1) // 2
    seconds = law.seconds(prefill, context, decodes, resident_tokens + prefill + decodes)
    return Run(plan, now_seconds, seconds * slowdown + plan.post_seconds)


def _alike(plan: Plan, pool: BlockPool) -> int:
    """Steps until the first sequence ends or the blocks run out (the first step's are held already)."""
    limit = min(sequence.ask.output_tokens - sequence.generated_tokens for sequence in plan.decodes)
    block_tokens, free = pool.block_tokens, pool.free_blocks
    if len(plan.decodes) * (limit // block_tokens + 1) <= free:
        return limit
    room = [sequence.held_blocks * block_tokens - sequence.resident_tokens for sequence in plan.decodes]
    low, high = 1, limit
    while low < high:
        steps = (low + high + 1) // 2
        if sum(-(-(steps - slots) // block_tokens) for slots in room if steps > slots) <= free:
            low = steps
        else:
            high = steps - 1
    return low
