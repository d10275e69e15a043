"""What is asked of a canary: where, what, and how long it may take."""

import base64
from dataclasses import dataclass, field
from typing import Literal

from probes.sample import ProbeResult

ProbeKind = Literal[
    "chat",
    "models",
    "completion",
    "responses",
    "embedding",
    "kv_reuse",
    "correctness",
    "long_prompt",
    "streaming_shape",
]


@dataclass(frozen=True, slots=True)
class Route:
    """How a target is reached. Certificates are PEM files, read again when they change; the rest is of now.

    `ca_file` None: the system's authorities. `proxy_auth` is user:password.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ca_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None
    proxy_url: str | None = None
    proxy_auth: str | None = field(default=None, repr=False)

    @property
    def proxy_headers(self) -> dict[str, str]:
        """What a proxy wants to see: in the request itself, or before a TLS connection in that for the tunnel."""
        if self.proxy_auth is None:
            return {}
        return {"Proxy-Authorization": "Basic " + base64.b64encode(self.proxy_auth.encode()).decode()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not stand in a result, in every form it is sent in."""
        values = tuple(value for _, value in self.headers)
        if self.proxy_auth is None:
            return values
        sent = base64.b64encode(self.proxy_auth.encode()).decode()
        return (*values, self.proxy_auth, sent, self.proxy_auth.partition(":")[2])


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another target, that the second half of a canary goes to: an instance that may share its cache with the first."""

    target: str
    url: str
    model: str | None = None
    token: str | None = field(default=None, repr=False)
    route: Route = field(default_factory=Route)


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """One canary request to send now.

    `url` is the server's base, with or without /v1. `model` None: the first of /v1/models. Timeouts are seconds of the
    injected clock: connect covers name, TCP and TLS; first token counts from the request sent; stall between token
    events; total over everything. `planned_at_seconds` (unix) is when it should have started.
    Some kinds make their own prompt, of about `prompt_tokens`; `gap_seconds` lie between the halves of a cold and warm
    pair, of which the warm half goes `elsewhere` where that is given; `expected` is the word that a right answer has.
    `turn` is how many runs of this canary the target (or its rank) had before. `rank` is the data-parallel rank that is
    asked for; `adapter_turn` whose turn it is of the model and its adapters.
    """

    target: str
    url: str
    kind: ProbeKind = "chat"
    model: str | None = None
    token: str | None = field(default=None, repr=False)
    route: Route = field(default_factory=Route)
    prompt: str = "Count from one to sixteen in words."
    max_tokens: int = 16
    prompt_tokens: int = 0
    gap_seconds: float = 0.0
    elsewhere: Elsewhere | None = None
    expected: str = ""
    turn: int = 0
    rank: str = ""
    adapter_turn: int | None = None
    connect_timeout_seconds: float = 3.0
    first_token_timeout_seconds: float = 20.0
    stall_timeout_seconds: float = 10.0
    total_timeout_seconds: float = 60.0
    planned_at_seconds: float = 0.0

    @property
    def secrets(self) -> tuple[str | None, ...]:
        """What must not stand in a result."""
        there = () if self.elsewhere is None else (self.elsewhere.token, *self.elsewhere.route.secrets)
        return (self.token, self.prompt, *self.route.secrets, *there)


def unrun(task: ProbeTask, outcome: str, at_seconds: float, detail: str) -> ProbeResult:
    """The result of a probe that was not run to its end by our own doing: "missed" or "cancelled", and why."""
    return ProbeResult(
        target=task.target,
        kind=task.kind,
        outcome=outcome,
        planned_at_seconds=task.planned_at_seconds,
        at_seconds=at_seconds,
        model=task.model or "",
        detail=detail,
        rank=task.rank,
    )
