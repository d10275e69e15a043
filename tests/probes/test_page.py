"""From pages as operators have them to samples: exact values, worked out by hand from the page's own lines."""

import math

import pytest
from page_files import fixture, shared

from probes.page import SystemPage
from probes.sample import HistogramSample, Reading

INF = math.inf


def read(text: str, system: str = "vllm") -> Reading:
    reading = SystemPage(system).read(text, "t", 100.0)  # type: ignore[arg-type]  # the two words we read
    assert reading.outcome == "ok", reading.detail
    return reading


def gauges_and_counters(reading: Reading) -> dict[tuple[str, ...], float]:
    """(signal, engine[, label]) -> value, for pages with one model."""
    return {(s.signal, s.engine, *([s.label] if s.label else [])): s.value for s in reading.samples}


def histogram(reading: Reading, signal: str, engine: str = "0") -> HistogramSample:
    (found,) = (h for h in reading.histograms if h.signal == signal and h.engine == engine)
    return found


def codes(reading: Reading) -> set[str]:
    return {warning.code for warning in reading.warnings}


LIFE = 'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n'  # what every page of a vLLM has


def test_vllm_0_32_after_seven_requests() -> None:
    """The client sent 7 requests and got 248 tokens; the page's lines say the same."""
    reading = read(fixture("vllm_0.32_cpu"))
    values = gauges_and_counters(reading)
    assert values["generation_tokens_total", "0"] == 248
    assert values["prompt_tokens_total", "0"] == 462
    assert values["prompt_tokens_by_source_total", "0", "local_compute"] == 462
    assert values["requests_finished_total", "0", "length"] == 7
    assert values["requests_finished_total", "0", "abort"] == 0
    assert values["requests_rejected_total", "0", "max_num_queued_reqs"] == 0
    assert values["requests_running", "0"] == values["requests_waiting", "0"] == 0
    assert values["requests_waiting_by_reason", "0", "capacity"] == 0
    assert values["kv_usage_ratio", "0"] == 0
    assert values["prefix_cache_queried_tokens_total", "0"] == 462
    assert values["kv_capacity_tokens", "0"] == 524_288
    ttft = histogram(reading, "ttft_seconds")
    assert ttft.edges[:5] == (0.001, 0.005, 0.01, 0.02, 0.04)
    assert ttft.counts[:5] == (0, 0, 2, 6, 7)
    assert (ttft.edges[-2:], ttft.counts[-1]) == ((2560.0, INF), 7)
    assert ttft.total == 0.0901482105255127
    assert histogram(reading, "itl_seconds").counts[-1] == 241  # 248 tokens, less a first one for each of 7 requests
    assert histogram(reading, "step_tokens").counts[-1] == 248
    assert histogram(reading, "step_tokens").total == 710  # 462 + 248
    assert (reading.warnings, {s.model for s in reading.samples}) == ((), {"tiny"})


def test_vllm_0_24_after_a_sweep_on_an_h200() -> None:
    """196 requests of 1,024 tokens each: 200,704 tokens, and as many gaps but for the first tokens."""
    reading = read(fixture("vllm_0.24_h200_after_sweep"))
    values = gauges_and_counters(reading)
    assert values["generation_tokens_total", "0"] == 196 * 1024
    assert values["requests_finished_total", "0", "length"] == 196
    assert values["prefix_cache_hit_tokens_total", "0"] == 124_368
    assert values["kv_capacity_tokens", "0"] == 571_024
    assert histogram(reading, "itl_seconds").counts[-1] == 196 * 1023
    assert ("requests_rejected_total", "0") not in values  # 0.24 has no such family
    assert reading.process_start_seconds == 1795966946.64


