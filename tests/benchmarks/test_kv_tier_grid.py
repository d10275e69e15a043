"""KV-tier advice against the simulator: which tier should a replica have, if any, and how big?

A story is a plant, traffic that comes again in its own way, and two tiers with their links. The simulator runs it with
every setting: none, and each tier in two sizes. A question adds prices and a promise of TTFT. The best is the cheapest
that keeps the promise (else the one that misses least): GPU time that prompts take, by the plant's own law, and the
tier's price. Each setting in turn is then what is in use, and the rule reads the pages that such a replica and its
cache server write, and the config that an operator would have written; the step-time model is one fitted on busier
hours of the plant. Where another class is within 3 % of the best's cost, the cell is a tie and left out; of every class
as many cells are taken. TIER_CELLS sets how many, TIER_STORIES of how many stories.
"""

# ruff: noqa: T201 - a benchmark prints

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random

from test_topology_grid import model_of

from agent.advice.capacity import EngineCapacity
from agent.advice.domain import Domain
from agent.advice.engine_facts import EngineFacts
from agent.advice.kv_tier_words import tier_advice
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.scene import LOAD_SECONDS, USUAL_SPREAD, GroupView, Scene
from agent.advice.tier_choice import choose
from agent.advice.tier_facts import tier_facts
from agent.advice.tier_options import BUSY_RATIO
from agent.advice.token_budget import TokenBudget
from agent.advice.traffic import traffic_of
from agent.model import Budget, Counts, Recommendation, Slo, SloStatus, TargetStatus
from agent.plan import AdvicePlan, KvTier, Plan
from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.ask import Ask, Sequence
from agent.simulator.conversations import Conversations, Habits
from agent.simulator.fleet import Fleet
from agent.simulator.lengths import LogNormal
from agent.simulator.lmcache_page import lmcache_page
from agent.simulator.plant import KV_BYTES_PER_TOKEN, Plant
from agent.simulator.plants import PLANTS
from agent.simulator.seeds import stream
from agent.simulator.step_time import JitteredStepTime, StepTime
from agent.simulator.tier import LOOKUP_SECONDS, CacheTier, TierConnector
from agent.simulator.topology import Topology
from agent.simulator.workload import OpenLoop, Prompts, Workload
from agent.sli.count import TargetFacts
from agent.windows import Windows
from probes.page import SystemPage

CELLS = int(os.environ.get("TIER_CELLS", "62"))  # of each class
STORIES = int(os.environ.get("TIER_STORIES", "68"))
START, WARM_UP, LENGTH, EVERY = 1_700_000_000.0, 160.0, 460.0, 10.0
TIE_RATIO, OBJECTIVE, BLOCK, MODEL = 0.03, 0.95, 64, "llama8b"
KINDS = ("llama8b_h200", "jitter", "hybrid", "quadratic")
CLASSES = ("leave", "enable", "size", "move", "disable")
ENGINE_DOLLARS = 5.75
CONFIDENT = 0.75
QUESTIONS, OF_A_CLASS = 8, 2  # prices and promises asked of each story; cells of one class that it gives at most

Place = tuple[str, float]
"""A tier's name and its size; ("", 0.0) is none."""


@dataclass(frozen=True, slots=True)
class Story:
    """One service. `turns` above 1 are conversations; else each prompt begins with one of `documents`."""

    seed: int
    plant: str
    kv_tokens: int
    rate: float
    turns: float
    pause_seconds: float
    user_tokens: float
    documents: int
    document_tokens: int
    output_tokens: float
    tiers: tuple[KvTier, ...]
    questions: tuple["Question", ...]

    def settings(self) -> Iterator[Place]:
        yield "", 0.0
        for tier in self.tiers:
            for size in tier.gigabytes:
                yield tier.name, size


