"""A rehearsal: vLLM's schedule gone through with a step-time model, to see what a load would feel like.

Means do not tell what an SLO counts: how many gaps hold somebody's prefill, and how long a prompt waits behind others.
So the load is played through: steps of one token budget over decodes, chunked prefills and the queue, first come, first
served; stretches of equal decode steps are taken at once. Repeatable: the same question has the same answer.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Literal

from agent.advice.step_model import StepModel

ROUNDS = 3  # requests per user of a closed loop: a client that sends three waves
OPEN_REQUESTS = 240  # of an open loop
WARM_UP = 48  # of them are not counted: the engine begins empty
MOST_STEPS = 60_000  # then the load is given up as one that never ends
PIECES = 4  # a run of equal decode steps is told as so many gaps with their weight


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What a step and the KV cache can hold; `kv_tokens` None is not known, and taken as not limiting."""

    token_budget: int = 8192
    max_sequences: int = 256
    kv_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """A closed loop of `concurrency` users, or open arrivals of `rate` a second: one of the two.

    Lengths are tokens a request, drawn evenly from [1-x, 1+x] times the mean where `spread_ratio` x is not 0; those of
    prompts from `input_lengths` where such are given, each as likely as the other.
    `hit_ratio` is the part of all prompt tokens that the prefix cache has: whole prompts where `hits_are_whole` (one
    prompt in so many came before, all of it but the part 1 - `hit_depth_ratio`), else that part of every prompt (a
    common beginning). Where KV comes from a prefill
    engine, every request stops the loop for `post_seconds` when it is admitted. `fetch_ratio` of the cached tokens come
    from a tier: a request with such waits `fetch_seconds_per_token` for each of them on a link that does one after the
    other, and `fetch_latency_seconds`, before it joins the queue. Where a router gives each of
    `routed_over` engines its turn, every so-manyth of random arrivals comes here: they are the more regular.
    """

    input_tokens: float
    output_tokens: float
    concurrency: int | None = None
    rate: float | None = None
    spread_ratio: float = 0.0
    hit_ratio: float = 0.0
    hits_are_whole: bool = False
    post_seconds: float = 0.0
    routed_over: int = 1
    input_lengths: tuple[float, ...] = ()
    hit_depth_ratio: float = 1.0
    fetch_ratio: float = 0.0
    fetch_seconds_per_token: float = 0.0
    fetch_latency_seconds: float = 0.0


@dataclass(slots=True)
class Rehearsed:
    """What clients would have measured: gaps between tokens, times to first token, mean gap of each request, each
    as (seconds, how often).

    `waits_for` says what kept the head of the queue out: "seqs" or "kv". `is_over` is False where the load never ends.
    """

    gaps: list[tuple[float, float]] = field(default_factory=list)
    ttfts: list[tuple[float, float]] = field(default_factory=list)
    tpots: list[tuple[float, float]] = field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    output_tokens: int = 0
    most_sequences: int = 0
    most_kv_tokens: int = 0
    waits_for: Literal["seqs", "kv"] | None = None
    is_over: bool = True


@dataclass(slots=True)
class _Request:
    """`target` tokens must be resident before its next token can come; all but the prompt's are its own output."""

    sent_at: float
    counts: bool
    hits: int
    target: int
    output: int
    fetched: int = 0
    resident: int = 0
    generated: int = 0
    first_at: float = 0.0


def rehearse(model: StepModel, limits: EngineLimits, load: Load, front_end_seconds: float = 0.0) -> Rehearsed:
    """The load played through on one engine. A request comes to the engine `front_end_seconds` after it was sent."""
    return _Stage(model, limits, load, front_end_seconds).play()


