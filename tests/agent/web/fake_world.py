"""SLOs, targets, alerts, advice and canaries of one bad night, as the core would hand them over."""

from agent.model import (
    Alert,
    Budget,
    Burn,
    BurnPair,
    Counts,
    Evidence,
    Recommendation,
    Slo,
    SloState,
    SloStatus,
    TargetStatus,
)
from probes.sample import ProbeResult

NOW_SECONDS = 1_790_000_000.0
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
PAIRS = (
    BurnPair("page", "fast", 300, 3600, 14.4),
    BurnPair("page", "slow", 1800, 21_600, 6),
    BurnPair("ticket", "slow", 7200, 86_400, 3),
    BurnPair("ticket", "trend", 21_600, 259_200, 1),
)


def slos() -> tuple[SloStatus, ...]:
    """One of every state."""
    ttft = Slo("chat-ttft", "chat", "ttft", "engine", 0.99, 30 * 86_400, PAIRS, 2.5, MODEL)
    available = Slo("chat-availability", "chat", "availability", "canary", 0.995, 30 * 86_400, PAIRS, 300)
    return (
        SloStatus(
            ttft, "burning", _burns((17.8, 15.2), (9.1, 6.4), (4.2, 1.9), (1.2, 0.6)), _budget(0.413), NOW_SECONDS - 1
        ),
        SloStatus(
            available, "ok", _burns((0.0, 0.4), (0.4, 0.2), (0.2, 0.1), (0.1, 0.1)), _budget(0.871), NOW_SECONDS - 22
        ),
        _status("chat-tpot", "no_traffic", None),
        _status("batch-e2e", "insufficient_data", 1.0),
        _status("search-ttft", "no_data", None),
        _status("summaries-e2e", "exhausted", -0.284),
    )


def targets() -> tuple[TargetStatus, ...]:
    """Up, stuck, stale and never seen."""
    return (
        TargetStatus("vllm-0", "vllm", "up", NOW_SECONDS - 4, "ok", "", MODEL, "aggregated", {"zone": "a"}),
        TargetStatus(
            "vllm-1", "vllm", "stuck", NOW_SECONDS - 5, "ok", "12 running, no step for 45 s", MODEL, "aggregated"
        ),
        TargetStatus(
            "vllm-2", "vllm", "stale", NOW_SECONDS - 40, "timeout", "no answer within 5 s", MODEL, "aggregated"
        ),
        TargetStatus(
            "lmcache-0", "lmcache", "unknown", None, "connect_refused", "127.0.0.1:7000 refuses", "", "aggregated"
        ),
    )


def alerts() -> tuple[Alert, ...]:
    """Two that fire, one that is over, and the watchdog that always fires."""
    return (
        _alert(
            {
                "alertname": "SLOBurnRate",
                "severity": "page",
                "tier": "fast",
                "slo": "chat-ttft",
                "service": "chat",
                "model": MODEL,
            },
            120.0,
            summary="chat-ttft burns its error budget 15x too fast",
            description="In the last 1 h 3 211 of 21 125 requests waited over 2.5 s for their first token (15.2x).",
            cause="Requests queue: 127 wait on vllm-0, all 256 sequences are in use.",
            recommendation="Scale chat from 1 to 3 replicas (2 to 4).",
            budget="41 % of the 30-day budget is left; at this rate it is spent in 19 h.",
            runbook_url="https://runbooks.example/chat-ttft",
            dashboard_url="https://grafana.example/d/slo",
        ),
        _alert(
            {"alertname": "EngineStuck", "severity": "page", "target": "vllm-1", "node": "gpu-7"},
            45.0,
            summary="vllm-1 answers, but its engine makes no progress",
            description="No engine step for 45 s while 12 requests run.",
            cause="No engine step for 45 s while 12 requests run.",
        ),
        _alert(
            {"alertname": "CanaryDown", "severity": "ticket", "target": "vllm-0"},
            5400.0,
            4200.0,
            summary="Canaries failed",
        ),
        _alert({"alertname": "Watchdog", "severity": "ticket"}, 86_400.0, summary="The agent is alive"),
    )