def test_vllm_with_lmcache_and_its_server() -> None:
    """13,056 tokens came from the cache: vLLM counts them as external hits, the server as tokens found in memory."""
    engine = gauges_and_counters(read(fixture("vllm_0.32_with_lmcache")))
    server = gauges_and_counters(read(fixture("lmcache_mp_with_vllm"), "lmcache"))
    assert engine["external_cache_queried_tokens_total", "0"] == 38_420
    assert engine["external_cache_hit_tokens_total", "0"] == 13_056
    assert server["cache_hit_tokens_total", "0"] == server["cache_hit_l1_tokens_total", "0"] == 13_056
    assert server["cache_hit_l2_tokens_total", "0"] == 0
    assert server["cache_lookup_tokens_total", "0"] == 32_768
    assert server["cache_evicted_chunks_total", "0"] == 78
    assert server["cache_events_dropped_total", "0"] == 0
    assert server["cache_usage_ratio", "0"] == pytest.approx(0.793457, abs=1e-6)


def test_vllm_v0_has_other_names_no_engine_label_and_no_capacity_in_tokens() -> None:
    """0.6: gpu_cache_usage_perc, time_per_output_token_seconds, 4574 blocks of 16 tokens; what it lacks is unknown."""
    reading = read(shared("pages/vllm/vllm_v0_0.6_real.txt").read_text())
    values = {(s.signal, s.model): s.value for s in reading.samples if not s.label}
    llama = "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8"
    assert {s.engine for s in reading.samples} == {"0"}
    assert values["generation_tokens_total", llama] == 2546
    assert values["requests_running", llama] == 3
    assert (values["requests_waiting", llama], values["requests_waiting", "other/OTHER"]) == (2, 3)
    assert values["kv_usage_ratio", llama] == 0.0026235242675994863
    assert values["kv_capacity_tokens", ""] == 4574 * 16  # two models on the page: it is neither's alone
    assert histogram(reading, "itl_seconds").counts[-1] > 0
    signals = {s.signal for s in reading.samples} | {h.signal for h in reading.histograms}
    assert not signals & {"tpot_seconds", "step_tokens", "prefix_cache_queried_tokens_total", "requests_rejected_total"}


def test_prefill_and_decode_sides_of_a_pair() -> None:
    """Every one of 169 requests left one token on the prefill side and all its tokens on the decode side."""
    prefill = gauges_and_counters(read(shared("pages/vllm/vllm_0.24_pd_prefill.prom").read_text()))
    decode = gauges_and_counters(read(shared("pages/vllm/vllm_0.24_pd_decode.prom").read_text()))
    assert prefill["generation_tokens_total", "0"] == prefill["requests_finished_total", "0", "length"] == 169
    assert decode["generation_tokens_total", "0"] == 172_040
    assert decode["prompt_tokens_by_source_total", "0", "external_kv_transfer"] == 1_284_104
    assert decode["prompt_tokens_by_source_total", "0", "local_compute"] == 0


def test_an_idle_lmcache_server_has_no_lookups_yet_and_that_is_not_zero() -> None:
    values = gauges_and_counters(read(shared("pages/lmcache/lmcache_mp_http_idle.prom").read_text(), "lmcache"))
    assert values["cache_usage_ratio", "0"] == 0
    assert ("cache_lookup_tokens_total", "0") not in values


def test_engines_and_models_of_one_page_stay_apart() -> None:
    """Two data-parallel engines and a second model: waiting is 3, 5 and 1, not 9 and not 3."""
    page = LIFE + "".join(
        f'vllm:num_requests_waiting{{engine="{engine}",model_name="{model}"}} {value}\n'
        for engine, model, value in (("0", "m", 3), ("1", "m", 5), ("0", "n", 1))
    )
    found = {(s.engine, s.model): s.value for s in read(page).samples if s.signal == "requests_waiting"}
    assert found == {("0", "m"): 3, ("1", "m"): 5, ("0", "n"): 1}


