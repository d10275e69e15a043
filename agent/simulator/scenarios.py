"""Named, seeded stories: what the demo shows, what the docs tell, what golden tests hold.

One replica of the plant (8B on an H200) does about 17 of the CHAT requests a second before its queue grows.
"""

from collections.abc import Callable
from dataclasses import replace

from agent.simulator.arrivals import Diurnal, Ramp, Steps
from agent.simulator.conversations import Habits
from agent.simulator.engine import EngineConfig
from agent.simulator.faults import Fault
from agent.simulator.lengths import LogNormal
from agent.simulator.plant import Plant
from agent.simulator.router import RoundRobin
from agent.simulator.scenario import Scenario
from agent.simulator.tier import CacheTier
from agent.simulator.topology import Topology
from agent.simulator.workload import Prompts

HOUR = 3600.0
CHAT = Prompts(LogNormal(1750, 0.5, 6000, 100), LogNormal(180, 0.6, 900, 8), finish_reason="stop")
SHORT = replace(CHAT, prompt_tokens=LogNormal(1000, 0.3, 4000, 100))
LONG_PROMPTS = replace(CHAT, prompt_tokens=LogNormal(8000, 0.3, 14_000, 500))
LONG_ANSWERS = replace(CHAT, output_tokens=LogNormal(900, 0.5, 4000, 16))
SHARED_PREFIX = replace(CHAT, system_blocks=80)
NO_PREFIX = replace(CHAT, system_blocks=80, systems=1_000_000)
TWO = Topology(aggregated=2)
TWO_BLIND = Topology(aggregated=2, router=RoundRobin)


def _flat(rate: float) -> Steps:
    return Steps(((0.0, rate),))


def _always(prompts: Prompts) -> Callable[[float], Prompts]:
    return lambda _: prompts


def _from(at_seconds: float, before: Prompts, after: Prompts) -> Callable[[float], Prompts]:
    return lambda seconds: before if seconds < at_seconds else after


def _chat(name: str, story: str, rate: Callable[[float], float], duration_seconds: float = HOUR) -> Scenario:
    return Scenario(name, story, duration_seconds, rate, _always(CHAT), topology=TWO)


STEADY = _chat("steady", "Eight chat requests a second on two replicas, all day long the same.", _flat(8.0))

