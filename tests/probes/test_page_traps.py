"""Pages that would mislead: Ray's replicas, tenants, workers that repeat each other, adapters by the hundred."""

import math
import random

import pytest
from page_files import fixture

from probes.inspection import inspect_page
from probes.page import MOST_ENGINES, SystemPage
from probes.sample import Reading

INF = math.inf


def read(text: str, system: str = "vllm") -> Reading:
    reading = SystemPage(system).read(text, "t", 100.0)  # type: ignore[arg-type]  # the two words we read
    assert reading.outcome == "ok", reading.detail
    return reading


def by_engine(reading: Reading, signal: str) -> dict[str, float]:
    return {s.engine: s.value for s in reading.samples if s.signal == signal}


LIFE = 'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n'


def test_rays_replicas_of_one_node_stay_apart() -> None:
    """Both say engine 0 of model m; as one series the second would be lost."""
    page = "".join(
        f'ray_vllm_generation_tokens_total{{ReplicaId="{replica}",WorkerId="w",engine="0",model_name="m"}} {value}\n'
        for replica, value in (("a", 3), ("b", 5))
    )
    assert by_engine(read(page), "generation_tokens_total") == {"a/0": 3, "b/0": 5}
    assert inspect_page(page).signals["generation_tokens_total"] == 8


def test_older_ray_tells_replicas_by_worker() -> None:
    page = "".join(
        f'ray_vllm:generation_tokens_total{{WorkerId="{worker}",model_name="m"}} {value}\n'
        for worker, value in (("x", 3), ("y", 5))
    )
    assert by_engine(read(page), "generation_tokens_total") == {"x/0": 3, "y/0": 5}


@pytest.mark.parametrize("suffixes", [("_total",), ("",), ("", "_total"), ("_total", "")])
def test_rays_two_names_of_one_counter_count_once(suffixes: tuple[str, ...]) -> None:
    labels = '{ReplicaId="a",engine="0",model_name="m"}'
    page = "".join(f"ray_vllm_generation_tokens{suffix}{labels} 9\n" for suffix in suffixes)
    reading = read(page)
    assert by_engine(reading, "generation_tokens_total") == {"a/0": 9}
    assert reading.warnings == ()


def test_outside_ray_a_counter_without_total_is_something_else() -> None:
    reading = read(LIFE + 'vllm:prompt_tokens{engine="0",model_name="m"} 9\n')
    assert by_engine(reading, "prompt_tokens_total") == {}


def test_five_hundred_adapters_leave_nothing_behind() -> None:
    """The lists of adapters make a new series at each look; it is not read, so nothing is remembered of it."""
    page = SystemPage("vllm")
    for number in range(500):
        adapters = ",".join(f"adapter-{n}" for n in range(number))
        lora = f'vllm:lora_requests_info{{max_lora="500",running_lora_adapters="{adapters}"}} 1\n'
        assert [s.value for s in page.read(LIFE + lora, "t", float(number)).samples] == [7]
    assert len(page._parser._known) == 1
    assert len(page._places) == 1


def test_settings_stand_in_the_labels_of_an_info_series() -> None:
    info = (
        'vllm:cache_config_info{block_size="16",cache_dtype="fp8",engine="0",gpu_memory_utilization="0.9",'
        'mamba_block_size="None",num_gpu_blocks="10",sliding_window="4096"} 1\n'
    )
    reading = SystemPage("vllm").read(LIFE + info, "t", 1.0)
    said = {sample.label: sample.value for sample in reading.samples if sample.signal == "engine_setting"}
    assert said == dict.fromkeys(
        ("block_size=16", "cache_dtype=fp8", "gpu_memory_utilization=0.9", "sliding_window=4096"), 1.0
    )
    assert [sample.value for sample in reading.samples if sample.signal == "kv_capacity_tokens"] == [160]