@pytest.mark.parametrize("is_old_first", [False, True])
def test_old_and_new_name_together_count_once(is_old_first: bool) -> None:  # noqa: FBT001  a row's two cases
    """0.11 wrote both; the new name counts, whichever comes first."""
    lines = [
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5\n',
        'vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.4\n',
    ]
    new, old = (
        "".join(
            f'vllm:{name}_bucket{{engine="0",model_name="m",le="{le}"}} {value}\n'
            for le, value in ((0.1, n), ("+Inf", n))
        )
        for name, n in (("inter_token_latency_seconds", 10), ("time_per_output_token_seconds", 4))
    )
    parts = [LIFE, *lines, new, old]
    reading = read("".join(reversed(parts) if is_old_first else parts))
    assert [s.value for s in reading.samples if s.signal == "kv_usage_ratio"] == [0.5]
    assert histogram(reading, "itl_seconds").counts == (10, 10)


def test_an_engine_with_only_the_old_name_is_read_beside_one_with_the_new() -> None:
    page = LIFE + (
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5\n'
        'vllm:gpu_cache_usage_perc{engine="1",model_name="m"} 0.4\n'
    )
    assert {s.engine: s.value for s in read(page).samples if s.signal == "kv_usage_ratio"} == {"0": 0.5, "1": 0.4}


@pytest.mark.parametrize("prefix", ["vllm:", "ray_vllm:", "kserve_vllm:", "vllm_"])
def test_reads_every_prefix_seen_in_the_field(prefix: str) -> None:
    reading = read(f'{prefix}generation_tokens_total{{engine="0",model_name="m"}} 7\n')
    assert [(s.signal, s.value) for s in reading.samples] == [("generation_tokens_total", 7)]


def test_bucket_edges_are_those_of_the_page_in_any_order() -> None:
    """--custom-histogram-buckets: ours are 0.3 and 2; the page's order does not matter."""
    page = LIFE + "".join(
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",model_name="m",le="{le}"}} {count}\n'
        for le, count in (("+Inf", 9), ("2.0", 5), ("0.3", 1))
    )
    found = histogram(read(page), "e2e_seconds")
    assert (found.edges, found.counts, found.total) == ((0.3, 2.0, INF), (1, 5, 9), None)


def test_a_histogram_named_total_is_read_as_one() -> None:
    page = LIFE + "".join(
        f'vllm:iteration_tokens_total{part}{{engine="0",model_name="m"{le}}} {value}\n'
        for part, le, value in (
            ("_bucket", ',le="8"', 3),
            ("_bucket", ',le="+Inf"', 4),
            ("_sum", "", 50),
            ("_count", "", 4),
        )
    )
    found = histogram(read(page), "step_tokens")
    assert (found.counts, found.total) == ((3, 4), 50)


@pytest.mark.parametrize(
    ("buckets", "why"),
    [
        pytest.param({"0.3": 1, "2": 5}, "no +Inf", id="without +Inf"),
        pytest.param({"0.3": 5, "2": 1, "+Inf": 9}, "falls", id="falling counts"),
        pytest.param({"0.3": -1, "+Inf": 9}, "negative", id="a sentinel"),
        pytest.param({"0.3": 1, "+Inf": "NaN"}, "the total is NaN", id="NaN in the total"),
    ],
)
def test_what_is_no_histogram_is_unknown_and_told(buckets: dict[str, object], why: str) -> None:
    page = LIFE + "".join(
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",model_name="m",le="{le}"}} {count}\n'
        for le, count in buckets.items()
    )
    reading = read(page)
    assert reading.histograms == (), why
    assert "odd_histograms" in codes(reading)


