"""How much one replica of a group carries under its objectives: the model's answer, held against what was seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from agent.advice.capacity import Binding, EngineCapacity, Objective, Signal, max_rate
from agent.advice.capacity_book import Learned
from agent.advice.demand import Mix
from agent.advice.engine_facts import EngineFacts
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.token_budget import TokenBudget, said_token_budget
from agent.model import Slo
from agent.signals.sums import add_up
from agent.stats.buckets import split_at
from agent.windows import Increment

NOTHING_SAID = EngineFacts()
SPREAD_RATIO = 0.9  # real lengths differ; an even spread so wide has the variance of a lognormal with CV 0.5
MIX_MOVED = 0.15  # of any length: then the answer is another one
ASKED_EVERY_SECONDS, ASKED_UNSURE_SECONDS = 300.0, 60.0
SURE_RATIO = 0.85  # of the value at the pessimistic end
LEAST_SURE_RATIO = 0.7  # of the value at the pessimistic end: a wider interval is no knowledge yet
LARGEST_ERROR_RATIO = 0.15  # of the median stretch: a law that misses more is not trusted
CHECK_SECONDS = 60.0
CALM_SECONDS = 180.0  # without a queue coming or going, or a replica: longer than an answer takes
LEAST_EVENTS = 40.0
SLOWER, FASTER = 0.93, 1.03  # per minute; down faster than up, as in congestion control
LEAST_CORRECTION, MOST_CORRECTION = 0.4, 1.6
NEAR = 0.85  # of what one is said to carry: nearer, a kept promise says that more is possible


@dataclass(frozen=True, slots=True)
class Carried:
    """Requests per second of one replica: `low` at the pessimistic end, corrected by what was seen, and `high`."""

    low: float
    value: float
    high: float
    binding: Binding | None
    error_ratio: float
    correction: float
    budget: TokenBudget | None = None


@dataclass(slots=True)
class Carries:
    """Asks the model when the traffic or the model has changed, and corrects it by attainment every minute."""

    correction: float = 1.0
    _answer: Carried | None = None
    _asked: tuple[Mix, tuple[Objective, ...], int] | None = None
    _asked_at_seconds: float = 0.0
    _checked_at_seconds: float = 0.0
    _serving: int = 0
    _changed_at_seconds: float = 0.0
    _queues: bool = False
    _turned_at_seconds: float = 0.0

    def ask(
        self,
        learned: Learned | None,
        mix: Mix | None,
        objectives: Sequence[Objective],
        now_seconds: float,
        facts: EngineFacts = NOTHING_SAID,
    ) -> Carried | None:
        """None where no model is known or it is not to be trusted, or nothing is promised. The token budget is the one
        that is said, else inferred from everything seen of this kind of engine, else vLLM's default.
        """
        steps = None if learned is None else learned.steps
        if learned is None or steps is None or mix is None or not objectives:
            return None
        if steps.error_ratio > LARGEST_ERROR_RATIO or facts.refusals:
            return None
        if self._is_old(mix, objectives, learned.version, now_seconds):
            budget = said_token_budget(facts) or learned.token_budget()
            most = facts.max_sequences or EngineLimits().max_sequences
            engine = EngineCapacity(steps, EngineLimits(budget.tokens, most, learned.kv_capacity_tokens))
            load = Load(
                mix.input_tokens, mix.output_tokens, rate=1.0, spread_ratio=SPREAD_RATIO, hit_ratio=mix.hit_ratio
            )
            limit = max_rate(engine, load, objectives)
            self._keep_correction(limit.low)
            self._answer = Carried(limit.low, limit.value, limit.high, limit.binding, steps.error_ratio, 1.0, budget)
            self._asked, self._asked_at_seconds = (mix, tuple(objectives), learned.version), now_seconds
        answer = self._answer
        if answer is None or answer.low < LEAST_SURE_RATIO * answer.value:
            return None
        low, value = answer.low * self.correction, answer.value * self.correction
        return replace(answer, low=low, value=value, correction=self.correction)

    def learn(
        self,
        increments: Iterable[Increment],
        objectives: Sequence[Objective],
        rate: float,
        serving: int,
        *,
        queues: bool,
        now_seconds: float,
    ) -> None:
        """Once a minute: less where the promise broke under a load that should have been carried, more where it was
        kept under one that should not. What happens while an old queue is worked off, or replicas have just come, says
        nothing; a queue that stands although they have been there for a while says that the model promised too much.
        """
        if serving != self._serving:
            self._serving, self._changed_at_seconds = serving, now_seconds
        if queues != self._queues:
            self._queues, self._turned_at_seconds = queues, now_seconds
        if now_seconds - self._checked_at_seconds < CHECK_SECONDS or self._answer is None:
            return
        self._checked_at_seconds = now_seconds
        said, each = self._answer.low * self.correction, rate / serving
        settled = now_seconds - max(self._changed_at_seconds, self._turned_at_seconds) > CALM_SECONDS
        kept = _kept(increments, objectives)
        if kept is None or said <= 0:
            return
        if not kept and settled and each <= said * 1.05:
            self.correction *= SLOWER
        elif kept and not queues and each > NEAR * said:
            self.correction *= FASTER
        self.correction = min(MOST_CORRECTION, max(LEAST_CORRECTION, self.correction))

    def outline(self) -> dict[str, object]:
        """All of it, as plain values."""
        form = {part.name: getattr(self, part.name) for part in fields(self)}
        if self._answer is not None:
            form["_answer"] = astuple(self._answer)
        if self._asked is not None:
            form["_asked"] = astuple(self._asked[0]), [astuple(one) for one in self._asked[1]], self._asked[2]
        return form

    @classmethod
    def restored(cls, form: Mapping[str, Any]) -> "Carries":
        """What `outline` told. Raises ValueError, LookupError or TypeError where it is something else."""
        said, asked, question = form["_answer"], form["_asked"], None
        if asked is not None:
            mix, promised, version = asked
            objectives = (Objective(signal, float(limit), float(ratio)) for signal, limit, ratio in promised)
            question = Mix(*map(float, mix)), tuple(objectives), int(version)
        if said is not None:
            low, value, high, binding, error, correction, budget = said
            known = None if budget is None else TokenBudget(int(budget[0]), budget[1], str(budget[2]))
            said = Carried(float(low), float(value), float(high), binding, float(error), float(correction), known)
        return cls(
            float(form["correction"]),
            said,
            question,
            float(form["_asked_at_seconds"]),
            float(form["_checked_at_seconds"]),
            int(form["_serving"]),
            float(form["_changed_at_seconds"]),
            bool(form["_queues"]),
            float(form["_turned_at_seconds"]),
        )

    def _keep_correction(self, low: float) -> None:
        """A model that says by itself what was learned beside it needs the correction no longer."""
        if self._answer is None or low <= 0 or self._answer.low <= 0:
            return
        moved = self.correction * self._answer.low / low
        if self.correction > 1:
            self.correction = min(self.correction, max(1.0, moved))
        else:
            self.correction = max(self.correction, min(1.0, moved))

    def _is_old(self, mix: Mix, objectives: Sequence[Objective], version: int, now_seconds: float) -> bool:
        if self._asked is None or self._asked[1:] != (tuple(objectives), version):
            return True
        is_sure = self._answer is not None and self._answer.low >= SURE_RATIO * self._answer.value
        if now_seconds - self._asked_at_seconds > (ASKED_EVERY_SECONDS if is_sure else ASKED_UNSURE_SECONDS):
            return True
        before = self._asked[0]
        pairs = ((before.input_tokens, mix.input_tokens), (before.output_tokens, mix.output_tokens))
        return any(abs(b / a - 1) > MIX_MOVED for a, b in pairs) or abs(before.hit_ratio - mix.hit_ratio) > MIX_MOVED


def objectives_of(slos: Iterable[Slo]) -> tuple[Objective, ...]:
    """What these promises ask of an engine; goodput asks for both of its limits."""
    asked: list[tuple[Signal, float | None, Slo]] = []
    for slo in slos:
        if slo.sli == "goodput":
            asked += [("ttft", slo.ttft_seconds, slo), ("tpot", slo.tpot_seconds, slo)]
        elif slo.sli in ("ttft", "itl", "tpot"):
            asked.append((slo.sli, slo.threshold_seconds, slo))
    return tuple(Objective(signal, limit, slo.good_request_ratio) for signal, limit, slo in asked if limit is not None)


def _kept(increments: Iterable[Increment], objectives: Sequence[Objective]) -> bool | None:
    """Whether every objective was kept with room to spare; None where too little happened."""
    sums = add_up(increments)
    verdicts = []
    for objective in objectives:
        buckets = sums.histogram(f"{objective.signal}_seconds")
        if buckets is None or buckets.count < LEAST_EVENTS:
            return None
        counts = split_at(buckets, objective.threshold_seconds)
        verdicts.append(counts.good >= objective.objective_ratio * counts.total)
    return all(verdicts) if verdicts else None
