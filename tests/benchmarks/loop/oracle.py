"""Two oracles: they know every request before it comes, and what a replica can do."""

from dataclasses import dataclass, field
from math import ceil

from loop.services import Service
from loop.world import COLD_MEAN, COLD_SPREAD, START, World

from agent.simulator.step_time import LinearStepTime

BIN_SECONDS = 15.0
AHEAD_SECONDS = COLD_MEAN + 2 * COLD_SPREAD
HOLD_SECONDS = 240.0  # a replica that is needed again so soon is kept: a cold start costs half as much


def work_by_bin(service: Service, law: LinearStepTime, seed: int) -> list[float]:
    """Busy seconds per second that the requests of each bin bring: c_p·new input + output·(c_d + c_k·context).

    Leading blocks of a prompt that came before count as cached, as if nothing were ever evicted.
    """
    bins, known = [0.0] * (int(service.seconds / BIN_SECONDS) + 1), set[int]()
    for at, ask in service.requests(seed):
        if at < service.seconds:
            context = ask.prompt_tokens + ask.output_tokens / 2
            decode = law.decode_seconds_per_sequence + law.decode_seconds_per_kv_token * context
            cached = next((i for i, block in enumerate(ask.block_hashes) if block not in known), len(ask.block_hashes))
            known.update(ask.block_hashes)
            fresh = max(1, ask.prompt_tokens - cached * service.block_tokens)
            work = law.prefill_seconds_per_token * fresh + ask.output_tokens * decode
            bins[int(at / BIN_SECONDS)] += work / BIN_SECONDS
    return bins


@dataclass(slots=True)
class Oracle:
    """Has, at every moment, the fewest replicas that keep their share of busy time under `target_ratio`.

    With a cold start it asks for replicas early enough, and pays for them while they start.
    """

    work: list[float]
    target_ratio: float
    has_cold_start: bool
    smooth_seconds: float = 60.0
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        span = max(1, int(self.smooth_seconds / BIN_SECONDS))
        smooth = [
            sum(self.work[max(0, i - span + 1) : i + 1]) / len(self.work[max(0, i - span + 1) : i + 1])
            for i in range(len(self.work))
        ]
        self.counts = [max(1, ceil(each / self.target_ratio)) for each in smooth]

    def first_count(self) -> int:
        """Enough until something that is asked for at the start can be there."""
        return max(self.counts[: int(AHEAD_SECONDS / BIN_SECONDS) + 1])

    def decide(self, world: World, now_seconds: float) -> int | None:
        at = int((now_seconds - START) / BIN_SECONDS)
        ahead = int(AHEAD_SECONDS / BIN_SECONDS) if self.has_cold_start else 1
        hold = int(HOLD_SECONDS / BIN_SECONDS) if self.has_cold_start else 1
        need = max(self.counts[at : at + ahead + 1], default=1)
        if need > world.wanted:
            return need
        return max(need, max(self.counts[at : at + hold + 1], default=1))