def test_series_that_come_and_go_do_not_fill_the_memory() -> None:
    """Full, it begins anew at the next page; what that page says is read whole."""
    page = SystemPage("vllm")
    page._parser._max_series = 10
    for number in range(100):
        text = f'vllm:generation_tokens_total{{engine="{number}",model_name="m"}} {number}\n'
        assert by_engine(page.read(text, "t", 1.0), "generation_tokens_total") == {str(number): number}
        assert len(page._places) <= 10
        page._parser._max_series = 10


def test_the_state_of_a_sleeping_engine_is_told_by_its_label() -> None:
    """Level 1: weights offloaded, nobody is served, and /health stays 200."""
    page = LIFE + "".join(
        f'vllm:engine_sleep_state{{engine="0",model_name="m",sleep_state="{state}"}} {value}\n'
        for state, value in (("awake", 0), ("weights_offloaded", 1), ("discard_all", 0))
    )
    signals = inspect_page(page).signals
    assert signals["engine_sleep_state{awake}"] == 0
    assert signals["engine_sleep_state{weights_offloaded}"] == 1


def queue(failed: int) -> str:
    """One request in the 0.3 s bucket, one that failed: its "queue time" is minus the machine's uptime."""
    return (
        LIFE
        + f'vllm:request_success_total{{engine="0",finished_reason="error",model_name="m"}} {failed}\n'
        + "".join(
            f'vllm:request_queue_time_seconds_bucket{{engine="0",le="{le}",model_name="m"}} 2\n' for le in (0.3, "+Inf")
        )
        + 'vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} -86400\n'
    )


def test_sums_of_phases_are_unknown_beside_failed_requests() -> None:
    poisoned, whole = inspect_page(queue(failed=1)), inspect_page(queue(failed=0))
    assert poisoned.signals["queue_seconds_sum"] is None
    assert poisoned.signals["queue_seconds_count"] == 2
    assert "poisoned_sums" in [warning.code for warning in poisoned.warnings]
    assert whole.signals["queue_seconds_sum"] == -86_400
    assert whole.warnings == ()


def test_a_decode_instance_and_its_transfers() -> None:
    """Worked out from the page's lines: transfers of 1 GB, and what the engine's loop stood still for."""
    found = {h.signal: h for h in read(fixture("vllm_0.24_pd_decode")).histograms if h.signal.startswith("nixl_")}
    assert {signal: h.counts[-1] for signal, h in found.items()} == dict.fromkeys(
        found, found["nixl_post_seconds"].counts[-1]
    )
    assert set(found) == {
        "nixl_transfer_seconds", "nixl_post_seconds", "nixl_transfer_bytes", "nixl_transfer_descriptors",
    }  # fmt: skip
    post, transfer = found["nixl_post_seconds"].total, found["nixl_transfer_seconds"].total
    assert post is not None
    assert transfer is not None
    assert 0 < post < transfer


LOOKUPS = """
lmcache:num_lookup_tokens_total{model_name="/models/m",role="worker",served_model_name="m",worker_id="0"} 1000
lmcache:num_lookup_tokens_total{model_name="/models/m",role="worker",served_model_name="m",worker_id="1"} 1000
lmcache:num_lookup_hits_total{model_name="/models/m",role="worker",served_model_name="m",worker_id="0"} 250
lmcache:num_lookup_hits_total{model_name="/models/m",role="worker",served_model_name="m",worker_id="1"} 250
lmcache:num_requested_tokens_total{model_name="/models/m",role="worker",served_model_name="m",worker_id="0"} 250
lmcache:num_hit_tokens_total{model_name="/models/m",role="worker",served_model_name="m",worker_id="0"} 250
lmcache:retrieve_hit_rate{model_name="/models/m",role="worker",served_model_name="m",worker_id="0"} 1
lmcache:local_cache_usage{model_name="/models/m",role="worker",served_model_name="m",worker_id="0"} 100
lmcache:local_cache_usage{model_name="/models/m",role="worker",served_model_name="m",worker_id="1"} 200
"""


