"""What canaries cost users, on the simulated H200: computed as `check` prints it, and measured over an hour.

The same users' requests are served twice, with and without canaries: by so much as their answers take longer, they were
held up. Users fill the KV cache with blocks of their own, so every block that a canary takes is one of theirs.
"""

# ruff: noqa: T201 - a benchmark prints its table

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge

from agent.simulator.ask import Ask
from agent.simulator.ask import Sequence as Served
from agent.simulator.plant import Plant
from probes.canary.cost_words import evicted_blocks_per_hour, stalled_seconds_per_hour
from probes.canary.item import CanaryItem
from probes.canary.kv_reuse import KvReuseCanary
from probes.canary.long_prompt import LongPromptCanary
from probes.catalogue import default_canaries

HOUR_SECONDS = 3600.0
FIRST_SECONDS = 30.123  # users are there by then; and between two of them
BLOCK = 16
FEW_BLOCKS = 10  # what a short canary holds while it runs comes from a full cache, too
USERS_PER_SECOND, PROMPT, OUTPUT = 3.0, 512, 512
Timed = tuple[float, Ask]


@dataclass(frozen=True)
class Load:
    """One hour: when users' answers ended, how many of their streams ran on average, and what was evicted."""

    seconds: list[float]
    streams: float
    evicted: int
    tokens: int


def users() -> list[Timed]:
    """Evenly spaced; each prompt has blocks that only its own next turn could share."""
    count = int(HOUR_SECONDS * USERS_PER_SECOND)
    blocks = PROMPT // BLOCK
    return [
        (n / USERS_PER_SECOND, Ask(f"user-{n}", PROMPT, OUTPUT, tuple(range(n * blocks, (n + 1) * blocks))))
        for n in range(count)
    ]


def canaries(items: Sequence[CanaryItem]) -> list[Timed]:
    """Their requests, begun between two of the users'; fresh prompts have blocks of their own, fixed ones the same."""
    asked: list[Timed] = []
    for kind, item in enumerate(items, 1):
        cost = item.cost()
        if not cost.tokens:
            continue
        prompt, output = cost.prompt_tokens // cost.requests, cost.output_tokens // cost.requests
        for run in range(int(HOUR_SECONDS / item.interval_seconds)):
            name = 1 + run if cost.fresh_prompt_tokens else 0
            hashes = tuple(-(kind * 10**9 + name * 10**4 + n) for n in range(prompt // BLOCK))
            at = FIRST_SECONDS + run * item.interval_seconds
            halves = [Ask(f"canary-{kind}-{run}-{half}", prompt, output, hashes) for half in range(cost.requests)]
            asked += ((at + 2.0 * half, ask) for half, ask in enumerate(halves))
    return sorted(asked, key=lambda timed: timed[0])


def served(*asks: list[Timed]) -> Load:
    engine = Plant().build("aggregated", 0, 0.0, 0.0).engine
    sequences: list[Served] = []
    for at, ask in merge(*asks, key=lambda timed: timed[0]):
        engine.advance(at)
        sequences.append(engine.submit(ask, at))
    engine.advance(HOUR_SECONDS + 60)
    ours = [s for s in sequences if s.ask.id.startswith("user")]
    took = [(s.last_token_at_seconds or 0.0) - s.arrived_at_seconds for s in ours]
    tokens = sum(s.ask.prompt_tokens + s.ask.output_tokens for s in sequences if not s.ask.id.startswith("user"))
    return Load(took, sum(took) / HOUR_SECONDS, engine.pool.evicted_blocks, tokens)


def test_what_canaries_cost_is_what_is_said_of_them() -> None:
    """A stream is held up while somebody else's prompt is prefilled, and at most by so much as `check` says, or half
    as much again: a canary also takes part in the steps that follow.
    """
    asked = users()
    alone = served(asked)
    users_tokens = len(asked) * (PROMPT + OUTPUT)
    print(
        f"\nan H200, {USERS_PER_SECOND:g} requests/s of {PROMPT}/{OUTPUT} tokens, {alone.streams:.1f} streams at once"
    )
    print(f"{'':<14}{'':>12}{'stalled stream-seconds/h':>26}{'evicted blocks/h':>20}")
    print(f"{'canaries':<14}{'token share':>12}{'computed':>16}{'measured':>10}{'computed':>10}{'measured':>10}")
    rows = []
    for name, items in {
        "the default": default_canaries(),
        "kv_reuse": [KvReuseCanary()],
        "long_prompt": [LongPromptCanary()],
        "8k prompts": [LongPromptCanary(prompt_tokens=8192, interval_seconds=600)],
    }.items():
        beside = served(asked, canaries(items))
        stalled = sum(with_ - without for with_, without in zip(beside.seconds, alone.seconds, strict=True))
        evicted = beside.evicted - alone.evicted
        said_stalled = sum(map(stalled_seconds_per_hour, items)) * alone.streams
        said_evicted = sum(map(evicted_blocks_per_hour, items))
        share = beside.tokens / (beside.tokens + users_tokens)
        print(f"{name:<14}{share:>12.4%}{said_stalled:>16.2f}{stalled:>10.2f}{said_evicted:>10.0f}{evicted:>10}")
        rows.append((stalled, said_stalled, evicted, said_evicted))
    for stalled, said_stalled, evicted, said_evicted in rows:
        assert stalled <= 1.5 * said_stalled
        assert said_stalled <= 1.5 * stalled
        assert evicted <= 1.05 * said_evicted + FEW_BLOCKS
