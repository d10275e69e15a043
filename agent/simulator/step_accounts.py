"""What a step leaves behind: tokens given out, KV grown, gaps and counters written."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from agent.simulator.ask import Sequence
from agent.simulator.blocks import BlockPool
from agent.simulator.decode_run import Run
from agent.simulator.kv_source import KvSource
from agent.simulator.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafts of so many tokens a step, each accepted with that chance as long as those before it were."""

    draft_tokens: int = 3
    acceptance_ratio: float = 0.7

    def draw(self, rng: Random) -> int:
        """Tokens of one step: the one that is always right, and the accepted ones."""
        accepted = 0
        while accepted < self.draft_tokens and rng.random() < self.acceptance_ratio:
            accepted += 1
        return 1 + accepted


@dataclass(slots=True)
class StepAccounts:
    """Writes the effects of steps; `finish` hears of every sequence that has given its last token."""

    pool: BlockPool
    telemetry: Telemetry
    kv_source: KvSource | None
    finish: Callable[[Sequence, float], None]
    speculation: Speculation | None
    rng: Random

    def account(self, run: Run, steps: int) -> None:
        """Everything that steps `run.done` to `steps` of the run did."""
        fresh, at_seconds = steps - run.done, run.end_of(steps)
        computed, generated, ended = self._decodes(run, steps)
        for sequence, tokens in run.plan.chunks:
            if sequence.has_ended:
                continue
            computed += tokens
            sequence.resident_tokens += tokens
            if sequence.resident_tokens == sequence.known_tokens:
                generated += 1
                self._token_after_chunk(sequence, at_seconds)
                if sequence.generated_tokens >= sequence.ask.output_tokens:
                    ended.append(sequence)
        run.done = steps
        self.telemetry.step(computed, generated, fresh)
        for sequence in ended:
            self.finish(sequence, at_seconds)

    def _decodes(self, run: Run, steps: int) -> tuple[int, int, list[Sequence]]:
        """Tokens computed and given out per step by those who decode, and who is done."""
        fresh, at_seconds, began_seconds = steps - run.done, run.end_of(steps), run.end_of(run.done)
        block_tokens, is_first = self.pool.block_tokens, run.done == 0
        on_time = given = 0
        stamps: list[float] | None = None
        ended: list[Sequence] = []
        for sequence in run.plan.decodes:
            if sequence.has_ended:
                continue
            if is_first and sequence.last_token_at_seconds != began_seconds:
                self.telemetry.gap(run.end_of(1) - (sequence.last_token_at_seconds or began_seconds))
                self.telemetry.gap_line(run.step_seconds(1), run.increment_seconds, fresh - 1, 1)
            else:
                on_time += 1
            tokens = fresh if self.speculation is None else self._speculate(self.speculation, sequence)
            given += tokens
            sequence.generated_tokens += tokens
            resident = sequence.resident_tokens = sequence.resident_tokens + tokens
            sequence.last_token_at_seconds = at_seconds
            if sequence.token_stamps is not None:
                if stamps is None:
                    stamps = [run.end_of(step) for step in range(run.done + 1, steps + 1)]
                sequence.token_stamps.extend(stamps if tokens == fresh else [at_seconds] * tokens)
            if resident > sequence.held_blocks * block_tokens:
                self.pool.grow(sequence, resident)
            if sequence.generated_tokens >= sequence.ask.output_tokens:
                ended.append(sequence)
        self.telemetry.gap_line(run.step_seconds(run.done), run.increment_seconds, fresh, on_time)
        return given // fresh, given // fresh, ended

    def _speculate(self, speculation: Speculation, sequence: Sequence) -> int:
        tokens = min(speculation.draw(self.rng), sequence.ask.output_tokens - sequence.generated_tokens)
        self.telemetry.add("spec_decode_num_drafts")
        self.telemetry.add("spec_decode_num_draft_tokens", speculation.draft_tokens)
        self.telemetry.add("spec_decode_num_accepted_tokens", tokens - 1)
        return tokens

    def _token_after_chunk(self, sequence: Sequence, at_seconds: float) -> None:
        """The first token, or the next one of a sequence that had to be computed again."""
        sequence.generated_tokens += 1
        if sequence.last_token_at_seconds is None:
            sequence.first_token_at_seconds = at_seconds
            self.telemetry.first_token(sequence, at_seconds)
            if self.kv_source is not None:
                self.kv_source.store(sequence, at_seconds)
        else:
            self.telemetry.gap(at_seconds - sequence.last_token_at_seconds)
        sequence.last_token_at_seconds = at_seconds
        if sequence.token_stamps is not None:
            sequence.token_stamps.append(at_seconds)
