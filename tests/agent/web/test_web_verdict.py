"""The top line: the worst thing first, in words, and "kept" only when it is so."""

from dataclasses import replace

import fake_view
import pytest
from fake_world import NOW_SECONDS, slos, targets

from agent.model import Alert, SloStatus, Snapshot, TargetStatus
from agent.web import words
from agent.web.verdict import verdict

UP = targets()[0]
BURNING, KEPT, IDLE, EARLY, BLIND, SPENT = slos()
OVER = replace(KEPT, budget=replace(KEPT.budget, remaining_ratio=-13.7, coverage_ratio=0.002))


def world(
    *,
    slos: tuple[SloStatus, ...] = (KEPT,),
    targets: tuple[TargetStatus, ...] = (UP,),
    alerts: tuple[Alert, ...] = (),
    at: float = NOW_SECONDS,
) -> Snapshot:
    return Snapshot(at, slos, targets, alerts, ())


@pytest.mark.parametrize(
    ("snapshot", "level", "text"),
    [
        (fake_view.starting().snapshot_now, "unknown", "Starting: nothing has been evaluated yet"),
        (world(), "good", "The SLO is kept"),
        (world(slos=(KEPT, KEPT, KEPT)), "good", "All 3 SLOs are kept"),
        (world(slos=(KEPT, IDLE)), "good", "All 2 SLOs are kept (chat-tpot: no traffic)"),
        (world(slos=(IDLE,)), "good", "No traffic: nothing to judge, every target answers"),
        (world(slos=()), "good", "No SLOs are configured; 1 target watched"),
        (world(slos=(BURNING,)), "bad", "1 SLO is burning its budget: chat-ttft, 15x"),
        (world(slos=(SPENT,)), "bad", "summaries-e2e has spent the whole error budget of the period"),
        (
            world(slos=(OVER, KEPT)),
            "watch",
            "chat-availability has overspent the error budget so far; it burns no more",
        ),
        (world(slos=(BLIND,)), "unknown", "No data to judge search-ttft"),
        (world(slos=(EARLY,)), "unknown", "Not enough data yet to judge batch-e2e"),
        (world(targets=(targets()[1],)), "bad", "vllm-1 is stuck: it answers, but makes no progress"),
        (world(targets=(targets()[2],)), "watch", "No data from vllm-2 for 40 s: no answer in time (timeout)"),
        (
            world(targets=(targets()[3],)),
            "unknown",
            "lmcache-0 has not answered yet: nothing listens there (connect_refused)",
        ),
        (
            world(targets=(replace(UP, health="down", last_outcome="connect_refused", last_seen_seconds=None),)),
            "bad",
            "vllm-0 is down: nothing listens there (connect_refused), never seen",
        ),
        (
            world(targets=(replace(UP, detail="engine 0 sleeps (discard_all): it serves nobody until it is woken"),)),
            "watch",
            "vllm-0: engine 0 sleeps (discard_all): it serves nobody until it is woken",
        ),
        (world(targets=(replace(UP, health="stale"),)), "watch", "No data from vllm-0 for 4 s"),
        (world(targets=(replace(UP, health="unknown", last_outcome=""),)), "unknown", "vllm-0 has not answered yet"),
        (world(at=NOW_SECONDS - 90), "good", "The SLO is kept"),
        (world(at=NOW_SECONDS - 100), "bad", "The agent has not evaluated anything for 100 s"),
    ],
)
def test_top_line(snapshot: Snapshot, level: str, text: str) -> None:
    said = verdict(snapshot, NOW_SECONDS)
    assert (said.level, said.text) == (level, text)


def test_a_pair_that_only_tickets_is_worth_watching_not_waking() -> None:
    """Only the ticket pair with factor 3 burns, at 4x."""
    burns = tuple(
        replace(burn, is_burning=burn.pair.factor == 3, short_rate=5.0, long_rate=4.0) for burn in BURNING.burns
    )
    ticket = Alert((("alertname", "SLOBurnRate"), ("severity", "ticket"), ("slo", "chat-ttft")), {}, NOW_SECONDS - 7200)
    said = verdict(world(slos=(replace(BURNING, burns=burns),), alerts=(ticket,)), NOW_SECONDS)
    assert said.level == "watch"
    assert said.text == "1 SLO is burning its budget: chat-ttft, 4.0x; ticket opened 2 h ago"


def recovered(short: float | None) -> SloStatus:
    """Only the 30 min / 6 h pair still burns; the last 5 min burn at `short`."""
    rates = {14.4: (short, 15.2), 6: (12.0, 31.0), 3: (2.0, 2.5), 1: (0.4, 0.6)}
    burns = tuple(
        replace(
            burn,
            short_rate=rates[burn.pair.factor][0],
            long_rate=rates[burn.pair.factor][1],
            is_burning=burn.pair.factor == 6,
        )
        for burn in BURNING.burns
    )
    return replace(BURNING, burns=burns)


def test_an_alert_that_only_waits_for_its_window_is_called_recovering() -> None:
    said = verdict(world(slos=(recovered(0.0), KEPT)), NOW_SECONDS)
    assert said.level == "watch"
    assert said.text == (
        "1 SLO is recovering: chat-ttft, the last 5 min are good, the alert ends when the last 30 min are"
    )
    assert said.details == ("1 other SLO is kept",)


@pytest.mark.parametrize("short", [1.2, None])
def test_nothing_recovers_while_it_spends_or_nothing_is_seen(short: float | None) -> None:
    assert verdict(world(slos=(recovered(short),)), NOW_SECONDS).text == "1 SLO is burning its budget: chat-ttft, 31x"


def test_where_no_slo_is_blamed_all_of_them_are_kept() -> None:
    said = verdict(world(slos=(KEPT, KEPT), targets=(targets()[2],)), NOW_SECONDS)
    assert said.details == ("All 2 SLOs are kept",)


def test_the_worst_comes_first_and_the_rest_follows() -> None:
    said = verdict(fake_view.burning().snapshot_now, NOW_SECONDS)
    assert said.text.startswith("1 SLO is burning")
    assert said.details == (
        "summaries-e2e has spent the whole error budget of the period",
        "vllm-1 is stuck: it answers, but makes no progress",
        "No data from vllm-2 for 40 s: no answer in time (timeout)",
        "lmcache-0 has not answered yet: nothing listens there (connect_refused)",
        "No data to judge search-ttft",
        "Not enough data yet to judge batch-e2e",
        "1 other SLO is kept",
    )


def test_an_alert_of_another_kind_is_told_with_its_age() -> None:
    fault = Alert((("alertname", "GPUFault"), ("severity", "page")), {"summary": "GPU 3: Xid 79"}, NOW_SECONDS - 600)
    watchdog = Alert((("alertname", "Watchdog"), ("severity", "ticket")), {}, NOW_SECONDS - 600)
    said = verdict(world(alerts=(fault, watchdog)), NOW_SECONDS)
    assert (said.level, said.text) == ("bad", "GPU 3: Xid 79 (for 10 min)")


def test_an_alert_that_is_over_is_not_told() -> None:
    over = Alert((("alertname", "GPUFault"), ("severity", "page")), {}, NOW_SECONDS - 600, NOW_SECONDS - 60)
    assert verdict(world(alerts=(over,)), NOW_SECONDS).level == "good"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3900, "1 h 5 min"),
        (7200, "2 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said
