"""Good and bad canaries: exact, one event each."""

from agent.model import Counts, Events, Slo
from probes.sample import ProbeResult

OUR_OWN_FAULT = (
    "auth",
    "tls_client_cert",
    "proxy_auth",
    "proxy_connect",
    "bad_request",
    "bad_request_length",
    "bad_request_size",
)


def canary_events(slo: Slo, result: ProbeResult) -> Events:
    """What one canary result adds to an SLO. Skipped ones and our own mistakes say nothing about the service.

    A failed canary is bad for every SLI: a user would not call it fast. A figure the stream could not show leaves the
    event undecided.
    """
    return Events(result.at_seconds, result.at_seconds, _counts(slo, result))


def _counts(slo: Slo, result: ProbeResult) -> Counts:
    if not result.reached_user_service or result.outcome in OUR_OWN_FAULT:
        return Counts()
    if not result.is_ok:
        return Counts(bad=1)
    if slo.sli == "availability":
        is_late = slo.threshold_seconds is not None and (result.e2e_seconds or 0.0) > slo.threshold_seconds
        return Counts(bad=1) if is_late else Counts(good=1)
    return _against(_figure(slo, result), slo.threshold_seconds, result.timing_error_seconds or 0.0)


def _figure(slo: Slo, result: ProbeResult) -> float | None:
    return {"ttft": result.ttft_seconds, "tpot": result.tpot_seconds, "e2e": result.e2e_seconds}.get(slo.sli)


def _against(figure: float | None, threshold: float | None, error: float) -> Counts:
    """`error` is how much the client itself may have added: a figure above by less than that is undecided."""
    if figure is None or threshold is None:
        return Counts(undecided=1)
    if figure <= threshold:
        return Counts(good=1)
    return Counts(bad=1) if figure - error > threshold else Counts(undecided=1)
