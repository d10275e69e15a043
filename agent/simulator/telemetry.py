"""What one engine counts about itself, under vLLM's own metric names, and an optional log of gaps."""

from collections.abc import Mapping
from random import Random

from agent.simulator.ask import Sequence
from agent.simulator.histogram import Histogram

TTFT = "time_to_first_token_seconds"
ITL = "inter_token_latency_seconds"
STEP_TOKENS = "iteration_tokens_total"
MOST_GAPS = 2_000_000  # what a report keeps in memory
STAMP_DELAY_SECONDS = 0.14e-3
"""How late a client stamps a token, on average. Source: data/h200 at concurrency 1, where every step is alike: ITL p90,
p95, p99 lie 0.22, 0.31, 0.60 ms above p50; a difference of two exponential delays of mean m has them at m·ln 5, m·ln 10
and m·ln 50, so m is 0.137, 0.132, 0.154 ms."""


class GapLog:
    """Every gap between two tokens of one request, as (first, increment, steps, times): the truth behind ITL."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, float, int, int]] = []

    def as_stamped(self, rng: Random, delay_seconds: float = STAMP_DELAY_SECONDS) -> list[float]:
        """The gaps as a client stamps them, ascending: each token is seen a little late, at random.

        A stamp's delay is exponential with that mean, so a gap is off by the difference of two such delays. Of more
        than `MOST_GAPS` gaps an even sample of about that many is taken.
        """
        scale = 1 / delay_seconds if delay_seconds else 0.0
        total = sum(steps * times for _, _, steps, times in self.lines)
        part = min(1.0, MOST_GAPS / total) if total else 1.0
        gaps: list[float] = []
        for first, increment, steps, all_times in self.lines:
            for step in range(steps):
                gap = first + step * increment
                times = all_times if part == 1.0 else int(all_times * part + rng.random())
                if scale:
                    gaps.extend(
                        [gap + rng.expovariate(scale) * (1 if rng.random() < 0.5 else -1) for _ in range(times)]
                    )
                else:
                    gaps.extend([gap] * times)
        gaps.sort()
        return gaps

    def weighted(self) -> list[tuple[float, int]]:
        """(gap in seconds, how often), ascending."""
        return sorted(
            (first + step * increment, times) for first, increment, steps, times in self.lines for step in range(steps)
        )


class Telemetry:
    """Counters and histograms since the engine's start.

    `counters` is keyed by (name without `vllm:` and `_total`, value of the one further label or ""), `histograms` by
    the name without `vllm:`; `edges` gives the buckets of every histogram that exists.
    """

    def __init__(self, edges: Mapping[str, tuple[float, ...]], *, gaps: GapLog | None = None) -> None:
        self.counters: dict[tuple[str, str], float] = {}
        self.histograms = {name: Histogram(its_edges) for name, its_edges in edges.items()}
        self.gaps = gaps
        self.generation_tokens = 0
        self.steps = 0
        self._itl = self.histograms[ITL]
        self._step_tokens = self.histograms[STEP_TOKENS]

    def add(self, name: str, amount: float = 1.0, label: str = "") -> None:
        """Raise one counter."""
        key = (name, label)
        self.counters[key] = self.counters.get(key, 0.0) + amount

    def observe(self, name: str, value: float) -> None:
        """Count one value in a histogram; nothing happens when this engine's pages have none of that name."""
        histogram = self.histograms.get(name)
        if histogram is not None:
            histogram.observe(value)

    def gap(self, seconds: float) -> None:
        """One sequence waited so long for its next token."""
        self.gap_line(seconds, 0.0, 1, 1)

    def gap_line(self, first: float, increment: float, steps: int, times: int) -> None:
        """`times` sequences went through `steps` decode steps in a row, each `increment` longer than the one before."""
        if not steps or not times:
            return
        self._itl.observe_line(first, increment, steps, times)
        if self.gaps is not None:
            self.gaps.lines.append((first, increment, steps, times))

    def step(self, tokens: int, generated: int, steps: int = 1) -> None:
        """`steps` engine steps computed `tokens` tokens each and gave out `generated` of them."""
        self._step_tokens.observe(tokens, steps)
        self.generation_tokens += generated * steps
        self.steps += steps

    def first_token(self, sequence: Sequence, at_seconds: float) -> None:
        """The prompt is computed: this is when vLLM counts its tokens."""
        ask = sequence.ask
        computed = ask.prompt_tokens - sequence.cached_tokens - sequence.external_tokens
        self.observe(TTFT, at_seconds - sequence.arrived_at_seconds)
        self.add("prompt_tokens", ask.prompt_tokens)
        self.add("prompt_tokens_by_source", computed, "local_compute")
        self.add("prompt_tokens_by_source", sequence.cached_tokens, "local_cache_hit")
        self.add("prompt_tokens_by_source", sequence.external_tokens, "external_kv_transfer")
        self.add("prompt_tokens_cached", sequence.cached_tokens + sequence.external_tokens)

    def admitted(self, sequence: Sequence, *, asked_external: bool) -> None:
        """First admission: prefix lookups are counted here, in tokens."""
        prompt_tokens = sequence.ask.prompt_tokens
        self.add("prefix_cache_queries", prompt_tokens)
        self.add("prefix_cache_hits", sequence.cached_tokens)
        self.add("prompt_tokens_cached_by_source", sequence.cached_tokens, "device")
        if asked_external:
            self.add("external_prefix_cache_queries", prompt_tokens - sequence.cached_tokens)
            self.add("external_prefix_cache_hits", sequence.external_tokens)
            self.add("prompt_tokens_cached_by_source", sequence.external_tokens, "external_unspecified")

    def finished(self, sequence: Sequence, at_seconds: float) -> None:
        """A request ended by itself, with all its phases known."""
        ask = sequence.ask
        first, last, scheduled = (
            sequence.first_token_at_seconds,
            sequence.last_token_at_seconds,
            sequence.scheduled_at_seconds,
        )
        self.add("request_success", 1, ask.finish_reason)
        if first is None or last is None or scheduled is None:
            return
        generated = sequence.generated_tokens
        self.observe("e2e_request_latency_seconds", at_seconds - sequence.arrived_at_seconds)
        self.observe("request_queue_time_seconds", scheduled - sequence.queued_at_seconds)
        self.observe("request_prefill_time_seconds", first - scheduled)
        self.observe("request_decode_time_seconds", last - first)
        self.observe("request_inference_time_seconds", last - scheduled)
        self.observe(
            "request_time_per_output_token_seconds", (last - first) / (generated - 1) if generated > 1 else 0.0
        )
        self.observe("request_prompt_tokens", ask.prompt_tokens)
        self.observe("request_generation_tokens", generated)
        self.observe("request_max_num_generation_tokens", generated)
        self.observe("request_params_n", 1)
        self.observe("request_params_max_tokens", ask.max_tokens or ask.output_tokens)
        self.observe("request_num_preemptions", sequence.preemptions)
        self.observe(
            "request_prefill_kv_computed_tokens", ask.prompt_tokens - sequence.cached_tokens - sequence.external_tokens
        )