@pytest.mark.parametrize("value", ["-1", "NaN", "+Inf"])
@pytest.mark.parametrize("name", ["num_requests_running", "num_preemptions_total"])
def test_a_sentinel_is_unknown_never_a_number(name: str, value: str) -> None:
    reading = read(LIFE + f'vllm:{name}{{engine="0",model_name="m"}} {value}\n')
    assert {s.signal for s in reading.samples} == {"generation_tokens_total"}


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        pytest.param('kv_cache_size_tokens="571024",num_gpu_blocks="9",block_size="16"', 571_024, id="told in tokens"),
        pytest.param('num_gpu_blocks="100",block_size="16"', 1_600, id="blocks times size"),
        pytest.param('kv_cache_size_tokens="None",num_gpu_blocks="100",block_size="16"', 1_600, id="None is not told"),
        pytest.param('num_gpu_blocks="None",block_size="16"', None, id="not known yet"),
        pytest.param('cache_dtype="auto"', None, id="no such labels"),
        pytest.param('kv_cache_size_tokens="inf"', None, id="not finite"),
        pytest.param('num_gpu_blocks="0",block_size="16"', None, id="a model without a KV cache"),
        pytest.param('kv_cache_size_tokens="-16"', None, id="no number of tokens"),
    ],
)
def test_kv_capacity_stands_in_labels(labels: str, tokens: float | None) -> None:
    reading = read(LIFE + f'vllm:cache_config_info{{engine="0",{labels}}} 1\n')
    found = [(s.value, s.model) for s in reading.samples if s.signal == "kv_capacity_tokens"]
    assert found == ([] if tokens is None else [(tokens, "m")])


def test_a_page_of_something_else_says_so_and_gives_nothing() -> None:
    reading = SystemPage("vllm").read("go_goroutines 7\nprocess_start_time_seconds 9\n", "t", 1.0)
    assert reading.outcome == "not_vllm"
    assert "2 series" in reading.detail
    assert (reading.samples, reading.histograms, reading.process_start_seconds) == ((), (), None)


def test_a_page_of_a_system_that_we_know_is_called_by_its_name() -> None:
    """The kind of a target is easily forgotten: the answer is what to write."""
    reading = SystemPage("vllm").read("lmcache_mp_l1_usage_ratio 0.5\n", "t", 1.0)
    assert reading.outcome == "not_vllm"
    assert "a page of lmcache, and not of vllm; write kind: lmcache" in reading.detail


@pytest.mark.parametrize("text", ["", "\n", "garbage\n", '{"error": "no"}\n'])
def test_nonsense_is_not_vllm(text: str) -> None:
    assert SystemPage("vllm").read(text, "t", 1.0).outcome == "not_vllm"


def test_a_missing_family_is_unknown_never_zero() -> None:
    reading = read(LIFE)
    assert [(s.signal, s.value) for s in reading.samples] == [("generation_tokens_total", 7)]
    assert reading.histograms == ()


def test_a_second_look_at_the_same_page_reads_the_same() -> None:
    """The second comes from the cache of series."""
    page, text = SystemPage("vllm"), fixture("vllm_0.32_cpu")
    assert page.read(text, "t", 1.0) == page.read(text, "t", 1.0)


REJECTED = 'vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"} 4\n'


@pytest.mark.parametrize(
    ("engines", "of"), [(["3"], "3"), (["2", "3"], "2"), (["10", "9"], "9")], ids=["one rank", "two ranks", "by number"]
)
def test_what_a_front_end_counts_for_all_makes_no_engine_of_its_own(engines: list[str], of: str) -> None:
    """Rejections have no engine label; an engine "0" that is not there would lack every gauge."""
    page = REJECTED + "".join(f'vllm:generation_tokens_total{{engine="{e}",model_name="m"}} 7\n' for e in engines)
    reading = read(page)
    assert {s.engine for s in reading.samples} == set(engines)
    assert [(s.engine, s.value) for s in reading.samples if s.signal == "requests_rejected_total"] == [(of, 4)]


def test_a_page_without_engine_labels_is_one_engine() -> None:
    reading = read(REJECTED + 'vllm:generation_tokens_total{model_name="m"} 7\n')
    assert {s.engine for s in reading.samples} == {"0"}


@pytest.mark.parametrize(("value", "found"), [("1", [1.0]), ("1.04", [1.0]), ("45", [])])
def test_a_ratio_above_one_is_one_or_unknown_and_told(value: str, found: list[float]) -> None:
    """A little more is a count that is late; 45 is another unit, and nobody knows what it means."""
    reading = read(LIFE + f'vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {value}\n')
    assert [sample.value for sample in reading.samples if sample.signal == "kv_usage_ratio"] == found
    assert ("over_one" in codes(reading)) == (value != "1")
