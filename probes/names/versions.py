"""Which versions of a system had which names: enough to say from a page what wrote it, and no more than that.

Source: the names in the released packages of vLLM 0.8.5, 0.9.2, 0.10.0, 0.10.2, 0.11.0, 0.11.2 and every minor version
from 0.12 to 0.32, and of LMCache 0.3.1, 0.3.7, 0.3.12, 0.3.13, 0.3.15, 0.4.1 and every version from 0.4.2 to 0.5.6.
"""

from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sign:
    """A name, or `name{label}`, without prefix, that came or went.

    `first` and `last` are the versions that had it, None for no such end. Where `beside` is named, a page with that
    one and without the sign is older than `first`: both are written by every server, at all times.
    """

    mark: str
    first: Version | None = None
    last: Version | None = None
    beside: str = ""
    before: Version | None = None  # the newest version without it


def _label(label: str, first: Version, before: Version) -> Sign:
    return Sign(f"cache_config_info{{{label}}}", first, None, "cache_config_info{block_size}", before)


VLLM = (
    Sign("num_requests_swapped", last=(0, 8)),
    Sign("cpu_cache_usage_perc", last=(0, 8)),
    Sign("gpu_prefix_cache_queries_total", (0, 8), (0, 11)),  # V1's; V0 has none
    Sign("gpu_cache_usage_perc", last=(0, 11)),
    Sign("time_per_output_token_seconds_bucket", last=(0, 14)),  # from 0.12 only where hidden names are asked for
    Sign("cache_config_info{swap_space}", last=(0, 17)),
    Sign("prompt_tokens_recomputed_total", (0, 16), (0, 19)),
    Sign("cache_config_info{calculate_kv_scales}", last=(0, 27)),
    Sign("kv_cache_usage_perc", (0, 9)),
    Sign("inter_token_latency_seconds_bucket", (0, 10)),
    Sign("request_time_per_output_token_seconds_bucket", (0, 11)),
    Sign("external_prefix_cache_queries_total", (0, 11)),
    Sign("engine_sleep_state", (0, 11)),
    Sign("request_prefill_kv_computed_tokens_bucket", (0, 13), None, "kv_cache_usage_perc", (0, 12)),
    Sign("prompt_tokens_by_source_total", (0, 16), None, "kv_cache_usage_perc", (0, 15)),
    Sign("num_requests_waiting_by_reason", (0, 20), None, "kv_cache_usage_perc", (0, 19)),
    Sign("request_num_preemptions_bucket", (0, 30), None, "cache_config_info{kv_cache_layout}", (0, 29)),
    Sign("prompt_tokens_cached_by_source_total", (0, 32)),
    Sign("admission_rejections_total", (0, 32)),
    _label("mamba_cache_mode", (0, 15), (0, 14)),
    _label("_block_size_resolved", (0, 18), (0, 17)),
    _label("kv_cache_dtype_skip_layers", (0, 19), (0, 18)),
    _label("kv_cache_size_tokens", (0, 24), (0, 23)),
    _label("skip_page_size_padded", (0, 25), (0, 24)),
    _label("prefix_match_unit", (0, 26), (0, 25)),
    _label("replayssm_buffer_len", (0, 27), (0, 26)),
    _label("kv_cache_layout", (0, 29), (0, 28)),
    _label("effective_attention_block_size", (0, 31), (0, 30)),
    _label("cache_hit_alignment_tokens", (0, 32), (0, 31)),
)

LMCACHE = (
    Sign("sm_read_requests_total", (0, 4, 3), (0, 4, 5)),
    Sign("l1_read_keys_total", (0, 4, 3), (0, 4, 5)),
    Sign("event_bus_queue_depth", (0, 4, 5)),
    Sign("lookup_requested_tokens_total", (0, 4, 5)),
    Sign("l1_evicted_chunks_total", (0, 4, 6)),
    Sign("l1_read_chunks_total", (0, 4, 6)),
    Sign("lookup_hit_l1_tokens_total", (0, 5, 5), None, "lookup_requested_tokens_total", (0, 5, 4)),
    Sign("lookup_hit_l1_keys_total", (0, 5, 6), None, "lookup_hit_l1_tokens_total", (0, 5, 5)),
    # the family inside vLLM's process
    Sign("cache_hit_rate", last=(0, 3, 6)),
    Sign("num_lookup_tokens_total", (0, 3, 2)),
    Sign("lookup_0_hit_requests_total", (0, 3, 8)),
    Sign("lmcache_is_healthy", (0, 3, 13)),
    Sign("put_failed_count", (0, 3, 14)),
)


def guess_version(marks: frozenset[str], signs: tuple[Sign, ...]) -> str | None:
    """As far as the marks of a page tell: "0.24", "0.25..0.29", "..0.8" or "0.32.."; None when they tell nothing.

    What is there weighs more than what is not: where the two disagree (another front end may leave names out), only
    what is there counts. None too where even that disagrees, as on a page put together from two servers.
    """
    there = [sign for sign in signs if sign.mark in marks]
    first = max((sign.first for sign in there if sign.first), default=None)
    last = min((sign.last for sign in there if sign.last), default=None)
    if first and last and first > last:
        return None
    absent = [sign for sign in signs if sign.beside in marks and sign.mark not in marks]
    until = min((sign.before for sign in absent if sign.before), default=None)
    if until and (first is None or until >= first):
        last = min(last, until) if last else until
    if first is None and last is None:
        return None
    words = [".".join(map(str, version)) if version else "" for version in (first, last)]
    return words[0] if words[0] == words[1] else "..".join(words)
