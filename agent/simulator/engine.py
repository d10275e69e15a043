"""One vLLM V1 engine as a discrete-event model. Pure: it is told the time, and never waits.

Between two scheduling decisions a decode-only batch does equal work step after step, so those steps are one `Run`
with a closed form; an hour of a busy engine costs seconds.
"""

from collections import deque
from dataclasses import dataclass
from math import inf

from agent.simulator.ask import Ask, Sequence, State
from agent.simulator.blocks import BlockPool
from agent.simulator.decode_run import Run, run_of
from agent.simulator.kv_source import KvSource
from agent.simulator.residency import TOLD, BlockDiary
from agent.simulator.scheduler import Scheduler
from agent.simulator.seeds import stream
from agent.simulator.step_accounts import Speculation, StepAccounts
from agent.simulator.step_time import FRONT_END_SECONDS, StepTime
from agent.simulator.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How an engine was started. Defaults: vLLM's, and the KV size of the measured H200 (facts/h200.md).

    `front_end_noise_seconds` is the mean of an exponential delay on top of the front end's own; requests keep their
    order.
    """

    model: str = "llama8b"
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    max_model_len: int = 16_384
    num_gpu_blocks: int = 35_689
    block_tokens: int = 16
    front_end_seconds: float = FRONT_END_SECONDS
    front_end_noise_seconds: float = 0.0
    by_priority: bool = False
    speculation: Speculation | None = None


class Engine:
    """Submit requests in time order, and advance to a time; what ended meanwhile is told through `Sequence.on_end`."""

    def __init__(
        self, config: EngineConfig, law: StepTime, telemetry: Telemetry, *, kv_source: KvSource | None = None
    ) -> None:
        self.config = config
        self.law = law
        self.telemetry = telemetry
        diary = BlockDiary(telemetry) if TOLD in telemetry.histograms else None
        self.pool = BlockPool(config.num_gpu_blocks, config.block_tokens, diary)
        self.scheduler = Scheduler(
            self.pool,
            telemetry,
            config.max_num_batched_tokens,
            config.max_num_seqs,
            by_priority=config.by_priority,
            kv_source=kv_source,
            draft_tokens=config.speculation.draft_tokens if config.speculation else 0,
        )
        self._accounts = StepAccounts(
            self.pool, telemetry, kv_source, self._finish, config.speculation, stream(0, "speculation")
        )
        self.slowdown = 1.0
        self.now_seconds = -inf
        self.busy_seconds = 0.0
        self._arriving: deque[Sequence] = deque()
        self._last_entry_seconds = -inf
        self._noise = stream(0, "front end")
        self._run: Run | None = None
        self._stuck_since_seconds: float | None = None

    @property
    def requests_running(self) -> int:
        return len(self.scheduler.running)

    @property
    def requests_waiting(self) -> int:
        return len(self.scheduler.waiting) + len(self.scheduler.loading)

    @property
    def unfinished(self) -> int:
        """Requests that were submitted and have not ended."""
        return self.requests_running + self.requests_waiting + len(self._arriving)

    def next_boundary_seconds(self) -> float:
        """When something may end or begin here; infinity when nothing is in sight."""
        if self._stuck_since_seconds is not None:
            return inf
        return min(self._run.end_seconds if self._run else inf, self._next_entry_seconds())

    def next_step_seconds(self) -> float:
        """When the step in flight ends, or a request enters an idle engine; infinity when neither is in sight."""
        if self._run is None or self._stuck_since_seconds is not None:
            return self.next_boundary_seconds()
        return self._run.end_of(self._run.done + 1)

    def submit(self, ask: Ask, now_seconds: float, *, token_stamps: list[float] | None = None) -> Sequence:
        """Take a request in at `now_seconds`; one that can never fit fails at once."""
        sequence = Sequence(ask, now_seconds, token_stamps=token_stamps)
        sequence.queued_at_seconds = max(self._last_entry_seconds, now_seconds + self._front_end_seconds())
        tokens = ask.prompt_tokens + ask.output_tokens
        if tokens > self.config.max_model_len or self.pool.blocks_for(tokens) > self.config.num_gpu_blocks:
            self._end(sequence, "failed", now_seconds)
        else:
            self._last_entry_seconds = sequence.queued_at_seconds
            self._arriving.append(sequence)
        return sequence

    def release(self, sequence: Sequence, now_seconds: float) -> None:
        """The KV of a finished prefill leg has been pulled."""
        self.advance(now_seconds)
        self.pool.release(sequence)

    def abort(self, sequence: Sequence, now_seconds: float) -> None:
        """The client is gone. vLLM does not count such requests as finished."""
        if sequence.has_ended:
            return
        self.advance(now_seconds)
        if not sequence.has_ended:
            self._drop(sequence, "aborted", now_seconds)

    def crash(self, now_seconds: float) -> None:
        """Everything in the engine fails."""
        self.advance(now_seconds)
        for sequence in [*self.scheduler.everyone(), *self._arriving]:
            self._drop(sequence, "failed", now_seconds)
        self._run = None

    def set_slowdown(self, factor: float, now_seconds: float) -> None:
        """From the next step on, every step takes `factor` times as long (a hot or throttled GPU); 1 is healthy."""
        self.advance(now_seconds)
        self.slowdown = factor
        if self._run is not None:
            self._run.stop_after_current()

    def leak(self, blocks: int, now_seconds: float) -> None:
        """Lose so many free KV blocks for good; the step in flight keeps the ones it needs."""
        self.advance(now_seconds)
        self.pool.leak(max(0, min(blocks, self.pool.free_blocks - self.requests_running)))
        if self._run is not None:
            self._run.stop_after_current()

    def stick(self, now_seconds: float) -> None:
        """Hang in the step in flight, with the front end still answering, until `unstick`."""
        self.advance(now_seconds)
        if self._stuck_since_seconds is None:
            self._stuck_since_seconds = now_seconds
            if self._run is not None:
                self._run = self._run.current_step()

    def unstick(self, now_seconds: float) -> None:
        """Go on; the step in flight took as much longer as the engine hung."""
        if self._stuck_since_seconds is not None:
            if self._run is not None:
                self._run.first_seconds += now_seconds - self._stuck_since_seconds
            self._stuck_since_seconds = None
            self.now_seconds = max(self.now_seconds, now_seconds) if self._run is None else self.now_seconds

    def advance(self, until_seconds: float) -> None:
        """Do everything that is over by then."""
        while self._stuck_since_seconds is None:
            if self._run is None and not self._start(until_seconds):
                break
            run = self._run
            if run is None:
                continue
            entry_seconds = self._next_entry_seconds()
            horizon_seconds = min(until_seconds, entry_seconds)
            steps = run.steps_by(horizon_seconds)
            if steps > run.done:
                self.busy_seconds += run.end_of(steps) - run.end_of(run.done)
                self._accounts.account(run, steps)
            if run.done == run.limit:
                self.now_seconds = run.end_seconds
                self._run = None
            elif entry_seconds <= until_seconds:
                if self._enter(entry_seconds) or run.plan.is_open:
                    run.stop_after_current()
            else:
                break

    def _front_end_seconds(self) -> float:
        """How long the front end takes for one request."""
        noise = self.config.front_end_noise_seconds
        return self.config.front_end_seconds + (self._noise.expovariate(1 / noise) if noise else 0.0)

    def _start(self, until_seconds: float) -> bool:
        """Begin the next run, or go to the next arrival; False when there is nothing to do before `until_seconds`."""
        self._enter(self.now_seconds)
        plan = self.scheduler.plan(self.now_seconds)
        if plan.decodes or plan.chunks:
            resident = sum(sequence.resident_tokens for sequence in self.scheduler.running)
            may_run = self.config.speculation is None
            self._run = run_of(plan, self.law, self.pool, resident, self.now_seconds, self.slowdown, may_run=may_run)
            return True
        next_seconds = self._next_entry_seconds()
        if plan.post_seconds:
            next_seconds = min(next_seconds, self.now_seconds + plan.post_seconds)
        if next_seconds > until_seconds:
            return False
        self.now_seconds = max(self.now_seconds, next_seconds)
        return True

    def _finish(self, sequence: Sequence, at_seconds: float) -> None:
        self.scheduler.remove(sequence, keep_blocks=sequence.ask.leg == "prefill")
        self.telemetry.finished(sequence, at_seconds)
        self._end(sequence, "finished", at_seconds)

    def _drop(self, sequence: Sequence, state: State, now_seconds: float) -> None:
        self.scheduler.remove(sequence)
        self._arriving = deque(other for other in self._arriving if other is not sequence)
        self._end(sequence, state, now_seconds)
        if self._run is not None:
            self._run.stop_after_current()

    def _end(self, sequence: Sequence, state: State, at_seconds: float) -> None:
        sequence.state = state
        sequence.ended_at_seconds = at_seconds
        if sequence.on_end is not None:
            sequence.on_end(sequence)

    def _enter(self, now_seconds: float) -> bool:
        while self._arriving and self._arriving[0].queued_at_seconds <= now_seconds:
            self.scheduler.enqueue(self._arriving.popleft())
        return self.scheduler.collect_loaded(now_seconds)

    def _next_entry_seconds(self) -> float:
        arrival = self._arriving[0].queued_at_seconds if self._arriving else inf
        return min(arrival, *(ready for ready, _ in self.scheduler.loading), inf)
