"""A metrics page as vLLM's client library writes it: text format 0.0.4 with `_created` series."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from agent.simulator.catalogue import families, short_name
from agent.simulator.engine import Engine
from agent.simulator.histogram import Histogram
from agent.simulator.http_counts import HttpCounts

_NO_CREATED = ("python_", "process_")
_PER_GPU_PROCESS = {  # numbers of a real 0.32 server's page; nothing reads them
    "process_virtual_memory_bytes": 1.992286208e09,
    "process_resident_memory_bytes": 6.46078464e08,
    "process_open_fds": 34.0,
    "process_max_fds": 20000.0,
}


class VllmPage:
    """Writes the page of one engine. `created_seconds` (unix) is when the process started.

    Everything that does not change is put together once, so that a page costs a fraction of a millisecond.
    """

    def __init__(
        self,
        engine: Engine,
        http: HttpCounts,
        created_seconds: float,
        *,
        groups: Iterable[str] = (),
        created_series: bool = True,
    ) -> None:
        self._engine = engine
        self._http = http
        self._created_seconds = created_seconds
        self._created_series = created_series
        self._identity = {"engine": "0", "model_name": engine.config.model}
        self._families = [(family, self._series(family)) for family in families(groups)]

    def text(self) -> str:
        """The page now; the engine has been advanced by whoever asks."""
        values = self._values()
        lines: list[str] = []
        for family, series in self._families:
            name, kind = family["name"], family["type"]
            if name.startswith("http_"):
                lines.extend(self._http_lines(family))
                continue
            lines.append(_head(name, family["help"], kind))
            if kind == "histogram":
                lines.extend(histogram_lines(name, series[0][0], self._engine.telemetry.histograms[short_name(name)]))
            else:
                lines.extend(f"{name}{text} {number(values.get(key, 0.0))}" for text, key in series)
            if self._created_series and kind != "gauge" and not name.startswith(_NO_CREATED):
                created = name.removesuffix("_total") if kind == "counter" else name
                stamp = number(self._created_seconds)
                lines.append(_head(created + "_created", family["help"], "gauge"))
                lines.extend(f"{created}_created{text} {stamp}" for text, _ in series)
        return "\n".join(lines) + "\n"

    def _series(self, family: Mapping[str, Any]) -> list[tuple[str, tuple[str, str]]]:
        """Label text and value key of every series of a family."""
        name = family["name"]
        key = short_name(name)
        if family["type"] == "counter":
            key = key.removesuffix("_total")
        own = {label: self._identity[label] for label in family["labels"] if label in self._identity}
        if name == "vllm:cache_config_info":
            return [(label_text({**own, **family["series"][0], **self._cache_config()}), (key, ""))]
        further = family.get("series") or [{}]
        return [(label_text({**own, **more}), (key, next(iter(more.values()), ""))) for more in further]

    def _cache_config(self) -> dict[str, str]:
        config = self._engine.config
        tokens = config.num_gpu_blocks * config.block_tokens
        return {
            "block_size": str(config.block_tokens),
            "effective_attention_block_size": str(config.block_tokens),
            "gpu_memory_utilization": "0.6",
            "kv_cache_memory_bytes": "None",
            "kv_cache_size_tokens": str(tokens),
            "kv_cache_max_concurrency": str(tokens / config.max_model_len),
            "num_gpu_blocks": str(config.num_gpu_blocks),
        }

    def _values(self) -> dict[tuple[str, str], float]:
        engine = self._engine
        loading = len(engine.scheduler.loading)
        values = dict(engine.telemetry.counters)
        values.update(((name, ""), value) for name, value in _PER_GPU_PROCESS.items())
        values.update(
            {
                ("process_start_time_seconds", ""): round(self._created_seconds, 2),
                ("process_cpu_seconds", ""): round(engine.busy_seconds, 2),
                ("python_info", "CPython"): 1.0,
                ("generation_tokens", ""): engine.telemetry.generation_tokens,
                ("num_requests_running", ""): engine.requests_running,
                ("num_requests_waiting", ""): engine.requests_waiting,
                ("num_requests_waiting_by_reason", "capacity"): engine.requests_waiting - loading,
                ("num_requests_waiting_by_reason", "deferred"): loading,
                ("num_requests_kv_fetch_by_stage", "in_progress"): loading,
                ("engine_sleep_state", "awake"): 1.0,
                ("kv_cache_usage_perc", ""): engine.pool.usage_ratio,
                ("cache_config_info", ""): 1.0,
            }
        )
        return values

    def _http_lines(self, family: Mapping[str, Any]) -> Iterable[str]:
        name, kind, http = family["name"], family["type"], self._http
        yield _head(name, family["help"], kind)
        labelled: list[tuple[str, float]] = []
        if name == "http_requests_total":
            for (path, status), count in http.requests.items():
                text = label_text({"handler": path, "method": "POST", "status": status})
                yield f"{name}{text} {number(count)}"
                labelled.append((text, http.created[path]))
        elif name == "http_request_duration_highr_seconds":
            yield from histogram_lines(name, "", http.all_durations)
            labelled.append(("", self._created_seconds))
        elif kind == "histogram":
            for path, durations in http.durations.items():
                text = label_text({"handler": path, "method": "POST"})
                yield from histogram_lines(name, text, durations)
                labelled.append((text, http.created[path]))
        else:
            for path, durations in http.durations.items():
                text = label_text({"handler": path})
                yield from (f"{name}_count{text} {number(durations.count)}", f"{name}_sum{text} 0.0")
                labelled.append((text, http.created[path]))
        if self._created_series:
            base = name.removesuffix("_total")
            yield _head(base + "_created", family["help"], "gauge")
            yield from (f"{base}_created{text} {number(stamp)}" for text, stamp in labelled)


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as they stand on the page, sorted; nothing when there are none."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def number(value: float) -> str:
    """A value as Go and Prometheus' Python client write it: 2.0, 1.7959662354e+09."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6 and "e" not in text:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+0{dot - 1}" if dot < 11 else f"{mantissa}e+{dot - 1}"
    return text


def _head(name: str, help_text: str, kind: str) -> str:
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}"


def histogram_lines(name: str, labels: str, histogram: Histogram) -> Iterable[str]:
    """The lines of one series of a histogram."""
    pairs = [pair for pair in labels.strip("{}").split(",") if pair]
    counts = histogram.cumulative()
    for text, count in zip(chain(map(number, histogram.edges), ("+Inf",)), counts, strict=True):
        inside = ",".join(sorted([*pairs, f'le="{text}"']))
        yield f"{name}_bucket{{{inside}}} {number(count)}"
    yield f"{name}_count{labels} {number(histogram.count)}"
    yield f"{name}_sum{labels} {number(histogram.total)}"
