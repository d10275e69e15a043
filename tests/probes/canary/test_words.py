"""What a probe says about itself: redaction, the JSON of the command line, the table of outcomes, the wire."""

import pytest

from probes.canary.outcomes import OUTCOMES, is_bad
from probes.canary.redaction import redact
from probes.canary.report import percentile, probe_json
from probes.canary.task import ProbeTask
from probes.canary.wire import read_result, read_task, result_line, task_line
from probes.sample import ProbeResult

OK = ProbeResult(
    target="t",
    kind="chat",
    outcome="ok",
    planned_at_seconds=1.0,
    at_seconds=2.0,
    model="m",
    ttft_seconds=0.5,
    itl_gaps_seconds=(0.3, 0.1, 0.2),
    phases={"connect": 0.01, "tls": None},
    flags=("coalesced",),
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("key tok-1 is wrong", "key [redacted] is wrong"),
        ('a "quoted\\"key" is wrong', 'a "[redacted]" is wrong'),
        ("schl\\u00fcssel or schl\u00fcssel", "[redacted] or [redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("bearer xyz, he said", "[redacted], he said"),
        ("use sk-abcdefgh12", "use [redacted]"),
        ("http://me:pass@host/", "http:[redacted]host/"),
        ("a\r\nb\x00c\u2028d", "a b c d"),
        ("", ""),
    ],
)
def test_redaction(text: str, said: str) -> None:
    assert redact(text, ["tok-1", 'quoted"key', "schl\u00fcssel", None, ""]) == said


def test_a_secret_at_the_cut_leaves_no_half() -> None:
    assert "tok" not in redact("x" * 195 + "tok-1", ["tok-1"])


def test_the_json_of_a_probe() -> None:
    """Gaps 0.1, 0.2, 0.3: p50 is the middle one, p99 = 0.2 + 0.98 * 0.1."""
    assert probe_json(OK) == {
        "target": OK.target,
        "kind": "chat",
        "model": OK.model,
        "rank": "",
        "at": OK.at_seconds,
        "planned_at": OK.planned_at_seconds,
        "figures": dict(OK.figures),
        "flags": list(OK.flags),
        "request_id": OK.request_id,
        "outcome": "ok",
        "first_event_seconds": None,
        "ttft_seconds": 0.5,
        "first_text_seconds": None,
        "tpot_seconds": None,
        "itl_seconds": {"p50": 0.2, "p99": pytest.approx(0.298), "max": 0.3},
        "e2e_seconds": None,
        "output_tokens": None,
        "prompt_tokens": None,
        "cached_tokens": None,
        "timing_error_seconds": None,
        "phases": {"dns": None, "connect": 0.01, "tls": None, "headers": None},
        "detail": "",
    }


def test_percentiles_of_none_are_unknown() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0], 0.99) == 3.0


def test_every_verdict_and_what_is_not_in_the_table() -> None:
    """A 404 before the first success is a wrong config; after it, an outage. Skipped probes never count."""
    assert is_bad("ok", has_succeeded=False) is False
    assert is_bad("stall_timeout", has_succeeded=False) is True
    assert is_bad("auth", has_succeeded=True) is None
    assert [is_bad("model_not_found", has_succeeded=seen) for seen in (False, True)] == [None, True]
    assert is_bad("skipped_pressure", has_succeeded=True) is None


def test_outcomes_have_a_meaning_each() -> None:
    assert len({outcome.meaning for outcome in OUTCOMES.values()}) == len(OUTCOMES)


def test_the_wire_keeps_everything() -> None:
    task = ProbeTask(target="t", url="http://h", token="tok", prompt="a\nb\u2028c")
    assert read_task(task_line(3, task)) == (3, task)
    assert read_result(result_line(4, OK)) == (4, OK)
    assert result_line(4, OK).count(b"\n") == 1