def advice() -> tuple[Recommendation, ...]:
    """One that waits for its verdict, one that proved right."""
    scale_out = Recommendation(
        id="scale-chat-1790",
        at_seconds=NOW_SECONDS - 90,
        model=MODEL,
        role="aggregated",
        action="scale",
        current=1,
        proposed=3,
        low=2,
        high=4,
        reason_code="sustained_queueing",
        binding="queue",
        summary="Scale chat from 1 to 3 replicas: requests queue while the TTFT SLO burns.",
        confidence=0.72,
        meets_slo=True,
        evidence=(
            Evidence("requests_waiting", 300, 88.4),
            Evidence("queue_seconds_p95", 300, 8.1),
            Evidence("kv_usage_ratio", 300, 0.943),
            Evidence("burn_rate:chat-ttft", 3600, 15.2),
            Evidence("external_cache_hit_ratio", 300, None),
        ),
        alternatives=(
            _setting("2 replicas", 3.1, 0.09, 0.91, 11.5, meets=False),
            _setting("3 replicas", 1.2, 0.07, 0.995, 17.25, meets=True),
            {
                "setting": "max_num_seqs 512",
                "ttft_p95_seconds": None,
                "itl_p99_seconds": None,
                "goodput_ratio": None,
                "dollars_per_hour": 5.75,
                "meets_slo": None,
            },
        ),
        do_nothing={"summary": "the queue grows", "requests_waiting_in_600_seconds": 940.0, "meets_slo": False},
        side_effects=("New replicas start with a cold KV cache for about 10 min.",),
        steps=("kubectl scale deployment/chat --replicas=3", "Watch requests_waiting fall below 10 within 5 min."),
        rollback="kubectl scale deployment/chat --replicas=1",
        verify_at_seconds=NOW_SECONDS + 600,
    )
    done = Recommendation(
        id="knob-1",
        at_seconds=NOW_SECONDS - 7200,
        model=MODEL,
        role="aggregated",
        action="knob",
        current=8192,
        proposed=4096,
        low=2048,
        high=4096,
        reason_code="long_prefills_stall_decodes",
        binding="itl",
        summary="Halve max_num_batched_tokens.",
        confidence=0.4,
        meets_slo=None,
        evidence=(),
        alternatives=(),
        do_nothing={},
        side_effects=(),
        steps=(),
        rollback="",
        verify_at_seconds=NOW_SECONDS - 3600,
        verdict="not_applied",
    )
    return (scale_out, done)


def probes() -> list[ProbeResult]:
    """Forty canaries on two targets, newest first; some fail, one was missed."""
    results = []
    for number in range(40):
        at = NOW_SECONDS - 12 - number * 15
        target = "vllm-0" if number % 2 == 0 else "vllm-1"
        results.append(_failed(target, at, number) if number in (1, 3, 5, 18, 26) else _served(target, at, number))
    return results


def _served(target: str, at: float, number: int) -> ProbeResult:
    ttft = 0.35 + 2.4 * max(0, 12 - number) / 12 + 0.03 * (number % 5)
    return ProbeResult(
        target,
        "chat",
        "ok",
        at,
        at + 0.002,
        MODEL,
        ttft,
        ttft + 0.001,
        0.0214,
        (0.02, 0.021, 0.0225, 0.09),
        ttft + 0.33,
        16,
        21,
        16,
        0.0004,
        {"dns": 0.0004, "connect": 0.0011, "tls": None, "headers": ttft - 0.01},
    )


def _failed(target: str, at: float, number: int) -> ProbeResult:
    outcome = {18: "missed", 26: "status_503"}.get(number, "first_token_timeout")
    detail = {18: "the last run had not ended", 26: "HTTP 503: overloaded"}.get(number, "no token within 20 s")
    return ProbeResult(target, "chat", outcome, at, at, MODEL, detail=detail)


def _status(name: str, state: SloState, remaining: float | None) -> SloStatus:
    slo = Slo(name, name.partition("-")[0], "e2e", "engine", 0.95, 7 * 86_400, PAIRS, 30.0, role="aggregated")
    reason = {"insufficient_data": "too_few_bad_events"}.get(state, "no_events")
    burns = tuple(Burn(pair, None, None, Counts(), Counts(), is_burning=False, reason=reason) for pair in PAIRS)
    counts = Counts() if remaining is None else Counts(9_500, 380, 20)
    return SloStatus(slo, state, burns, Budget(remaining, counts, 0.02 if remaining == 1.0 else 0.6), None)


def _burns(*rates: tuple[float, float]) -> tuple[Burn, ...]:
    return tuple(
        Burn(
            pair,
            short,
            long,
            Counts(1_482, 263, 15),
            Counts(17_914, 3_150, 61),
            is_burning=min(short, long) > pair.factor,
            reason="burning" if min(short, long) > pair.factor else "within_budget",
        )
        for pair, (short, long) in zip(PAIRS, rates, strict=True)
    )


def _budget(remaining: float) -> Budget:
    return Budget(remaining, Counts(1_204_331, 7_020, 112), 1.0)


def _alert(labels: dict[str, str], age: float, ended: float | None = None, **annotations: str) -> Alert:
    ends = None if ended is None else NOW_SECONDS - ended
    return Alert(tuple(sorted(labels.items())), annotations, NOW_SECONDS - age, ends)


def _setting(name: str, ttft: float, itl: float, good: float, dollars: float, *, meets: bool) -> dict[str, object]:
    return {
        "setting": name,
        "ttft_p95_seconds": ttft,
        "itl_p99_seconds": itl,
        "goodput_ratio": good,
        "dollars_per_hour": dollars,
        "meets_slo": meets,
    }