@pytest.mark.parametrize(("system", "before"), [("lmcache", ""), ("vllm", LIFE)])
def test_lmcache_in_vllms_process_by_its_lookups(system: str, before: str) -> None:
    """LMCache#1260: 1000 tokens looked up, 250 found: 25 %, although every retrieval was complete. Two tensor-parallel
    workers tell of the same lookups; their memory is two memories.
    """
    found = {s.signal: (s.engine, s.model, s.value) for s in read(before + LOOKUPS, system).samples}
    assert found["cache_lookup_tokens_total"] == ("0", "m", 1000)
    assert found["cache_hit_tokens_total"] == ("0", "m", 250)
    assert found["cache_retrieve_requested_tokens_total"] == found["cache_retrieved_tokens_total"] == ("0", "m", 250)
    assert found["cache_used_bytes"] == ("0", "m", 300)


def test_milliseconds_of_the_remote_tier_become_seconds_and_workers_add_up() -> None:
    page = LOOKUPS + "".join(
        f'lmcache:remote_time_to_get{part}{{model_name="m",worker_id="{worker}"{le}}} {value}\n'
        for worker in (0, 1)
        for part, le, value in (
            ("_bucket", ',le="100.0"', 3),
            ("_bucket", ',le="+Inf"', 4),
            ("_sum", "", 500),
        )
    )
    (found,) = read(page, "lmcache").histograms
    assert (found.signal, found.edges, found.counts) == ("cache_remote_get_seconds", (0.1, INF), (6, 8))
    assert found.total == pytest.approx(1.0)


def test_tenants_of_an_lmcache_server_add_up() -> None:
    """cache_salt keeps tenants apart in the cache; the hit ratio is of all of them."""
    page = "lmcache_mp_l1_usage_ratio 0.5\n" + "".join(
        f'lmcache_mp_lookup_requested_tokens_total{{cache_salt="{salt}",model_name="m"}} {value}\n'
        for salt, value in (("", 100), ("a", 30), ("b", 7))
    )
    reading = read(page, "lmcache")
    assert by_engine(reading, "cache_lookup_tokens_total") == {"0": 137}
    assert reading.warnings == ()


def test_a_series_given_twice_is_still_a_mistake_of_the_page() -> None:
    line = 'lmcache_mp_lookup_requested_tokens_total{cache_salt="a",model_name="m"} 30\n'
    reading = read("lmcache_mp_l1_usage_ratio 0.5\n" + line + line, "lmcache")
    assert by_engine(reading, "cache_lookup_tokens_total") == {"0": 30}
    assert [warning.code for warning in reading.warnings] == ["duplicates"]


def test_of_series_that_add_up_a_sentinel_is_left_out() -> None:
    page = "lmcache_mp_l1_usage_ratio 0.5\n" + "".join(
        f'lmcache_mp_l1_memory_usage_bytes{{backend="{backend}"}} {value}\n'
        for backend, value in (("dram", 30), ("pmem", -1))
    )
    assert by_engine(read(page, "lmcache"), "cache_used_bytes") == {"0": 30}


def test_histograms_of_other_edges_are_not_put_together() -> None:
    """Workers with other buckets: the first counts, the other is told."""
    page = LOOKUPS + "".join(
        f'lmcache:time_to_retrieve_bucket{{model_name="m",worker_id="{worker}",le="{le}"}} 4\n'
        for worker, le in (("0", "0.1"), ("0", "+Inf"), ("1", "0.2"), ("1", "+Inf"))
    )
    reading = read(page, "lmcache")
    (found,) = reading.histograms
    assert (found.edges, found.counts) == ((0.1, INF), (4, 4))
    assert "odd_histograms" in [warning.code for warning in reading.warnings]


