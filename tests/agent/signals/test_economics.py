"""Dollars, worked out by hand."""

import pytest

from agent.config_file import parse_config
from agent.model import Figure, Latency
from agent.planning import energy_price, make_plan
from agent.signals.economics import Energy, cost_per_second, economics

GOOD = Figure(2.0, 1.0, 3.0, 100.0)
TPOT = Latency(Figure(0.04, 0.025, 0.05, 9.0), None, Figure(0.08, 0.05, 0.1, 9.0), None, 0.045, 9.0)


def test_a_dollar_buys_good_requests_and_speed() -> None:
    """3.6 dollars an hour are 0.001 a second: 2 good requests a second are 2,000 a dollar. 40 ms a token are 25/s."""
    found = economics(0.001, None, None, GOOD, TPOT)
    assert found.dollars_per_hour == pytest.approx(3.6)
    assert found.goodput_per_dollar == Figure(2000.0, 1000.0, 3000.0, 100.0)
    speed, slowest = found.tokens_per_second_per_user, found.tokens_per_second_of_slowest_users
    assert speed is not None
    assert slowest is not None
    assert (speed.low, speed.value, speed.high) == pytest.approx((20, 25, 40))
    assert (slowest.low, slowest.value, slowest.high) == pytest.approx((10, 12.5, 20))
    assert found.tokens_per_user_per_dollar is not None
    assert found.tokens_per_user_per_dollar.value == pytest.approx(25_000)


def test_electricity_is_paid_for_the_whole_site() -> None:
    """1 kW at 0.36 dollars a kWh and a PUE of 2 is 0.72 an hour on top; without a power reading the cost is unknown."""
    energy = Energy(0.36, 2.0)
    assert economics(0.001, energy, 1000.0, None, None).dollars_per_hour == pytest.approx(3.6 + 0.72)
    assert economics(0.001, energy, None, GOOD, None).dollars_per_hour is None
    assert economics(0.001, energy, None, GOOD, None).goodput_per_dollar is None


def test_a_token_costs_its_electricity_as_a_good_request_does() -> None:
    """1 kW at 0.36 dollars a kWh and a PUE of 2 is 0.72 an hour; a price or a power that is unknown stays so."""
    assert cost_per_second(0.0, Energy(0.36, 2.0), 1000.0) == pytest.approx(0.0002)
    assert cost_per_second(0.001, None, None) == 0.001
    assert cost_per_second(None, Energy(0.36, 2.0), 1000.0) is None
    assert cost_per_second(0.001, Energy(0.36, 2.0), None) is None


def test_no_price_no_dollars_and_a_lowest_bucket_bounds_no_speed() -> None:
    first_bucket = Latency(Figure(0.005, 0.0, 0.01, 9.0), None, None, None, 0.005, 9.0)
    found = economics(None, None, None, GOOD, first_bucket)
    assert (found.dollars_per_hour, found.goodput_per_dollar, found.tokens_per_user_per_dollar) == (None, None, None)
    assert found.tokens_per_second_per_user is not None
    assert (found.tokens_per_second_per_user.low, found.tokens_per_second_per_user.high) == (pytest.approx(100), None)


def test_the_price_table() -> None:
    """2 H200 at the list price and a node: 2 x 5.75 + 0.5; a cache server 0.3; of no GPU type nothing is known."""
    config = parse_config(
        """
targets:
  - {name: a, url: "http://a", gpus: 2, gpu_type: H200}
  - {name: b, url: "http://b"}
  - {name: c, url: "http://c", kind: lmcache}
  - {name: d, url: "http://d", gpu_type: mine}
prices: {gpu_hour_dollars: {mine: 1}, node_hour_dollars: 0.5, kv_tier_hour_dollars: 0.3, kwh_dollars: 0.1}
""",
        "f",
    )
    facts = make_plan(config, config.targets).targets
    rates = {name: facts[name].dollars_per_second for name in "abcd"}
    assert rates == {"a": pytest.approx(12 / 3600), "b": None, "c": pytest.approx(0.3 / 3600), "d": 1.5 / 3600}
    assert energy_price(config) == Energy(0.1, 1.56)
