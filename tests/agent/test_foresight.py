"""What is told about an SLO before it happens."""

import pytest

from agent.burn_windows import standard_pairs
from agent.foresight import detection_seconds, first_alert, warnings
from agent.model import SliName, SliSource, Slo

MONTH = 30 * 86_400.0


def promise(
    objective: float, sli: SliName = "ttft", threshold: float = 2.5, source: SliSource = "engine", period: float = MONTH
) -> Slo:
    return Slo("s", "chat", sli, source, objective, period, standard_pairs(period), threshold)


@pytest.mark.parametrize(
    ("objective", "share", "page", "ticket"),
    [
        (0.999, 1.0, 51.84, 259.2),
        (0.999, 0.1, 518.4, 2592.0),
        (0.999, 0.02, 2592.0, 12_960.0),
        (0.99, 1.0, 518.4, 2592.0),
        (0.99, 0.5, 1036.8, 5184.0),
        (0.99, 0.05, None, 51_840.0),
        (0.95, 1.0, 2592.0, 12_960.0),
        (0.95, 0.05, None, None),
    ],
)
def test_first_alert(objective: float, share: float, page: float | None, ticket: float | None) -> None:
    """facts/slo.md A; two tickets that fire at once are one answer."""
    found = [first_alert(promise(objective), severity, share) for severity in ("page", "ticket")]
    assert [None if item is None else item[0] for item in found] == [
        None if seconds is None else pytest.approx(seconds) for seconds in (page, ticket)
    ]


@pytest.mark.parametrize(("interval", "seconds"), [(None, 51.84), (10.0, 51.84), (30.0, 90.0), (60.0, 180.0)])
def test_three_canaries_must_fail_first(interval: float | None, seconds: float) -> None:
    """At 99.9 % one failed canary burns fast enough; the three that a page needs take three intervals."""
    found = first_alert(promise(0.999, source="canary"), "page", 1.0, interval)
    assert found is not None
    assert found[0] == pytest.approx(seconds)


def test_a_burn_of_exactly_the_factor_never_pages() -> None:
    slo = promise(0.99)
    assert detection_seconds(slo, slo.pairs[0], slo.pairs[0].factor * slo.budget_ratio) is None


@pytest.mark.parametrize(
    ("period_days", "factors"),
    [(30, [14.4, 6.0, 3.0, 1.0]), (28, [13.44, 5.6, 2.8, 1.0]), (7, [3.36, 1.4, 1.0, 1.0]), (1, [1.0, 1.0])],
)
def test_factors_keep_the_share_of_budget_and_never_fall_below_1(period_days: int, factors: list[float]) -> None:
    """Sloth's 28 days would ticket at 0.933, on a service that keeps its promise."""
    assert [pair.factor for pair in standard_pairs(period_days * 86_400.0)] == [pytest.approx(f) for f in factors]


@pytest.mark.parametrize(
    ("slo", "interval", "words"),
    [
        (promise(0.999), None, []),
        (promise(0.999, threshold=2.0), None, ["requests between 1 and 2.5 s cannot be told apart", "Write 1 or 2.5"]),
        (promise(0.999, "itl", 0.005), None, ["requests between 0 and 0.01 s"]),
        (promise(0.999, "itl", 100.0), None, ["between 80 and infinity s", "Write 80, or"]),
        (promise(0.9), None, ["the page/fast pair can never fire"]),
        (promise(0.999, source="canary"), 60.0, ["one failed canary in 1 h burns faster", "52 s or less"]),
        (promise(0.99, source="canary"), 60.0, []),
        (promise(0.999, period=3_600.0), None, ["it never alerts"]),
    ],
)
def test_warnings(slo: Slo, interval: float | None, words: list[str]) -> None:
    told = " ".join(warnings(slo, interval))
    assert bool(told) == bool(words)
    for part in words:
        assert part in told
