"""The bad-data table of facts/recommend.md 5f, row by row, on pages that are read as the agent reads them.

Two replicas where one would do: within eight minutes fewer are advised, as long as nothing is wrong.
"""

from collections.abc import Callable

import pytest
from watched_fleet import T0, WatchedFleet

from agent.advice.demand import Demand
from agent.advice.replicas import Group
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

LOW, FEWER_AFTER = 1.2, 540.0
SPOILT_AT = T0 + 200.0


def spoilt(name: str, value: str) -> Callable[[str, str, float], str]:
    """From 200 s on, every series of this name has this value on one replica's page."""

    def rewrite(line: str, target: str, at: float) -> str:
        is_it = line.startswith(f"vllm:{name}") and at > SPOILT_AT and target == "sim-0"
        return f"{line.rsplit(' ', 1)[0]} {value}" if is_it else line

    return rewrite


def watched(**how: object) -> WatchedFleet:
    fleet = WatchedFleet(lambda seconds: 2.4 if seconds < 200 else LOW, 2, ticks_every=10.0, **how)  # type: ignore[arg-type]
    fleet.go(FEWER_AFTER)
    return fleet


def test_with_all_data_there_fewer_are_advised() -> None:
    """The yardstick of what follows: each row below would shrink if it were not for its own trouble."""
    assert watched().wishes[-1].value == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_requests_waiting", "-1"),
        ("time_to_first_token_seconds_bucket", "NaN"),
        ("time_to_first_token_seconds_bucket", "+Inf"),
    ],
)
def test_nan_inf_negative_are_rejected_and_shrink_nothing(name: str, value: str) -> None:
    """Row "NaN/inf/neg -> reject": of one replica nobody knows what comes, so nobody knows it of both."""
    fleet = watched(rewrites=spoilt(name, value))
    assert {wish.value for wish in fleet.wishes} == {2}
    assert (fleet.wishes[-1].reason, fleet.wishes[-1].confidence) == ("bad_data", 0.0)


def test_a_stale_scrape_is_the_last_good_for_two_minutes_then_what_is_there_is_held() -> None:
    """Rows "stale scrape -> last good <= 2 min then hold" and "all stale -> hold N, never down": more are wished for
    when every page falls silent; the last good load stands for two minutes, and then the two are held.
    """
    load = WatchedFleet(
        lambda seconds: 3.0 if seconds < 180 else 8.0, 2, fails=lambda _name, at: at > T0 + 240, ticks_every=10.0
    )
    load.go(240.0)
    assert load.wishes[-1].value > 2
    load.go(100.0)
    assert load.wishes[-1].value > 2
    load.go(100.0)
    assert {(wish.value, wish.reason, wish.confidence) for wish in load.wishes[-5:]} == {(2, "bad_data", 0.0)}


def test_a_counter_reset_drops_its_window() -> None:
    """Row "counter reset -> drop window": one of two replicas begins anew between two readings. What came to the old
    process after its last page is not known, so neither is the bin in which it ended; the next one is.
    """
    demand, found = Demand(), []
    for end in range(10, 101, 10):
        demand.take([_read("a", end), _read("b", end, restarted=end == 50)])
        found += demand.close(float(end), replicas=2, patience_seconds=0.0)
    assert found == [2.0, 2.0, None, 2.0, 2.0]


def test_a_restarted_process_looks_like_no_jump() -> None:
    """The same on real pages: a replica whose counters begin at 0 asks for no replica more."""
    fleet = watched(rewrites=_reset_at(T0 + 300.0))
    assert max(wish.value for wish in fleet.wishes) == 2
    forecast = fleet.memory.advisor.groups["m", "aggregated"].forecaster.forecast()
    assert forecast is not None
    assert forecast.q50 < 1.6 * LOW


def test_kv_above_one_is_clamped_and_flagged() -> None:
    """Row "kv > 1 -> clamp + flag": no stretch is learned with more KV tokens than there is room for."""
    fleet = watched(rewrites=spoilt("kv_cache_usage_perc", "1.04"))
    (learned,) = fleet.memory.advisor.capacity.learned.values()
    fullest = max(sample.kv_token_steps / sample.steps for sample in learned.book.samples)
    assert 0.9 * learned.kv_capacity_tokens < fullest <= learned.kv_capacity_tokens
    last = fleet.memory.windows.targets["sim-0"].last_ok
    assert last is not None
    assert [warning.code for warning in last.warnings] == ["over_one"]


def test_zero_traffic_with_healthy_scrapes_is_valid_and_shrinks_after_the_hold() -> None:
    """Row "zero traffic with healthy scrapes -> valid, min replicas after the hold"."""
    fleet = WatchedFleet(lambda seconds: 5.0 if seconds < 150 else 0.0, 2, ticks_every=10.0)
    fleet.go(330.0)
    assert min(wish.value for wish in fleet.wishes) == 2
    fleet.go(240.0)
    assert fleet.wishes[-1].value == 1
    assert fleet.wishes[-1].reason == "no_traffic"


def test_where_replicas_seen_are_not_those_expected_the_ready_ones_count() -> None:
    """Row "replicas seen != expected -> use ready": one of three never answers. It is on its way for three cold starts,
    then lost: what is there is judged by the two, and it stops nothing (dynamo #14251, aibrix #617).
    """
    fleet = WatchedFleet(lambda _: LOW, 3, fails=lambda name, _at: name == "sim-2", ticks_every=10.0)
    fleet.go(340.0)
    assert group(fleet) == Group(2, pending=1, lost=0, quality_ratio=1.0)
    assert fleet.wishes[-1].value == 3
    fleet.go(360.0)
    assert group(fleet) == Group(2, pending=0, lost=1, quality_ratio=1.0)
    assert fleet.wishes[-1].value == 2


def group(fleet: WatchedFleet) -> Group:
    statuses = fleet.effects[-1].snapshot.targets
    return fleet.memory.advisor.group_of(fleet.plan, statuses, fleet.memory.windows, fleet.now_seconds)


def _read(target: str, end: int, *, restarted: bool = False) -> Increment:
    """Ten requests in ten seconds."""
    first_tokens = Buckets((1.0, float("inf")), (10.0, 0.0), 1.0)
    return Increment(
        EngineKey(target, "vllm", "0", "m"), end - 10.0, float(end), {}, {"ttft_seconds": first_tokens},
        {("requests_waiting", ""): 0.0}, restarted,
    )  # fmt: skip


def _reset_at(moment: float) -> Callable[[str, str, float], str]:
    """What a process shows of one replica that began anew at this moment."""
    before: dict[str, float] = {}

    def rewrite(line: str, target: str, at: float) -> str:
        series, _, value = line.rpartition(" ")
        if target != "sim-0" or line.startswith("#"):
            return line
        if "process_start_time_seconds" in series:
            return line if at < moment else f"{series} {moment}"
        if not series.split("{")[0].endswith(("_total", "_count", "_sum", "_bucket")):
            return line
        if at < moment:
            before[series] = float(value)
            return line
        return f"{series} {max(0.0, float(value) - before.get(series, 0.0))}"

    return rewrite
