"""What one canary adds to an SLO."""

from typing import Any

import pytest

from agent.model import Counts, SliName, Slo
from agent.sli.canary import canary_events
from probes.sample import ProbeResult

GOOD, BAD, UNDECIDED, NOTHING = Counts(good=1), Counts(bad=1), Counts(undecided=1), Counts()


def counts(sli: SliName, threshold: float | None, outcome: str = "ok", **more: Any) -> Counts:
    slo = Slo("s", "chat", sli, "canary", 0.99, 2_592_000.0, (), threshold)
    known = more.pop("has_succeeded", True)
    return canary_events(slo, ProbeResult("vllm-0", "chat", outcome, 1.0, 2.0, **more), has_succeeded=known).counts


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("ok", GOOD), ("connect_refused", BAD), ("first_token_timeout", BAD), ("server_error", BAD), ("truncated", BAD),
        ("auth", NOTHING), ("bad_request", NOTHING), ("no_model", NOTHING), ("internal_error", NOTHING),
        ("invalid_url", NOTHING), ("tls_client_cert", NOTHING), ("missed", NOTHING), ("cancelled", NOTHING),
        ("skipped_budget", NOTHING),
    ],
)  # fmt: skip
def test_availability(outcome: str, expected: Counts) -> None:
    """Our own mistakes and what was not run say nothing about the service."""
    assert counts("availability", None, outcome) == expected


@pytest.mark.parametrize(("has_succeeded", "expected"), [(False, NOTHING), (True, BAD)])
def test_a_missing_model_is_an_outage_only_after_a_success(has_succeeded: bool, expected: Counts) -> None:  # noqa: FBT001
    assert counts("availability", None, "model_not_found", has_succeeded=has_succeeded) == expected


@pytest.mark.parametrize(
    ("sli", "field"),
    [("ttft", "ttft_seconds"), ("tpot", "tpot_seconds"), ("e2e", "e2e_seconds"), ("availability", "e2e_seconds")],
)
@pytest.mark.parametrize(
    ("seconds", "error", "expected"),
    [
        (2.0, 0.0, GOOD),
        (2.001, 0.0, BAD),
        (2.001, 0.1, UNDECIDED),  # our own event loop may have added it
        (2.2, 0.1, BAD),
        (None, 0.0, UNDECIDED),  # the stream did not show it
    ],
)
def test_a_latency_against_its_threshold(
    sli: SliName, field: str, seconds: float | None, error: float, expected: Counts
) -> None:
    assert counts(sli, 2.0, timing_error_seconds=error, **{field: seconds}) == expected


@pytest.mark.parametrize(
    ("sli", "seconds", "expected"),
    [
        ("ttft", 1.95, GOOD),  # a stamp may be too late: it was sooner
        ("e2e", 1.95, GOOD),
        ("stall", 1.95, UNDECIDED),  # the token before the gap may have come sooner than its stamp
        ("stall", 1.85, GOOD),
        ("tpot", 1.995, UNDECIDED),  # 0.1 s over ten tokens
        ("tpot", 1.985, GOOD),
        ("tpot", 2.015, BAD),
    ],
)
def test_an_error_moves_what_lies_between_two_stamps_both_ways(sli: SliName, seconds: float, expected: Counts) -> None:
    figures = {"stall": {"itl_gaps_seconds": (seconds,)}}.get(sli, {f"{sli}_seconds": seconds})
    assert counts(sli, 2.0, timing_error_seconds=0.1, output_tokens=11, **figures) == expected


@pytest.mark.parametrize("sli", ["ttft", "tpot", "e2e"])
def test_a_failed_canary_is_bad_for_every_latency(sli: SliName) -> None:
    assert counts(sli, 2.0, "stall_timeout", ttft_seconds=0.1, tpot_seconds=0.01) == BAD
