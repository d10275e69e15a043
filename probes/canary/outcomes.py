"""The closed set of what a canary request can come to, each with what it says about the service: one table."""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["good", "bad", "bad_after_success", "excluded"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one outcome class means for availability.

    `good` and `bad` count. `excluded` says nothing about the service: our own fault, a config fault, or not run.
    `bad_after_success` is a config fault until the target has once answered well, and an outage from then on.
    """

    verdict: Verdict
    meaning: str


OUTCOMES: Final[dict[str, Outcome]] = {
    "ok": Outcome("good", "the whole answer came; see the flags for warnings"),
    # Getting there.
    "dns_nxdomain": Outcome("bad", "the name does not exist"),
    "dns_error": Outcome("bad", "the name service failed"),
    "dns_timeout": Outcome("bad", "the name service did not answer within the connect timeout"),
    "connect_refused": Outcome("bad", "nothing listens there"),
    "connect_timeout": Outcome("bad", "no connection within the connect timeout"),
    "connect_reset": Outcome("bad", "the connection was dropped before any answer"),
    "connect_error": Outcome("bad", "no route, or another error of the network"),
    "tls_expired": Outcome("bad", "the certificate has expired"),
    "tls_hostname": Outcome("bad", "the certificate is for another name"),
    "tls_untrusted": Outcome("bad", "the certificate is not signed by a trusted authority"),
    "tls_timeout": Outcome("bad", "the TLS handshake did not end within the connect timeout"),
    "tls_protocol": Outcome("bad", "the TLS handshake failed; is it a plain HTTP port?"),
    "tls_client_cert": Outcome("excluded", "the server wants a client certificate"),
    "tls_files": Outcome("excluded", "our own certificate files cannot be read, or do not fit together"),
    "proxy_connect": Outcome("excluded", "our proxy is down, or does not connect us"),
    # The head of the answer.
    "write_timeout": Outcome("bad", "our request was not taken whole within the first-token timeout"),
    "head_timeout": Outcome("bad", "no answer at all within the first-token timeout"),
    "auth": Outcome("excluded", "401 or 403: our key is wrong or missing"),
    "proxy_auth": Outcome("excluded", "407: a proxy wants a key"),
    "model_not_found": Outcome("bad_after_success", "404 for this model"),
    "not_found": Outcome("bad_after_success", "404 for this path"),
    "redirect": Outcome("bad_after_success", "3xx; redirects of a POST are not followed"),
    "bad_request": Outcome("excluded", "4xx: the server does not take our request, even in its own dialect"),
    "bad_request_length": Outcome("excluded", "400: the probe is longer than the model's context"),
    "bad_request_size": Outcome("excluded", "413: the probe is larger than the server takes"),
    "rate_limited": Outcome("bad", "429"),
    "overloaded": Outcome("bad", "503 that says the engine is busy"),
    "unavailable": Outcome("bad", "503"),
    "server_error": Outcome("bad", "another 5xx"),
    "gateway_error": Outcome("bad", "502, 503 or 504 by a gateway in front of the engine"),
    "content_type": Outcome("bad", "200 with a page that is no event stream"),
    "not_streaming": Outcome("bad", "200 with the whole answer at once, though a stream was asked for"),
    "empty_body": Outcome("bad", "200 or 204 without a body"),
    # The stream.
    "first_token_timeout": Outcome("bad", "a head, but no token within the first-token timeout"),
    "stall_timeout": Outcome("bad", "tokens, then none for the stall timeout"),
    "total_timeout": Outcome("bad", "not over within the total timeout"),
    "stream_error": Outcome("bad", "an error event inside a 200"),
    "protocol": Outcome("bad", "not HTTP, not UTF-8, not JSON, or no answer to our request"),
    "oversize": Outcome("bad", "more bytes or events than a short answer can have"),
    "runaway": Outcome("bad", "more than twice the tokens asked for"),
    "truncated": Outcome("bad", "the stream ended without a finish reason"),
    "reset_midstream": Outcome("bad", "the connection broke in the middle of the stream"),
    "empty_output": Outcome("bad", "finished without one token"),
    "aborted": Outcome("bad", "finish reason abort, error or content_filter"),
    # What the answer says.
    "wrong_answer": Outcome("bad", "the known answer was not given, twice in a row"),
    "drift": Outcome("bad", "the model's certainty left its baseline, twice in a row"),
    "garbage_output": Outcome("bad", "one token for ever, or bytes that are no characters"),
    # Not about the service.
    "no_model": Outcome("excluded", "no model was named and /v1/models lists none"),
    "invalid_url": Outcome("excluded", "the target's URL cannot be used"),
    "internal_error": Outcome("excluded", "a fault of the prober itself; please report it"),
    "cancelled": Outcome("excluded", "stopped by us while in flight"),
    "loading": Outcome("excluded", "refused within canary_limits.warm_up_seconds by a target that never answered yet"),
    "sleeping": Outcome("excluded", "not sent: the engine sleeps, and a canary must not wake it"),
    "skipped_not_owner": Outcome("excluded", "not sent: another agent of the fleet probes this target"),
    "skipped_paused": Outcome("excluded", "not sent: canaries are switched off"),
    "skipped_pressure": Outcome("excluded", "not sent: users wait, or the KV cache is full"),
    "skipped_budget": Outcome("excluded", "not sent: the target's budget of canary tokens is used"),
    "skipped_backoff": Outcome("excluded", "not sent: the target fails, or refuses our key; it gets less load"),
    "missed": Outcome("excluded", "could not run in its time: the previous probe on this target still ran"),
}


WHAT_IS_SAID: Final = ("wrong_answer", "drift", "garbage_output")  # an answer came; less load would not mend these


def is_bad(outcome: str, *, has_succeeded: bool) -> bool | None:
    """Whether this outcome counts against availability; None when it does not count at all.

    `has_succeeded` tells whether this target has ever answered well. Outcomes named skipped_* never count.
    """
    verdict = OUTCOMES[outcome].verdict if outcome in OUTCOMES else "excluded"
    if verdict == "bad_after_success":
        return True if has_succeeded else None
    return {"good": False, "bad": True, "excluded": None}[verdict]
