"""What the capacity model says of 1 to 32 users after 1 to 8, beside what clients measured; as in docs/capacity.md."""

# ruff: noqa: T201 - a benchmark prints

from h200 import RECORDING, client, needs_h200, stretches

from agent.advice.capacity import Prediction
from agent.capacity_report import CapacityQuestion, capacity_report
from agent.model import Figure
from agent.report import report
from agent.signals.read import Question
from agent.stretch import Stretch

ROWS = (
    ("ITL p50 ms", "itl_p50_seconds", "p50_itl_ms", 1e3),
    ("ITL p95 ms", "itl_p95_seconds", "p95_itl_ms", 1e3),
    ("ITL p99 ms", "itl_p99_seconds", "p99_itl_ms", 1e3),
    ("TPOT mean ms", "tpot_mean_seconds", "mean_tpot_ms", 1e3),
    ("TTFT mean ms", "ttft_mean_seconds", "mean_ttft_ms", 1e3),
    ("TTFT p99 ms", "ttft_p99_seconds", "p99_ttft_ms", 1e3),
    ("output tokens/s", "output_tokens_per_second", "output_throughput", 1.0),
)


@needs_h200
def test_predictions_of_an_h200_beside_what_was_measured() -> None:
    """The interval holds the measured TPOT, or misses it by less than 5 %."""
    learned_up_to = stretches()[8][1] + 5
    print("\n| users | figure | predicted | interval | measured |\n|---|---|---|---|---|")
    for users, (start, end) in stretches().items():
        question = CapacityQuestion(
            concurrency=users, input_tokens=8192.0, output_tokens=1024.0, thresholds=(("itl", 0.05),)
        )
        said = capacity_report(RECORDING, Stretch(to_seconds=learned_up_to), question).prediction
        assert isinstance(said, Prediction)
        for name, field, key, scale in ROWS:
            _row(users, name, getattr(said, field), client(users)[key], scale)
        seen = report(RECORDING, Stretch(start, end), Question(thresholds=(("itl_seconds", 0.05),))).total
        share = seen.over_threshold_ratio["itl_seconds>0.05"]
        assert share is not None
        assert share.value is not None
        _row(users, "gaps over 50 ms, %", said.over_threshold_ratio["itl_seconds>0.05"], 100 * share.value, 100.0)
        tpot = said.tpot_mean_seconds
        assert tpot is not None
        assert tpot.low is not None
        assert tpot.high is not None
        assert 0.95 * tpot.low <= client(users)["mean_tpot_ms"] / 1e3 <= 1.05 * tpot.high


def _row(users: int, name: str, figure: Figure | None, measured: float, scale: float) -> None:
    if figure is None or figure.value is None or figure.low is None or figure.high is None:
        print(f"| {users} | {name} | unknown | | {measured:.4g} |")
        return
    value, low, high = (x * scale for x in (figure.value, figure.low, figure.high))
    print(f"| {users} | {name} | {value:.4g} | {low:.4g} to {high:.4g} | {measured:.4g} |")