@dataclass(frozen=True, slots=True)
class Question:
    """Dollars of a gigabyte's hour by tier, and the TTFT that is promised."""

    prices: tuple[tuple[str, float], ...]
    threshold_seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one setting did: the part of the time in which an engine computed prompts, and every TTFT."""

    prefill_ratio: float
    ttfts: tuple[float, ...]

    def strain(self, question: Question) -> float:
        """Misses over what is allowed."""
        late = sum(seconds > question.threshold_seconds for seconds in self.ttfts) / max(1, len(self.ttfts))
        return late / (1 - OBJECTIVE)

    def dollars(self, question: Question, place: Place) -> float:
        """An hour of one replica, at an engine that is bought to be as busy as the advice says."""
        tier = dict(question.prices).get(place[0], 0.0) * place[1]
        return ENGINE_DOLLARS * self.prefill_ratio / BUSY_RATIO + tier


@dataclass(frozen=True, slots=True)
class Documents(Prompts):
    """A document that many ask about (few of them are asked for often), and a question of one's own."""

    documents: int = 1
    document_tokens: int = 1024

    def draw(self, name: str, rng: Random) -> Ask:
        document = min(int(rng.paretovariate(0.7)) - 1, 10**6) % self.documents
        prompt = self.document_tokens + self.prompt_tokens.draw(rng)
        shared, whole = self.document_tokens // BLOCK, prompt // BLOCK
        own = rng.randrange(10**9) * 1_000
        hashes = (*range(document * 10_000, document * 10_000 + shared), *(-own - n - 1 for n in range(whole - shared)))
        return Ask(name, prompt, self.output_tokens.draw(rng), hashes, finish_reason="stop")


@dataclass(slots=True)
class CountingLaw:
    """A law that adds up by how much prompts made steps longer."""

    law: StepTime
    mean: StepTime
    prefill_seconds: float = 0.0

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        if prefill_tokens:
            self.prefill_seconds += self.mean.seconds(prefill_tokens, prefill_context, sequences, kv_tokens)
            self.prefill_seconds -= self.mean.seconds(0, 0.0, sequences, kv_tokens)
        return self.law.seconds(prefill_tokens, prefill_context, sequences, kv_tokens)

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        return self.law.decode_line(sequences, kv_tokens)


