"""What canaries remember of a server from one run to the next, for the life of the process."""

from dataclasses import dataclass, field

from probes.canary.dialect import Dialects


@dataclass(frozen=True, slots=True)
class Seed:
    """The cold half of a pair: what was sent, what it felt like, and when its warm half is due (monotonic seconds)."""

    salt: str
    sent_at_seconds: float
    due_at_seconds: float
    ttft_seconds: float | None
    cached_tokens: int | None
    text: str


@dataclass(slots=True)
class Memory:
    """Keyed by the server's base and the model: a gateway may have a strict model beside one that takes everything."""

    dialects: Dialects = field(default_factory=Dialects)
    models: dict[str, str] = field(default_factory=dict)  # the first model each base lists
    seeds: dict[tuple[str, str, str], Seed] = field(default_factory=dict)  # by rank: each has a cache of its own
    strikes: dict[tuple[str, str, str, str], int] = field(default_factory=dict)  # by rank and question
    vectors: dict[tuple[str, str, str], tuple[float, ...]] = field(default_factory=dict)  # by text
    logprobs: dict[tuple[str, str, str, str], list[float]] = field(default_factory=dict)  # by fingerprint and question
