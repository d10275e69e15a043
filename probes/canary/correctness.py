"""The correctness canary: questions whose answers are known, and how sure the model is of what it says."""

import re
import statistics
from dataclasses import replace
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from probes.canary.gibberish import gibberish
from probes.canary.item import CanaryItem, Cost, text_tokens, whose_turn
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Answered, Visit, message, streamed
from probes.sample import ProbeResult
from probes.stream import StreamFault
from probes.units import Seconds

STRIKES: Final = 2  # at temperature 0 an answer may still differ from batch to batch; twice in a row it is wrong
BASELINE_RUNS: Final = 8  # answers that make the baseline of a question, per model and version
DRIFT_FLOOR: Final = 0.5  # nats per token; below it nothing is called drift, however steady the baseline was
DRIFT_DEVIATIONS: Final = 6.0  # of the baseline's median absolute deviation, scaled to a standard deviation
_MAD_TO_DEVIATION: Final = 1.4826  # of a normal distribution
OUTPUT_TOKENS: Final = 32


class KnownAnswer(BaseModel):
    """A question whose answer is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = Field(min_length=1, description="What is asked, such as: What is 7 plus 5? Only the number.")
    expected: str = Field(min_length=1, description="The word or number that a right answer has, such as: 12.")


DEFAULT_QUESTIONS: Final = [
    KnownAnswer(prompt="What is 7 plus 5? Answer with the number only.", expected="12"),
    KnownAnswer(prompt="What is the capital of France? Answer with one word.", expected="Paris"),
    KnownAnswer(prompt="Which colour do blue and yellow make? Answer with one word.", expected="green"),
]


class CorrectnessCanary(CanaryItem):
    """Questions with known answers; gibberish and a drift of the model's own certainty are told as well."""

    kind: Literal["correctness"] = "correctness"
    interval_seconds: Seconds = Field(300, description="Planned time between two canaries on one target, seconds.")
    questions: list[KnownAnswer] = Field(
        DEFAULT_QUESTIONS, min_length=1, description="Asked in turn; default: three that any instruct model can answer."
    )

    def cost(self) -> Cost:
        """The prompts are always the same."""
        return Cost(1, max(text_tokens(question.prompt) for question in self.questions), 0, OUTPUT_TOKENS)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The question whose turn it is."""
        question = self.questions[whose_turn(task.turn, len(self.questions))]
        return replace(
            CanaryItem.fill(self, task), prompt=question.prompt, expected=question.expected, max_tokens=OUTPUT_TOKENS
        )


async def run(visit: Visit) -> ProbeResult:
    """One question. A wrong answer, or one that drifts, is a strike; the second in a row is the outcome."""
    body = message(visit.task.prompt) | streamed(visit.task.max_tokens, exactly=False)
    body |= {"logprobs": True, "chat_template_kwargs": {"enable_thinking": False}}
    answered = await visit.ask(CHAT_PATH, body)
    if answered.fault is not None:
        return answered.result()
    is_right = _is_right(answered)
    deviation = _deviation(answered)
    figures = {
        "answer_right": None if is_right is None else float(is_right),
        "logprob_mean": statistics.fmean(answered.stream.logprobs) if answered.stream.logprobs else None,
        "logprob_deviation": deviation,
        "strikes": None,
    }
    garbage = gibberish(answered.stream.text)
    if garbage is not None:
        answered.fault = StreamFault("garbage_output", garbage)
        return answered.result(figures)
    strikes = [
        _strike(answered, "wrong_answer", is_bad=None if is_right is None else not is_right),
        _strike(answered, "drift", is_bad=None if deviation is None else deviation > 1.0),
    ]
    figures["strikes"] = float(max(strikes))
    return answered.result(figures)


def _is_right(answered: Answered) -> bool | None:
    """None where the answer shows nothing: only reasoning, or cut short before the word came."""
    text, expected = answered.stream.text, answered.visit.task.expected
    if re.search(rf"(?<!\w){re.escape(expected)}(?!\w)", text, re.IGNORECASE):
        return True
    if not text.strip():
        answered.flags["inconclusive"] = None
        return None
    if answered.stream.finish_reason == "length":
        answered.flags["cut_short"] = None  # it should have stopped by itself long before
    return False


def _strike(answered: Answered, outcome: str, *, is_bad: bool | None) -> int:
    """Strikes in a row for this question, on this rank; the second makes the outcome. What shows nothing counts not."""
    visit = answered.visit
    place = visit.base, visit.model, visit.task.rank, f"{outcome}: {visit.task.prompt}"
    strikes = visit.memory.strikes.get(place, 0)
    if is_bad is not None:
        strikes = visit.memory.strikes[place] = strikes + 1 if is_bad else 0
    if is_bad and strikes >= STRIKES and answered.fault is None:
        answered.fault = StreamFault(outcome, _WORDS[outcome].format(strikes))
    elif is_bad:
        answered.flags[f"{outcome}_once"] = None
    return strikes


_WORDS: Final = {
    "wrong_answer": "the answer lacks the expected word, {} times in a row",
    "drift": "the model is surer or less sure of its answer than in its baseline, {} times in a row",
}


def _deviation(answered: Answered) -> float | None:
    """How far the mean log probability lies from its baseline, as a share of what is allowed; None without either.

    The first answers of a model and version (the server's fingerprint) are the baseline; another version begins anew.
    """
    logprobs = answered.stream.logprobs
    if not logprobs:
        return None
    visit = answered.visit
    place = visit.base, visit.model, answered.stream.fingerprint, visit.task.prompt
    baseline = visit.memory.logprobs.setdefault(place, [])
    mean = statistics.fmean(logprobs)
    if len(baseline) < BASELINE_RUNS:
        baseline.append(mean)
        return None
    middle = statistics.median(baseline)
    spread = statistics.median(abs(value - middle) for value in baseline) * _MAD_TO_DEVIATION
    return abs(mean - middle) / max(DRIFT_FLOOR, DRIFT_DEVIATIONS * spread)