@dataclass(slots=True)
class Watched:
    """One replica with one setting, read as the agent reads it from the end of its warm-up on."""

    story: Story
    place: Place
    windows: Windows = field(default_factory=Windows)
    ended: list[Sequence] = field(default_factory=list)
    pages: dict[str, SystemPage] = field(default_factory=lambda: {"e": SystemPage("vllm"), "c": SystemPage("lmcache")})

    def run(self) -> Outcome:
        """What clients saw, and what the plant's own law says that prompts took."""
        plant: Plant = PLANTS[self.story.plant]
        law = plant.law(0)
        counting = CountingLaw(law, law.base if isinstance(law, JitteredStepTime) else law)
        config = replace(plant.config, block_tokens=BLOCK, num_gpu_blocks=self.story.kv_tokens // BLOCK)
        plant = replace(plant, config=config, law=lambda _: counting)
        found = next((tier for tier in self.story.tiers if tier.name == self.place[0]), None)
        cache = None if found is None else self.cache(found)
        connector = None if cache is None else (lambda _, telemetry: TierConnector(cache, telemetry))
        topology = Topology(connector=connector, page_groups=("kv_residency",))
        fleet = topology.fleet(plant, work(self.story), START, on_end=self.ended.append)
        fleet.settle(START + WARM_UP)
        counting.prefill_seconds, at = 0.0, START + WARM_UP
        self.ended.clear()
        self.read(fleet, cache, at)
        while at < START + LENGTH:
            at += EVERY
            fleet.settle(at)
            self.read(fleet, cache, at)
        ttfts = [s.client_ttft_seconds for s in self.ended if s.client_ttft_seconds is not None]
        return Outcome(counting.prefill_seconds / (LENGTH - WARM_UP), tuple(ttfts))

    def cache(self, tier: KvTier) -> CacheTier:
        latency = tier.latency_seconds - LOOKUP_SECONDS
        return CacheTier(self.place[1] * 1e9, tier.bytes_per_second, latency, block_tokens=BLOCK)

    def read(self, fleet: Fleet, cache: CacheTier | None, at: float) -> None:
        self.windows.take(self.pages["e"].read(fleet.replicas[0].page.text(), "e", at))
        if cache is not None:
            self.windows.take(self.pages["c"].read(lmcache_page(cache, MODEL), "c", at))

    def advised(self, question: Question) -> tuple[Place, Recommendation | None, dict[Place, bool]]:
        """What the rule wants this replica to have, and of every setting whether it surely keeps the promise."""
        now, prices = START + LENGTH, dict(question.prices)
        tiers = tuple(
            replace(
                tier,
                gigabyte_hour_dollars=prices[tier.name],
                in_use_gigabytes=self.place[1] if tier.name == self.place[0] else None,
            )
            for tier in self.story.tiers
        )
        slo = Slo("ttft", "s", "ttft", "engine", OBJECTIVE, 86_400.0, (), question.threshold_seconds)
        engine = TargetFacts(MODEL, "aggregated", "s", ENGINE_DOLLARS / 3600)
        advice = AdvicePlan(kv_tiers=tiers, kv_bytes_per_token={MODEL: KV_BYTES_PER_TOKEN})
        plan = Plan((slo,), {"e": engine, "c": TargetFacts("", "", "s")}, advice=advice)
        statuses = [TargetStatus("e", "vllm", "up", now, "ok", "", MODEL, "aggregated")]
        if self.place[0]:
            statuses.append(TargetStatus("c", "lmcache", "up", now, "ok", "", "", ""))
        slos = [SloStatus(slo, "ok", (), Budget(1.0, Counts(), 1.0), now)]
        scene = Scene(plan, statuses, slos, self.windows, now)
        facts = tier_facts(scene, MODEL, statuses[:1], self.view(scene, statuses[:1]))
        best = None if facts is None else choose(facts)
        keeps = (
            {}
            if facts is None
            else {(one.setting.place, one.setting.gigabytes): one.surely_keeps_slo for one in facts.outlooks}
        )
        if facts is None or best is None:
            return self.place, None, keeps
        said = tier_advice(scene, MODEL, "aggregated", statuses[:1], facts, best)
        return (best.setting.place, best.setting.gigabytes), said, keeps

    def view(self, scene: Scene, group: list[TargetStatus]) -> GroupView:
        """The load from the pages; the step-time model is one fitted on busier hours of this plant."""
        traffic = traffic_of(scene.increments(group, LOAD_SECONDS))
        limits = EngineLimits(8192, 256, float(self.story.kv_tokens))
        engine = EngineCapacity(model_of(self.story.plant), limits, 0.018)
        load = Load(
            traffic.input_tokens or 0.0,
            traffic.output_tokens or 0.0,
            rate=traffic.rate,
            spread_ratio=USUAL_SPREAD,
            hit_ratio=traffic.hit_ratio or 0.0,
            hits_are_whole=traffic.hits_are_whole,
        )
        budget, domain = TokenBudget(limits.token_budget, "config", ""), Domain((0.0, 40.0), (0.0, 2e5), None)
        return GroupView(group, engine, budget, EngineFacts(), load, traffic, domain)


def work(story: Story) -> Workload:
    draws = stream(story.seed, "prompts")
    answers = LogNormal(story.output_tokens, 0.4, 400, 8)
    if story.turns > 1:
        rate = Steps(((0.0, story.rate / story.turns),))
        habits = Habits(
            BLOCK * 4, LogNormal(story.user_tokens, 0.7, 4000, 16), answers, story.turns, story.pause_seconds
        )
        arrivals = Arrivals(rate, stream(story.seed, "arrivals"), START)
        return Conversations(arrivals, habits, draws, block_tokens=BLOCK)
    prompts = Documents(
        LogNormal(story.user_tokens, 0.7, 4000, 16),
        answers,
        documents=story.documents,
        document_tokens=story.document_tokens,
        finish_reason="stop",
    )
    arrivals = Arrivals(Steps(((0.0, story.rate),)), stream(story.seed, "arrivals"), START)
    return OpenLoop(arrivals, lambda _: prompts, draws)


def stories() -> Iterator[Story]:
    rng = Random(11)  # noqa: S311 - repeatable
    for number in range(STORIES):
        kv_tokens = round(2 ** rng.uniform(15.5, 18))
        turns = rng.choice([1.0, 1.0, rng.uniform(2, 8), rng.uniform(2, 8), rng.uniform(2, 8)])
        documents = rng.choice([10**5, round(2 ** rng.uniform(3, 8)), round(2 ** rng.uniform(3, 8))])
        document_tokens = BLOCK * round(2 ** rng.uniform(4, 6.5))
        user_tokens = 2 ** rng.uniform(7, 10.3)
        usual = document_tokens + user_tokens if turns == 1 else 256 + (user_tokens + 80) * (turns + 1) / 2
        rate = min(8.0, rng.uniform(0.2, 0.6) / (usual * 25e-6))
        small = kv_tokens * KV_BYTES_PER_TOKEN / 1e9 * 2 ** rng.uniform(0, 2)
        large = small * 2 ** rng.uniform(1.5, 3)
        tiers = (
            KvTier("cpu", 20e9, LOOKUP_SECONDS, (small, large)),
            KvTier(
                "remote",
                2 ** rng.uniform(-1, 3.3) * 1e9,
                LOOKUP_SECONDS + rng.uniform(0.002, 0.05),
                (small, large),
            ),
        )
        yield Story(
            number,
            KINDS[number % len(KINDS)],
            kv_tokens,
            rate,
            turns,
            2 ** rng.uniform(3.5, 6.5),
            user_tokens,
            documents,
            document_tokens,
            2 ** rng.uniform(5, 6.5),
            tiers,
            tuple(questions(number, usual * 25e-6)),
        )


def questions(number: int, prompt_seconds: float) -> Iterator[Question]:
    """Prices from a tenth of a cent to six a gigabyte's hour, and promises around the time that a prompt takes."""
    rng = Random(1_000 + number)  # noqa: S311 - repeatable
    for _ in range(QUESTIONS):
        price = 2 ** rng.uniform(-10, -4)
        prices = (("cpu", price), ("remote", price / 2 ** rng.uniform(0.5, 4)))
        yield Question(prices, 0.05 + prompt_seconds * 2 ** rng.uniform(0, 5))


def kind_of(now: Place, then: Place) -> str:
    """The class of going from one setting to another."""
    if now == then:
        return "leave"
    if not now[0]:
        return "enable"
    if not then[0]:
        return "disable"
    return "size" if now[0] == then[0] else "move"


def best_of(outcomes: dict[Place, Outcome], question: Question, slack: float = 1.0) -> Place:
    """The cheapest that keeps the promise (its misses times `slack`); else the one that misses least."""
    strains = {place: outcome.strain(question) for place, outcome in outcomes.items()}
    good = [place for place, strain in strains.items() if strain * slack <= 1]
    if good:
        return min(good, key=lambda place: outcomes[place].dollars(question, place))
    return min(strains, key=lambda place: strains[place])


def is_tie(outcomes: dict[Place, Outcome], question: Question, now: Place) -> bool:
    """Whether the class hangs on less than three per cent: of the misses, or of what an engine and its tier cost."""
    best = best_of(outcomes, question)
    right = kind_of(now, best)
    if any(kind_of(now, best_of(outcomes, question, 1 + slack)) != right for slack in (-TIE_RATIO, TIE_RATIO)):
        return True
    others = [place for place in outcomes if kind_of(now, place) != right]
    if outcomes[best].strain(question) > 1:
        least = min(outcomes[place].strain(question) for place in others)
        return least * (1 - TIE_RATIO) < outcomes[best].strain(question)
    good = [outcomes[p].dollars(question, p) for p in others if outcomes[p].strain(question) <= 1]
    here = outcomes[best].dollars(question, best)
    whole = ENGINE_DOLLARS + here - ENGINE_DOLLARS * outcomes[best].prefill_ratio / BUSY_RATIO
    return min(good, default=float("inf")) - here < TIE_RATIO * whole


@dataclass(frozen=True, slots=True)
class Cell:
    """One question asked of a replica with one setting: what is best, and what the rule says."""

    story: Story
    question: Question
    now: Place
    best: Place
    said: Place
    confidence: float | None
    outcomes: dict[Place, tuple[float, float]]
    """Strain and dollars, by setting."""
    keeps: dict[Place, bool]
    """Which settings were said to keep the promise even at the pessimistic end."""

    @property
    def right(self) -> str:
        return kind_of(self.now, self.best)

    @property
    def told(self) -> str:
        return kind_of(self.now, self.said)

    @property
    def is_right(self) -> bool:
        """A size has to be the right one as well."""
        return self.right == self.told and (self.right != "size" or self.said == self.best)


def judge(story: Story) -> list[Cell]:
    """The cells of one story."""
    watched = {place: Watched(story, place) for place in story.settings()}
    return cells_of(story, watched, {place: one.run() for place, one in watched.items()})


def cells_of(story: Story, watched: dict[Place, Watched], outcomes: dict[Place, Outcome]) -> list[Cell]:
    """Of every class so many cells of this story, ties left out."""
    asked = [(question, now) for question in story.questions for now in outcomes]
    Random(story.seed).shuffle(asked)  # noqa: S311 - repeatable
    taken: Counter[str] = Counter()
    found = []
    for question, now in asked:
        best = best_of(outcomes, question)
        right = kind_of(now, best)
        if taken[right] >= OF_A_CLASS or is_tie(outcomes, question, now):
            continue
        taken[right] += 1
        said, advice, keeps = watched[now].advised(question)
        told = {place: (one.strain(question), one.dollars(question, place)) for place, one in outcomes.items()}
        found.append(Cell(story, question, now, best, said, None if advice is None else advice.confidence, told, keeps))
    return found


def test_kv_tier_advice_against_the_simulators_optimum() -> None:
    """Right in at least 90 % of the cells that are no ties, as many of each class."""
    with ProcessPoolExecutor() as pool:
        every = [cell for cells in pool.map(judge, stories()) for cell in cells]
    most = min(CELLS, *(sum(cell.right == name for cell in every) for name in CLASSES))
    cells = [cell for name in CLASSES for cell in [each for each in every if each.right == name][:most]]
    found = Counter((cell.right, cell.told) for cell in cells)
    print("\n| simulator \\ advice | " + " | ".join(CLASSES) + " | right |\n|---|---|---|---|---|---|---|")
    for name in CLASSES:
        right = sum(cell.is_right for cell in cells if cell.right == name)
        print(f"| {name} | " + " | ".join(str(found[name, told]) for told in CLASSES) + f" | {right} |")
    right = sum(cell.is_right for cell in cells)
    print(f"{len(cells)} cells of {STORIES} stories, no ties; right {right} = {100 * right / len(cells):.1f} %")
    kept = Counter((said, cell.outcomes[place][0] <= 1) for cell in cells for place, said in cell.keeps.items())
    print(f"said to keep the promise: kept {kept[True, True]}, broken {kept[True, False]}", end="; ")
    print(f"not said: kept {kept[False, True]}, broken {kept[False, False]}")
    for kind in KINDS:
        part = [cell.is_right for cell in cells if cell.story.plant == kind]
        print(f"{kind}: {sum(part)} of {len(part)} right")
    for cell in (cell for cell in cells if not cell.is_right):
        sure = "CONFIDENT " if (cell.confidence or 0.0) >= CONFIDENT else ""
        told = " ".join(f"{_name(p)} {strain:.2f}/${cost:.2f}" for p, (strain, cost) in cell.outcomes.items())
        words = f"{_name(cell.now)} -> {_name(cell.said)}, not {_name(cell.best)}"
        print(f"wrong: {sure}{cell.story.seed} {cell.story.plant}: {words}; strain/cost {told}")
    assert right >= 0.9 * len(cells)


def _name(place: Place) -> str:
    return f"{place[0]} {place[1]:.0f} GB" if place[0] else "none"
