"""Transitions of alerts, one row each."""

import pytest

from agent.alerts.book import AlertBook, Wanted, alert_labels
from agent.model import Alert

A = alert_labels("SLOBurnRate", "page", None, slo="a", tier="fast")
B = alert_labels("EngineStuck", "page", None, target="vllm-0")


def want(labels: tuple[tuple[str, str], ...], words: str = "") -> Wanted:
    return Wanted(labels, {"summary": words})


@pytest.mark.parametrize(
    ("row", "steps", "changes"),
    [
        ("inactive=>inactive", [([], [])], [[]]),
        ("inactive=>firing", [([A], [])], [["+a"]]),
        ("firing=>firing", [([A], []), ([A], [])], [["+a"], []]),
        ("firing=>resolved", [([A], []), ([], [])], [["+a"], ["-a"]]),
        ("firing=>held", [([A], []), ([], [A])], [["+a"], []]),
        ("held=>firing", [([A], []), ([], [A]), ([A], [])], [["+a"], [], []]),
        ("held=>resolved", [([A], []), ([], [A]), ([], [])], [["+a"], [], ["-a"]]),
        ("inactive=>held stays inactive", [([], [A])], [[]]),
        ("firing=>resolved=>firing", [([A], []), ([], []), ([A], [])], [["+a"], ["-a"], ["+a"]]),
        ("two are apart", [([A, B], []), ([B], [])], [["+a", "+stuck"], ["-a"]]),
    ],
)
def test_transition(row: str, steps: list[tuple[list[object], list[object]]], changes: list[list[str]]) -> None:
    book, seen = AlertBook(), []
    for at, (wanted, held) in enumerate(steps, 1):
        changed = book.settle([want(labels) for labels in wanted], frozenset(held), float(at))  # type: ignore[arg-type]
        seen.append([("+" if a.is_firing else "-") + ("a" if a.name == "SLOBurnRate" else "stuck") for a in changed])
    assert seen == changes, row


def test_an_alert_keeps_its_start_while_its_words_change() -> None:
    book = AlertBook()
    book.settle([want(A, "burns at 15 times")], frozenset(), 10.0)
    assert book.settle([want(A, "burns at 20 times")], frozenset(), 20.0) == ()
    assert book.firing[A] == Alert(A, {"summary": "burns at 20 times"}, 10.0)
    (over,) = book.settle([], frozenset(), 30.0)
    assert (over.starts_at_seconds, over.ends_at_seconds) == (10.0, 30.0)


def test_labels_are_sorted_and_those_without_a_value_are_left_out() -> None:
    labels = alert_labels("EngineStuck", "page", None, target="vllm-0", model="", role=None)
    assert labels == (("alertname", "EngineStuck"), ("severity", "page"), ("target", "vllm-0"))