_STORIES = (
    _chat(
        "demo",
        "Two replicas serve chat well; after eight minutes the load steps up beyond what they can do, and stays. "
        "Four replicas serve it again.",
        Steps(((0.0, 8.0), (480.0, 40.0))),
    ),
    STEADY,
    _chat("ramp", "From four to forty requests a second within an hour.", Ramp(((0.0, 4.0), (HOUR, 40.0)))),
    _chat("step_x3", "The load triples at half time, beyond two replicas.", Steps(((0, 14.0), (1800, 42.0)))),
    _chat("diurnal_week", "Seven days and nights, with a quiet week-end.", Diurnal(2.0, 24.0), 7 * 24 * HOUR),
    replace(STEADY, name="burst", story="The same mean rate in bursts (CV 6).", cv=6.0, rate=_flat(12.0)),
    replace(
        STEADY,
        name="isl_shift",
        story="Prompts grow from one thousand tokens to eight at half time.",
        rate=_flat(6.0),
        prompts=_from(1800.0, SHORT, LONG_PROMPTS),
    ),
    replace(
        STEADY,
        name="osl_shift",
        story="Answers grow five times as long at half time.",
        rate=_flat(18.0),
        prompts=_from(1800.0, CHAT, LONG_ANSWERS),
    ),
    replace(
        STEADY,
        name="hit_collapse",
        story="A shared system prompt of 1,280 tokens becomes different in every request at half time.",
        rate=_flat(40.0),
        prompts=_from(1800.0, SHARED_PREFIX, NO_PREFIX),
    ),
    replace(
        STEADY,
        name="kv_exhaustion",
        story="Long answers fill a small KV cache; sequences are preempted and computed again.",
        plant=Plant(EngineConfig(num_gpu_blocks=8_000)),
        rate=Steps(((0.0, 2.0), (1200.0, 7.0))),
        prompts=_always(replace(LONG_ANSWERS, prompt_tokens=LogNormal(3000, 0.3, 8000, 100))),
    ),
    replace(
        STEADY,
        name="slow_pod",
        story="One of two GPUs gets hot and takes four times as long; the balancer does not look.",
        topology=TWO_BLIND,
        faults=(Fault("slow", 1200.0, 1, 3000.0, 4.0),),
        rate=_flat(12.0),
    ),
    replace(
        STEADY,
        name="stuck_engine",
        story="One engine hangs in a step for five minutes; its front end still answers.",
        topology=TWO_BLIND,
        faults=(Fault("stuck", 1200.0, 1, 1500.0),),
    ),
    replace(
        STEADY,
        name="skew_85_15",
        story="A balancer sends 85 % to one of two replicas.",
        weights=(0.85, 0.15),
        rate=_flat(22.0),
    ),
    replace(
        STEADY,
        name="pod_crash",
        story="One replica dies at twenty minutes and is back after its cold start.",
        faults=(Fault("crash", 1200.0, 0),),
        rate=_flat(20.0),
    ),
    replace(
        STEADY,
        name="pd_decode_starvation",
        story="Three prefill engines and one decode engine; answers grow long, and decode cannot keep up.",
        topology=Topology(aggregated=0, prefill=3, decode=1),
        plant=Plant(EngineConfig(block_tokens=128, num_gpu_blocks=4_461)),
        rate=_flat(14.0),
        prompts=_from(1800.0, CHAT, LONG_ANSWERS),
    ),
    replace(
        STEADY,
        name="pd_prefill_starvation",
        story="One prefill engine and three decode engines; prompts grow long, and prefill cannot keep up.",
        topology=Topology(aggregated=0, prefill=1, decode=3),
        plant=Plant(EngineConfig(block_tokens=128, num_gpu_blocks=4_461)),
        rate=_flat(7.0),
        prompts=_from(1800.0, CHAT, LONG_PROMPTS),
    ),
    replace(
        STEADY,
        name="remote_kv_slow",
        story="Conversations reuse KV from a remote store, whose link becomes thirty times slower at half time.",
        prompts=None,
        habits=Habits(),
        plant=Plant(EngineConfig(num_gpu_blocks=3_000)),
        tier=lambda: CacheTier(400e9, 12e9, 2e-3, name="remote"),
        rate=_flat(1.2),
        faults=(Fault("tier_slow", 1800.0, 0, None, 30.0),),
    ),
    replace(
        STEADY,
        name="tier_down",
        story="The cache tier stops answering at half time, while its health route still says 200.",
        prompts=None,
        habits=Habits(),
        plant=Plant(EngineConfig(num_gpu_blocks=3_000)),
        tier=lambda: CacheTier(400e9, 20e9),
        rate=_flat(1.2),
        faults=(Fault("tier_down", 1800.0),),
    ),
    _chat("zero_traffic", "Nobody comes for twenty minutes.", Steps(((0, 8.0), (1200, 0.0), (2400, 8.0)))),
    replace(
        STEADY,
        name="infeasible_slo",
        story="Prompts of 14,000 tokens: even an idle engine needs 0.36 s for the first token; replicas do not help",
        prompts=_always(replace(CHAT, prompt_tokens=LogNormal(14_000, 0.03, 15_000, 13_000))),
        rate=_flat(0.5),
    ),
    replace(
        STEADY,
        name="rolling_restart",
        story="Both replicas are replaced by ones with other histogram buckets (--custom-histogram-buckets).",
        next_plant=Plant(edges={"time_to_first_token_seconds": (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)}),
        next_plant_at_seconds=1190.0,
        faults=(Fault("restart", 1200.0, 0), Fault("restart", 1500.0, 1)),
    ),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _STORIES}
