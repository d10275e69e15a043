"""What came to an engine, or to several: lengths, rates and reuse over one stretch of time."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.signals.sums import add_up
from agent.windows import Increment

WITHOUT_HITS = 0.3  # of the readings with prompts: then some prompts have hits and others none
LEAST_FINISHED = 5.0  # with fewer, output tokens are told by the requests that began


@dataclass(frozen=True, slots=True)
class Traffic:
    """Means over the stretch; None is not known. `requests` are those whose first token came.

    `hit_ratio` is the part of the prompt tokens that was not computed here: found in a cache, or sent by another one.
    `hits_are_whole`: where some prompts are hits and others are not, rather than a part of each. `drafts` and
    `preemptions` are counts. `mean_running` is all engines together, over time; `felt_running` the batch of one
    engine as its requests feel it: each reading counts as often as requests were in it.
    """

    seconds: float
    requests: float | None
    input_tokens: float | None
    output_tokens: float | None
    hit_ratio: float | None
    hits_are_whole: bool
    received_ratio: float | None
    drafts: float | None
    preemptions: float | None
    mean_running: float | None
    felt_running: float | None
    longest_input_tokens: float | None
    shortest_input_tokens: float | None

    @property
    def rate(self) -> float | None:
        """Requests a second."""
        return self.requests / self.seconds if self.requests is not None and self.seconds > 0 else None


def traffic_of(increments: Iterable[Increment]) -> Traffic:
    """The traffic that these increments of vLLM engines tell of."""
    ours = [increment for increment in increments if increment.key.source == "vllm"]
    sums = add_up(ours)
    ttft, running = sums.histogram("ttft_seconds"), sums.level("requests_running")
    begun = None if ttft is None else ttft.count
    finished = sum(sums.by_label("requests_finished_total").values())
    prompts, generated = sums.counter("prompt_tokens_total"), sums.counter("generation_tokens_total")
    computed = sums.counter("prompt_tokens_by_source_total", "local_compute")
    received = sums.counter("prompt_tokens_by_source_total", "external_kv_transfer")
    lengths = [length for increment in ours if (length := _mean_input(increment)) is not None]
    return Traffic(
        seconds=sums.covered_seconds("vllm"),
        requests=begun,
        input_tokens=_ratio(prompts, begun),
        output_tokens=_ratio(generated, finished if finished >= LEAST_FINISHED else begun),
        hit_ratio=None if computed is None or not prompts else max(0.0, 1.0 - computed / prompts),
        hits_are_whole=_are_whole(ours),
        received_ratio=_ratio(received, prompts),
        drafts=sums.counter("spec_decode_drafts_total"),
        preemptions=sums.counter("preemptions_total"),
        mean_running=None if running is None else running.mean,
        felt_running=_felt(ours),
        longest_input_tokens=max(lengths, default=None),
        shortest_input_tokens=min(lengths, default=None),
    )


def _felt(increments: Iterable[Increment]) -> float | None:
    batches = [batch for i in increments if (batch := i.gauges.get(("requests_running", ""))) is not None]
    return sum(batch * batch for batch in batches) / sum(batches) if any(batches) else None


def _are_whole(increments: Iterable[Increment]) -> bool:
    """Whether a good part of the readings has prompts without any hit."""
    ratios = [
        computed / prompts
        for i in increments
        if (prompts := i.counters.get(("prompt_tokens_total", "")))
        and (computed := i.counters.get(("prompt_tokens_by_source_total", "local_compute"))) is not None
    ]
    mean_hit = 1 - sum(ratios) / len(ratios) if ratios else 0.0
    return sum(1 - ratio < 0.5 * mean_hit for ratio in ratios) > WITHOUT_HITS * len(ratios)


def _mean_input(increment: Increment) -> float | None:
    ttft = increment.histograms.get("ttft_seconds")
    prompts = increment.counters.get(("prompt_tokens_total", ""))
    return prompts / ttft.count if ttft is not None and ttft.count > 0 and prompts else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
