"""The capacity model on engines it has never seen: random constants, learned at low load, judged at a higher one."""

from dataclasses import replace
from random import Random

import pytest

from agent.advice.capacity import EngineCapacity, predict
from agent.advice.capacity_book import CapacityBook, Kind
from agent.advice.rehearsal import EngineLimits, Load
from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.batch import Run
from agent.simulator.lengths import Uniform
from agent.simulator.plant import Plant
from agent.simulator.plants import LLAMA8B_H200
from agent.simulator.scenario import Stage
from agent.simulator.seeds import stream
from agent.simulator.step_time import LinearStepTime
from agent.simulator.topology import Topology
from agent.simulator.workload import OpenLoop, Prompts
from agent.stats.weighted import weighted_mean, weighted_percentiles, weighted_share_over
from agent.windows import Windows
from probes.page import SystemPage

START = 1_700_000_000.0
SPREAD = 0.5


def workload(load: Load, rate: float, seed: int) -> OpenLoop:
    prompts = Prompts(Uniform(round(load.input_tokens), SPREAD), Uniform(round(load.output_tokens), SPREAD))
    arrivals = Arrivals(Steps(((0.0, rate),)), stream(seed, "arrivals"), START)
    return OpenLoop(arrivals, lambda _: prompts, stream(seed, "prompts"))


def learned(plant: Plant, load: Load, rates: tuple[float, ...]) -> CapacityBook:
    """What a book knows after 60 s at each rate, read once a second from the pages of the simulated engine."""
    book = CapacityBook()
    for seed, rate in enumerate(rates):
        fleet = Topology().fleet(plant, workload(load, rate, seed), START)
        page, windows = SystemPage("vllm"), Windows()
        for second in range(1, 61):
            fleet.settle(START + second)
            windows.take(page.read(fleet.replicas[0].page.text(), f"vllm-{seed}", START + second))
            book.take(windows.drain()[0], lambda key: Kind(key.model, "aggregated", "H200"))
    return book


@pytest.mark.parametrize("seed", range(6))
def test_an_unseen_engine_is_predicted_at_twice_the_load_it_was_learned_at(seed: int) -> None:
    """Constants within a factor of three of each other's, lengths within a factor of eight; 20 and 40 % of full load
    to learn from, 75 % to be judged at.
    """
    rng = Random(seed)  # noqa: S311 - repeatable
    law = LinearStepTime(rng.uniform(4e-3, 12e-3), rng.uniform(15e-6, 60e-6), rng.uniform(15e-9, 60e-9), 20e-6)
    plant = replace(LLAMA8B_H200, law=lambda _: law)
    load = Load(rng.uniform(500, 4000), rng.uniform(100, 500), spread_ratio=SPREAD)
    limits = EngineLimits(8192, 256, 571_024.0)
    full = _full_rate(law, load, limits)
    book = learned(plant, load, (0.2 * full, 0.4 * full))
    steps = next(iter(book.learned.values())).steps
    assert steps is not None
    engine = EngineCapacity(steps, limits, front_end_seconds=plant.config.front_end_seconds)
    said = predict(engine, replace(load, rate=0.75 * full), thresholds=[("itl", 0.05)])

    run = Run(START)
    fleet = Topology().fleet(plant, workload(load, 0.75 * full, 99), START, on_end=run.ended.append, gaps=run.gaps)
    run.drive(Stage(fleet), requests=400, duration_seconds=3_000.0, recorder=None)
    gaps = [(gap, float(times)) for gap, times in run.gaps.weighted()]
    truth = {"mean": weighted_mean(gaps), "p50": weighted_percentiles(gaps, [0.5])[0]}
    over = weighted_share_over(gaps, 0.05)
    assert said.itl_p50_seconds is not None
    assert said.itl_mean_seconds is not None
    assert said.itl_p50_seconds.value == pytest.approx(truth["p50"], rel=0.15)
    assert said.itl_mean_seconds.value == pytest.approx(truth["mean"], rel=0.15)
    share = said.over_threshold_ratio["itl_seconds>0.05"]
    assert share is not None
    assert share.value == pytest.approx(over, rel=0.30, abs=0.005)


def _full_rate(law: LinearStepTime, load: Load, limits: EngineLimits) -> float:
    """By the same arithmetic as `EngineCapacity.full_rate`, on the true constants, at 64 sequences at most."""
    n, output = min(64.0, (limits.kv_tokens or 0) / (load.input_tokens + load.output_tokens)), load.output_tokens
    decode = law.seconds(0, 0.0, round(n), round(n * (load.input_tokens + output / 2)))
    return n / (output * decode + n * load.input_tokens * law.prefill_seconds_per_token)
