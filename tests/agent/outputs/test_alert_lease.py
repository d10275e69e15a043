"""Which alerts are held up, with which stamps, as the agent's alerts come and go."""

from fake_alertmanager import alert

from agent.model import Alert
from agent.outputs.alert_lease import AlertLeases, HeldAlert, Instant


def now(monotonic: float) -> Instant:
    """The machine: its wall clock shows 1_000_000 when its monotonic one shows 0."""
    return Instant(1_000_000.0 + monotonic, monotonic)


def told(*rounds: tuple[float, tuple[Alert, ...]]) -> tuple[AlertLeases, list[HeldAlert]]:
    """What is held after each round of (seconds, alerts); the agent's clock is the monotonic one plus 50."""
    leases = AlertLeases()
    for seconds, alerts in rounds:
        leases.update(alerts, seconds + 50.0, now(seconds))
    return leases, leases.current(now(rounds[-1][0]))


def test_a_firing_alert_started_when_it_began_by_the_machines_clock() -> None:
    """It began 20 s ago in the agent's clock, so 20 s ago in the machine's."""
    _, (held,) = told((10.0, (alert(began=40.0),)))
    assert held.starts_at_seconds == 1_000_010.0 - 20.0
    assert held.resolved_at_seconds is None


def test_the_start_is_kept_as_time_goes_on() -> None:
    _, (held,) = told((10.0, (alert(began=40.0),)), (400.0, (alert(began=40.0),)))
    assert held.starts_at_seconds == 999_990.0


def test_a_scaled_clock_gives_real_ages() -> None:
    """At x20 an alert that is 200 agent seconds old has fired for 10 real seconds."""
    leases = AlertLeases()
    leases.update([alert(began=1000.0)], 1200.0, now(60.0), real_ratio=1 / 20)
    assert leases.current(now(60.0))[0].starts_at_seconds == 1_000_060.0 - 10.0


def test_annotations_are_renewed_and_make_no_new_alert() -> None:
    changed = Alert(alert(began=40.0).labels, {"summary": "worse"}, 40.0)
    _, (held,) = told((10.0, (alert(began=40.0),)), (20.0, (changed,)))
    assert held.annotations == {"summary": "worse"}
    assert held.starts_at_seconds == 999_990.0


def test_labels_without_a_value_are_no_labels_and_order_means_nothing() -> None:
    same = Alert((("slo", "a"), ("alertname", "SLOBurnRate")), {}, 0.0)
    _, held = told((10.0, (alert(slo="a", model=""),)), (20.0, (same,)))
    assert [one.labels for one in held] == [(("alertname", "SLOBurnRate"), ("slo", "a"))]


def test_a_resolved_alert_is_told_for_fifteen_minutes() -> None:
    """It ended 5 s before it was told, at 20 s: until 15 + 900 s."""
    leases, (held,) = told((10.0, (alert(began=40.0),)), (20.0, (alert(began=40.0, ended=65.0),)))
    assert held.resolved_at_seconds == 1_000_015.0
    assert leases.current(now(914.0)) == [held]
    assert leases.current(now(915.0)) == []


def test_a_resolved_alert_that_stays_in_the_snapshot_does_not_come_back() -> None:
    over = alert(began=40.0, ended=65.0)
    _, held = told((10.0, (alert(began=40.0),)), (20.0, (over,)), (916.0, (over,)))
    assert held == []


def test_an_alert_that_is_no_longer_named_is_resolved() -> None:
    _, (held,) = told((10.0, (alert(began=40.0),)), (20.0, ()))
    assert held.resolved_at_seconds == 1_000_020.0


def test_an_end_never_comes_before_the_start() -> None:
    """Alertmanager calls that invalid."""
    _, (held,) = told((10.0, (alert(began=60.0, ended=59.0),)))
    assert held.resolved_at_seconds == held.starts_at_seconds


def test_firing_resolved_firing_again_has_a_new_start() -> None:
    _, (held,) = told(
        (10.0, (alert(began=40.0),)), (20.0, (alert(began=40.0, ended=65.0),)), (60.0, (alert(began=100.0),))
    )
    assert (held.starts_at_seconds, held.resolved_at_seconds) == (1_000_050.0, None)


def test_the_new_firing_wins_over_the_old_end_told_with_it() -> None:
    _, (held,) = told((60.0, (alert(began=100.0), alert(began=40.0, ended=65.0))))
    assert held.resolved_at_seconds is None


def test_an_alert_that_ended_before_this_agent_started_is_told_too() -> None:
    """The last agent may have left it firing in Alertmanager."""
    _, (held,) = told((60.0, (alert(began=40.0, ended=100.0),)))
    assert held.resolved_at_seconds == 1_000_050.0


def test_firing_alerts_come_first() -> None:
    _, held = told((10.0, (alert("B", ended=55.0), alert("A"))))
    assert [dict(one.labels)["alertname"] for one in held] == ["A", "B"]
