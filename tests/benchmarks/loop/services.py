"""What is served in the closed loop: traffic, the servers that take it, and what is promised to its users."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.ask import Ask
from agent.simulator.engine import EngineConfig
from agent.simulator.lengths import LogNormal
from agent.simulator.plant import Plant
from agent.simulator.router import LeastLoad, PrefixAware, Router
from agent.simulator.scenarios import SCENARIOS
from agent.simulator.seeds import stream
from agent.simulator.step_time import LinearStepTime, MoeStepTime, QuadraticStepTime, StepTime
from agent.simulator.traces import azure, mooncake, servegen, windowed
from agent.simulator.workload import OpenLoop, Prompts

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared"))
TRACES = SHARED / "data" / "traces"
HOUR = 3600.0
PATIENCE_SECONDS = 60.0  # clients hang up without a first token; a miss
STORY_SLOWER = 4.0  # stories are written for a plant that does four times as much
Timed = Iterator[tuple[float, Ask]]


@dataclass(frozen=True, slots=True)
class NoisyRuns:
    """Another law with noise that keeps a stretch of equal steps a line: a few per cent, and now and then a slow one.

    One step with a prompt in it, or one stretch of decode steps, in 200 takes three times as long.
    """

    base: StepTime
    rng: Random
    sigma_ratio: float = 0.05
    tail_ratio: float = 0.005

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        return self.base.seconds(prefill_tokens, prefill_context, sequences, kv_tokens) * self._factor()

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        line, factor = self.base.decode_line(sequences, kv_tokens), self._factor()
        return None if line is None else (line[0] * factor, line[1] * factor)

    def _factor(self) -> float:
        slow = 3.0 if self.rng.random() < self.tail_ratio else 1.0
        return slow * max(0.7, self.rng.gauss(1.0, self.sigma_ratio))


@dataclass(frozen=True, slots=True)
class Service:
    """Traffic and promise. `requests(seed)` gives (seconds since the start, request), ascending."""

    name: str
    seconds: float
    requests: Callable[[int], Timed]
    plants: dict[str, Plant]
    ttft_seconds: float = 2.5
    tpot_seconds: float = 0.1
    objective_ratio: float = 0.95
    router: Callable[[], Router] = LeastLoad
    quick: bool = False
    long: bool = False

    @property
    def block_tokens(self) -> int:
        """Tokens of a KV block."""
        return self.plants["linear"].config.block_tokens


def _plant(config: EngineConfig, law: StepTime, dollars: float, gpu: str) -> Plant:
    noisy = replace(config, front_end_noise_seconds=10e-3)
    return Plant(
        noisy, law=lambda index: NoisyRuns(law, stream(index, "noise")), gpu_type=gpu, dollars_per_hour=dollars
    )


# facts/recommend.md 5a: 22 ms, 90 us, 20 us, 152 ns, the proportions of a 32B model; two H100s for 300,000 KV tokens.
_32B = LinearStepTime(22e-3, 90e-6, 152e-9, 20e-6)
_32B_CONFIG = EngineConfig(model="qwen32b", max_num_batched_tokens=2048, num_gpu_blocks=18_750, max_model_len=32_768)
_32B_MOE = MoeStepTime(replace(_32B, overhead_seconds=8e-3), all_experts_seconds=28e-3)
CHAT_PLANTS = {
    "linear": _plant(_32B_CONFIG, _32B, 9.0, "2xH100"),
    "mismatched": _plant(_32B_CONFIG, _32B_MOE, 9.0, "2xH100"),
}
_8B = LinearStepTime()
_8B_CONFIG = EngineConfig(block_tokens=512, num_gpu_blocks=1_115, max_model_len=131_072)
LONG_PLANTS = {
    "linear": _plant(_8B_CONFIG, _8B, 5.75, "H200"),
    "mismatched": _plant(_8B_CONFIG, QuadraticStepTime(_8B, 25.1e-6 / 65_536), 5.75, "H200"),
}
LAWS = {  # what others are told of the plant: a straight line, also where it is none
    ("linear", False): _32B,
    ("mismatched", False): replace(_32B, overhead_seconds=30e-3),
    ("linear", True): _8B,
    ("mismatched", True): replace(_8B, prefill_seconds_per_token=32e-6),
}
CHAT = Prompts(LogNormal(2000, 0.6, 8000, 100), LogNormal(300, 0.7, 1500, 8), finish_reason="stop")


def _with_patience(requests: Timed) -> Timed:
    return ((at, replace(ask, patience_seconds=PATIENCE_SECONDS)) for at, ask in requests)


def _times(rows: list[tuple[float, Ask]], copies: int, apart_seconds: float) -> Timed:
    """The same traffic several times over, each copy a little later and its prompts its own."""
    shifted = [
        (
            at + copy * apart_seconds,
            replace(ask, id=f"{ask.id}.{copy}", block_hashes=tuple(h + copy * 10**9 for h in ask.block_hashes)),
        )
        for copy in range(copies)
        for at, ask in rows
    ]
    return _with_patience(iter(sorted(shifted, key=lambda row: row[0])))


def _drawn(loop: OpenLoop, seconds: float) -> Timed:
    while (at := loop.next_seconds(seconds)) <= seconds:
        yield at, replace(loop.take(), patience_seconds=PATIENCE_SECONDS)


def _open(
    rate: Callable[[float], float], prompts: Callable[[float], Prompts], seconds: float, cv: object = 1.0
) -> Callable[[int], Timed]:
    def requests(seed: int) -> Timed:
        arrivals = Arrivals(rate, stream(seed, "arrivals"), 0.0, cv=cv)  # type: ignore[arg-type]
        return _drawn(OpenLoop(arrivals, prompts, stream(seed, "prompts")), seconds)

    return requests


def _azure(_: int) -> Timed:
    return _times(list(azure(TRACES / "AzureLLMInferenceTrace_conv.csv")), 2, 11.0)


def _mooncake(_: int) -> Timed:
    rows = [row for row in mooncake(TRACES / "mooncake_conversation_trace.jsonl") if row[1].prompt_tokens < 120_000]
    return _times(rows, 2, 17.0)


def _servegen(seed: int) -> Timed:
    stem = TRACES / "servegen" / "reason__deepseek-r1__chunk-48"
    windows = servegen(Path(f"{stem}-trace.csv"), Path(f"{stem}-dataset.json"))
    return _drawn(windowed(windows, stream(seed, "arrivals"), stream(seed, "prompts"), 0.0), 24 * HOUR)


def _story(name: str) -> Service:
    story = SCENARIOS[name]
    if story.prompts is None:
        raise ValueError(name)
    requests = _open(lambda at: story.rate(at) / STORY_SLOWER, story.prompts, story.duration_seconds, story.cv)
    return Service(name, story.duration_seconds, requests, CHAT_PLANTS)


_BURST = Steps(tuple((600.0 * index, rate) for index, rate in enumerate((15.0, 2.0, 10.0, 15.0, 5.0, 2.0))))
STORIES = ("steady", "ramp", "step_x3", "burst", "isl_shift", "osl_shift", "hit_collapse", "zero_traffic")
SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        Service("azure_conv_x2", 3480.0, _azure, CHAT_PLANTS, quick=True),
        Service("mooncake_x2", 3540.0, _mooncake, LONG_PLANTS, ttft_seconds=10.0, router=PrefixAware, long=True),
        Service("servegen_deepseek_r1_day", 24 * HOUR, _servegen, CHAT_PLANTS),
        Service("burst_profile", HOUR, _open(_BURST, lambda _: CHAT, HOUR), CHAT_PLANTS, quick=True),
        *(replace(_story(name), name=f"story_{name}") for name in STORIES),
    )
}