class _Stage:
    def __init__(self, model: StepModel, limits: EngineLimits, load: Load, front_end_seconds: float) -> None:
        self._model, self._limits, self._load, self._front_end = model, limits, load, front_end_seconds
        self._rng = Random(0)  # noqa: S311 - repeatable, not secret
        self._arriving: list[tuple[float, int, _Request]] = []
        self._waiting: deque[_Request] = deque()
        self._prefilling: list[_Request] = []
        self._decoding: list[_Request] = []
        self._sent = self._kv = 0
        self._stall_seconds = 0.0
        self._link_free_at = 0.0
        self._out = Rehearsed()

    def play(self) -> Rehearsed:
        self._send_first()
        now = 0.0
        for _ in range(MOST_STEPS):
            if not (self._waiting or self._prefilling or self._decoding):
                if not self._arriving:
                    self._out.seconds = now
                    return self._out
                now = max(now, self._arriving[0][0])
            self._arrive(now)
            if self._arriving and not (self._waiting or self._prefilling or self._decoding):
                continue  # its KV is on its way
            chunks = list(self._chunks())
            if chunks:
                now = self._step(now, chunks)
            elif self._decoding:
                now = self._decode_run(now)
            else:
                break  # the head of the queue never fits
        self._out.seconds, self._out.is_over = now, False
        return self._out

    def _arrive(self, now: float) -> None:
        """Who is there by now joins the queue; one whose KV lies in a tier when that has come."""
        while self._arriving and self._arriving[0][0] <= now:
            at, number, request = heappop(self._arriving)
            if not request.fetched:
                self._waiting.append(request)
                continue
            self._link_free_at = max(at, self._link_free_at) + request.fetched * self._load.fetch_seconds_per_token
            request.fetched = 0
            heappush(self._arriving, (self._link_free_at + self._load.fetch_latency_seconds, number, request))

    def _send_first(self) -> None:
        load, at = self._load, 0.0
        for _ in range(load.concurrency or 0):
            self._send(at, counts=True)
        while load.rate and self._sent < OPEN_REQUESTS:
            at += self._rng.gammavariate(load.routed_over, 1 / (load.routed_over * load.rate))
            self._send(at, counts=self._sent >= WARM_UP)

    def _send(self, at: float, *, counts: bool) -> None:
        lengths = self._load.input_lengths
        prompt = round(self._rng.choice(lengths)) if lengths else self._drawn(self._load.input_tokens)
        hits = self._hits(prompt)
        fetched = hits if self._load.fetch_ratio and self._rng.random() < self._load.fetch_ratio else 0
        request = _Request(at, counts, hits, prompt, self._drawn(self._load.output_tokens), fetched)
        self._sent += 1
        heappush(self._arriving, (at + self._front_end, self._sent, request))

    def _hits(self, prompt: int) -> int:
        """Cached tokens of the next prompt; whole hits come at even distances. At least one token is computed."""
        ratio = self._load.hit_ratio
        if self._load.hits_are_whole:
            depth = max(ratio, self._load.hit_depth_ratio)
            ratio /= depth
            ratio = depth * float(int((self._sent + 1) * ratio) > int(self._sent * ratio))
        return min(int(prompt * ratio), prompt - 1)

    def _drawn(self, mean: float) -> int:
        spread = self._load.spread_ratio
        return max(1, round(mean * self._rng.uniform(1 - spread, 1 + spread) if spread else mean))

    def _chunks(self) -> Iterator[tuple[_Request, int]]:
        """Whose prompt goes on in the next step, and by how much; admits from the queue while there is room."""
        budget = self._limits.token_budget - len(self._decoding)
        promised = 0
        for request in self._prefilling:
            promised += request.target - request.resident
            tokens = min(request.target - request.resident, budget)
            if tokens > 0:
                budget -= tokens
                yield request, tokens
        while budget > 0 and self._waiting:
            request, room = self._waiting[0], self._limits.kv_tokens
            if len(self._prefilling) + len(self._decoding) >= self._limits.max_sequences:
                self._out.waits_for = "seqs"
                return
            if room is not None and self._kv + promised + request.target > room:
                self._out.waits_for = "kv"
                return
            self._prefilling.append(self._waiting.popleft())
            self._stall_seconds += self._load.post_seconds
            request.resident = request.hits
            self._kv += request.hits
            promised += request.target - request.hits
            tokens = min(request.target - request.hits, budget)
            budget -= tokens
            yield request, tokens

    def _step(self, now: float, chunks: list[tuple[_Request, int]]) -> float:
        """One step with prefill in it."""
        tokens, decoders = sum(tokens for _, tokens in chunks), len(self._decoding)
        seconds = self._model.seconds(tokens, decoders, self._kv + tokens + decoders) + self._stall_seconds
        self._stall_seconds = 0.0
        now += seconds
        self._decoded(1, [(seconds, 1)])
        for request, chunk in chunks:
            request.resident += chunk
            self._kv += chunk
            if request.resident >= request.target:
                self._prefilling.remove(request)
                self._decoding.append(request)
                request.generated += 1
                if request.generated == 1:
                    request.first_at = now
                    if request.counts:
                        self._out.ttfts.append((now - request.sent_at, 1.0))
        self._end(now)
        return now

    def _decode_run(self, now: float) -> float:
        """Decode steps that are alike: until somebody ends, may come in, or the KV cache is full."""
        decoders = len(self._decoding)
        first = self._model.seconds(0, decoders, self._kv + decoders)
        growth = self._model.decode_seconds_per_kv_token * decoders
        steps = min(request.output - request.generated for request in self._decoding)
        if self._arriving and not self._waiting:
            steps = min(steps, int((self._arriving[0][0] - now) / (first + growth * steps / 2)) + 1)
        if self._limits.kv_tokens is not None:
            steps = min(steps, int((self._limits.kv_tokens - self._kv) / decoders))
        steps = max(1, steps)
        piece = -(-steps // PIECES)
        parts = [(done, min(piece, steps - done)) for done in range(0, steps, piece)]
        gaps = [(first + growth * (done + (part - 1) / 2), part) for done, part in parts]
        self._decoded(steps, gaps)
        now += sum(gap * part for gap, part in gaps)
        self._end(now)
        return now

    def _decoded(self, steps: int, gaps: list[tuple[float, int]]) -> None:
        """Every decoding sequence gets so many tokens, with these gaps."""
        counted = 0
        for request in self._decoding:
            request.generated += steps
            request.resident += steps
            counted += request.counts
        self._kv += steps * len(self._decoding)
        self._out.most_sequences = max(self._out.most_sequences, len(self._decoding))
        self._out.most_kv_tokens = max(self._out.most_kv_tokens, self._kv)
        if counted:
            self._out.gaps.extend((gap, float(part * counted)) for gap, part in gaps)

    def _end(self, now: float) -> None:
        done = [request for request in self._decoding if request.generated >= request.output]
        if done:
            self._decoding = [request for request in self._decoding if request.generated < request.output]
        for request in done:
            self._kv -= request.resident
            self._out.output_tokens += request.generated
            self._out.requests += 1
            if request.counts and request.generated > 1:
                self._out.tpots.append(((now - request.first_at) / (request.generated - 1), 1.0))
            if self._load.concurrency is not None and self._sent < ROUNDS * self._load.concurrency:
                self._send(now, counts=True)
        room = self._limits.kv_tokens
        while room is not None and len(self._decoding) > 1 and self._kv + len(self._decoding) > room:
            victim = self._decoding.pop()  # vLLM's choice: the youngest is computed again
            self._kv -= victim.resident
            victim.target, victim.resident, victim.hits = victim.target + victim.generated, 0, 0
            self._waiting.appendleft(victim)
