"""May this canary be sent now? One at a time on a target, within its budget, and less to a server that fails."""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import Final

from probes.canary.item import CanaryItem
from probes.canary.limits import CanaryLimits
from probes.canary.outcomes import WHAT_IS_SAID, is_bad
from probes.sample import ProbeResult

HOUR_SECONDS: Final = 3600.0
KEY_REFUSED: Final = ("auth", "proxy_auth", "tls_client_cert")
KEY_RETRY_SECONDS: Final = 60.0  # more tries with a wrong key lock accounts
LOADING: Final = ("connect_refused", "connect_reset", "unavailable")


@dataclass(frozen=True, slots=True)
class Pressure:
    """How hard users press a target, as its page says; None is unknown and holds nothing back."""

    requests_waiting: float | None = None
    kv_usage_ratio: float | None = None
    tokens_last_hour: float | None = None  # all of them, canaries' too
    is_asleep: bool = False  # every engine of the page


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a canary was not sent: an outcome class skipped_*, and the words."""

    outcome: str
    detail: str


@dataclass(slots=True)
class _Target:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    spent: deque[tuple[float, int]] = field(default_factory=deque)  # when, tokens
    bad_in_a_row: int = 0
    key_refused_at_seconds: float | None = None
    first_seen_at_seconds: float | None = None
    has_succeeded: bool = False


@dataclass(slots=True)
class Gate:
    """Remembers per target what canaries have spent and how they fared."""

    _targets: defaultdict[str, _Target] = field(default_factory=lambda: defaultdict(_Target))

    def turn(self, target: str) -> asyncio.Lock:
        """Hold it while a canary of any kind is on the target: two at once would measure each other."""
        return self._targets[target].lock

    def forget(self, target: str) -> None:
        """The target is gone."""
        self._targets.pop(target, None)

    def refusal(
        self, item: CanaryItem, target: str, limits: CanaryLimits, pressure: Pressure, now_seconds: float, *,
        is_cheapest: bool,
    ) -> Refusal | None:  # fmt: skip
        """Why this canary must not be sent now; None when it may.

        The kinds that are not dear stay on their grid whatever happens, within tokens_per_hour: users suffer most when
        an engine is full, and then they must be seen. On a target that fails, of the dear kinds only the cheapest of
        all that are sent to it goes on.
        """
        known = self._targets[target]
        if known.first_seen_at_seconds is None:
            known.first_seen_at_seconds = now_seconds
        if not limits.enabled:
            return Refusal("skipped_paused", "canary_limits.enabled is false")
        if pressure.is_asleep and item.cost().tokens:
            return Refusal("sleeping", "the engine sleeps; a canary would wake it, or wait for ever")
        refused_at = known.key_refused_at_seconds
        if refused_at is not None and now_seconds - refused_at < KEY_RETRY_SECONDS:
            return Refusal("skipped_backoff", "our key was refused: one try a minute")
        if item.is_dear and known.bad_in_a_row and not is_cheapest:
            return Refusal("skipped_backoff", f"the last {known.bad_in_a_row} canaries on this target failed")
        words = _pressed(limits, pressure) if item.is_dear else None
        if words is not None:
            return Refusal("skipped_pressure", words)
        return _over_budget(item, self.spent_tokens(target, now_seconds), limits, pressure)

    def take(self, item: CanaryItem, result: ProbeResult, limits: CanaryLimits, now_seconds: float) -> ProbeResult:
        """Note what a canary took and how it fared. Returns its result: that of a target still loading says so."""
        known = self._targets[result.target]
        if result.timing_error_seconds is not None:  # the request was sent
            known.spent.append((now_seconds, _tokens(item, result)))
        known.key_refused_at_seconds = now_seconds if result.outcome in KEY_REFUSED else None
        if self._is_loading(known, result, limits, now_seconds):
            return replace(result, outcome="loading", detail=f"{result.outcome}: {result.detail}".rstrip(": "))
        bad = is_bad(result.outcome, has_succeeded=known.has_succeeded)
        if bad is not None and result.outcome not in WHAT_IS_SAID:
            known.bad_in_a_row = known.bad_in_a_row + 1 if bad else 0
        known.has_succeeded = known.has_succeeded or result.is_ok
        return result

    def note_half(self, item: CanaryItem, target: str, result: ProbeResult, now_seconds: float) -> None:
        """The warm half of a canary went to this target: it is spent there, and says nothing of how that fares."""
        if result.timing_error_seconds is not None:
            self._targets[target].spent.append((now_seconds, _tokens(item, result) // 2))

    def spent_tokens(self, target: str, now_seconds: float) -> int:
        """What canaries took from the target in the last hour, tokens."""
        spent = self._targets[target].spent
        while spent and spent[0][0] <= now_seconds - HOUR_SECONDS:
            spent.popleft()
        return sum(tokens for _, tokens in spent)

    def _is_loading(self, known: _Target, result: ProbeResult, limits: CanaryLimits, now_seconds: float) -> bool:
        began = known.first_seen_at_seconds
        is_early = began is not None and now_seconds - began < limits.warm_up_seconds
        return is_early and not known.has_succeeded and result.outcome in LOADING


def _pressed(limits: CanaryLimits, pressure: Pressure) -> str | None:
    waiting, usage = pressure.requests_waiting, pressure.kv_usage_ratio
    if waiting is not None and waiting > limits.max_requests_waiting:
        return f"{waiting:.0f} requests wait"
    if usage is not None and usage > limits.max_kv_usage_ratio:
        return f"the KV cache is {usage:.0%} full"
    return None


def _over_budget(item: CanaryItem, spent: int, limits: CanaryLimits, pressure: Pressure) -> Refusal | None:
    tokens = item.cost().tokens
    allowed = float(limits.tokens_per_hour)
    if item.is_dear and pressure.tokens_last_hour is not None:
        share = limits.traffic_ratio * max(0.0, pressure.tokens_last_hour - spent)
        allowed = min(allowed, max(share, limits.idle_tokens_per_hour))
    if not tokens or spent + tokens <= allowed:
        return None
    words = f"{spent} tokens were spent in the last hour, {tokens} more are over {allowed:.0f}"
    return Refusal("skipped_budget", words)


def _tokens(item: CanaryItem, result: ProbeResult) -> int:
    """What a canary took, by the server's counts; by our estimate where it gave none."""
    cost = item.cost()
    if result.prompt_tokens is None or result.output_tokens is None:
        return cost.tokens
    return cost.requests * (result.prompt_tokens + result.output_tokens)
