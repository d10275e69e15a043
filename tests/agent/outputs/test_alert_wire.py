"""One alert as it is posted; the machine's wall clock shows 1970-01-12T13:46:40Z (1_000_000)."""

from dataclasses import replace

import pytest

from agent.outputs.alert_lease import HeldAlert
from agent.outputs.alert_wire import clock_skew_seconds, postable_alert

FIRING = HeldAlert((("alertname", "A"), ("slo", "x")), {"summary": "s", "cause": ""}, 0.0, 999_990.0)
OVER = replace(FIRING, resolved_at_seconds=999_999.5)


def test_a_firing_alert_is_a_lease_of_four_resends() -> None:
    """4 x 30 s from now; empty annotations are left out."""
    assert postable_alert(FIRING, 1_000_000.0, 30.0, 0.0) == {
        "labels": {"alertname": "A", "slo": "x"},
        "annotations": {"summary": "s"},
        "startsAt": "1970-01-12T13:46:30.000Z",
        "endsAt": "1970-01-12T13:48:40.000Z",
    }


def test_a_resolved_alert_ended_when_it_ended() -> None:
    assert postable_alert(OVER, 1_000_000.0, 30.0, 0.0)["endsAt"] == "1970-01-12T13:46:39.500Z"


@pytest.mark.parametrize("skew_seconds", [-30.0, 30.0])
def test_a_small_skew_changes_nothing(skew_seconds: float) -> None:
    assert postable_alert(FIRING, 1e6, 30.0, skew_seconds) == postable_alert(FIRING, 1e6, 30.0, 0.0)


def test_a_clock_ten_minutes_ahead_gets_no_end_and_stamps_in_its_own_time() -> None:
    """With our end (now + 2 min) the alert would be over before it arrives."""
    posted = postable_alert(FIRING, 1_000_000.0, 30.0, 600.0)
    assert "endsAt" not in posted
    assert posted["startsAt"] == "1970-01-12T13:56:30.000Z"


def test_an_end_is_given_in_the_time_of_a_clock_that_is_behind() -> None:
    """With our end it would go on firing for another ten minutes."""
    assert postable_alert(OVER, 1_000_000.0, 30.0, -600.0)["endsAt"] == "1970-01-12T13:36:39.500Z"


def test_the_page_is_where_the_alert_comes_from() -> None:
    held = replace(FIRING, annotations={"page_url": "http://agent:9470/"})
    assert postable_alert(held, 1e6, 30.0, 0.0)["generatorURL"] == "http://agent:9470/"


@pytest.mark.parametrize(
    ("headers", "skew"),
    [
        ({"Date": "Mon, 12 Jan 1970 13:56:40 GMT"}, 600.0),
        ({"Date": "Mon, 12 Jan 1970 13:46:40 GMT"}, 0.0),
        ({"Date": "yesterday"}, None),
        ({}, None),
    ],
)
def test_the_peers_clock_is_read_from_its_date(headers: dict[str, str], skew: float | None) -> None:
    assert clock_skew_seconds(headers, 1_000_000.0) == skew