@pytest.mark.parametrize("seed", range(8))
def test_what_was_read_before_changes_nothing(seed: int) -> None:
    """Lines go, come twice, change their engine, value or edge: a reader with a past reads as one without."""
    chance = random.Random(seed)  # noqa: S311  a test's own
    known = SystemPage("vllm")
    lines = fixture("vllm_0.32_with_lmcache").splitlines() + LOOKUPS.splitlines()
    for _ in range(12):
        page = [line for line in lines if chance.random() > 0.05]
        for _ in range(20):
            place = chance.randrange(len(page))
            head, _, value = page[place].rpartition(" ")
            other_engine, no_edge = head.replace('engine="0"', 'engine="1"'), head.replace('le="0', 'le="x')
            odd = chance.choice(["-1", "NaN", "1_0", "1e308", "7"])
            page[place] = chance.choice(
                [f"{head} {odd}", f"{other_engine} {value}", f"{no_edge} {value}", f"{page[place]}\n{page[place]}"]
            )
        text = "\n".join(page)
        before, fresh = known.read(text, "t", 1.0), SystemPage("vllm").read(text, "t", 1.0)
        assert before.outcome == fresh.outcome
        assert set(before.samples) == set(fresh.samples)
        assert set(before.histograms) == set(fresh.histograms)
        assert set(before.warnings) == set(fresh.warnings)


def page_of_models(*names: str) -> str:
    return "".join(
        f'vllm:generation_tokens_total{{engine="0",model_name="{name}"}} 5\n'
        f'vllm:num_requests_running{{engine="0",model_name="{name}"}} 1\n'
        for name in names
    )


def models_in(reading: Reading) -> set[str]:
    return {sample.model for sample in reading.samples}


def test_of_thousands_of_models_in_a_label_so_many_are_read_and_the_rest_is_told() -> None:
    page = SystemPage("vllm")
    names = [f"adapter-{number}" for number in range(MOST_ENGINES + 100)]
    for at in (1.0, 2.0):
        reading = page.read(page_of_models(*names), "a", at)
        assert models_in(reading) == set(names[:MOST_ENGINES])
        assert [warning.code for warning in reading.warnings] == ["too_many_engines"]
    for at in (3.0, 4.0):
        reading = page.read(page_of_models(*names[:100]), "a", at)
    assert (models_in(reading), reading.warnings) == (set(names[:100]), ())


def test_500_adapters_are_read_in_full() -> None:
    names = [f"adapter-{number}" for number in range(500)]
    reading = SystemPage("vllm").read(page_of_models(*names), "a", 1.0)
    assert (models_in(reading), reading.warnings) == (set(names), ())


def test_models_that_come_and_go_take_no_room_for_ever() -> None:
    """100 new ones on every page: after the page that finds no room for all, the next begins anew."""
    page, short_of_room = SystemPage("vllm"), 0
    for at in range(30):
        names = [f"adapter-{at}-{number}" for number in range(100)]
        reading = page.read(page_of_models(*names), "a", float(at))
        short_of_room += models_in(reading) != set(names)
        assert len(page._places) <= 2 * MOST_ENGINES
    assert short_of_room == 5


@pytest.mark.parametrize("value", ["1e308", "2e30"])
@pytest.mark.parametrize("name", ["num_requests_waiting", "prompt_tokens_total", "kv_cache_usage_perc"])
def test_a_number_that_nothing_can_have_reached_is_unknown_and_told(name: str, value: str) -> None:
    """Two of them together have no end, and what has none stops whoever counts with it."""
    reading = SystemPage("vllm").read(f'vllm:{name}{{engine="0",model_name="m"}} {value}\n', "t", 1.0)
    assert reading.samples == ()
    assert [warning.code for warning in reading.warnings] == ["not_finite"]


@pytest.mark.parametrize(("count", "total"), [("1e308", "1"), ("4", "1e308")])
def test_a_histogram_that_nothing_can_have_filled_is_unknown_and_told(count: str, total: str) -> None:
    labels = 'engine="0",model_name="m"'
    text = f'vllm:time_to_first_token_seconds_bucket{{{labels},le="+Inf"}} {count}\n'
    text += f"vllm:time_to_first_token_seconds_sum{{{labels}}} {total}\n"
    reading = SystemPage("vllm").read(text, "t", 1.0)
    assert reading.histograms == ()
    assert [warning.code for warning in reading.warnings] == ["not_finite"]
