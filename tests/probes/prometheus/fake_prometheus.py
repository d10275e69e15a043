"""A server that answers as Prometheus' API does, from samples it is given."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Labels = dict[str, str]
MATCHER = re.compile(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')
RANGE = re.compile(r"^(\{.*\})\[(\d+)ms\]$")


@dataclass(slots=True)
class FakePrometheus:
    """`series` are (labels, samples). Answers of more than `most_samples` are refused as the real one refuses them."""

    series: list[tuple[Labels, list[tuple[float, float]]]] = field(default_factory=list)
    most_samples: int = 10**9
    token: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def add(self, name: str, samples: list[tuple[float, float]], **labels: str) -> None:
        self.series.append(({"__name__": name, "instance": "vllm-0:8000", "job": "vllm", **labels}, samples))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        form = {key: str(value) for key, value in (await request.post()).items()}
        what = request.path.rpartition("/api/v1/")[2]
        self.asked.append((what, form))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="who are you?")
        if what == "series":
            found = self._chosen(form["match[]"], float(form["start"]), float(form["end"]))
            return self._good([labels for labels, samples in found if samples])
        if what == "query_range":
            return self._sampled(form)
        matched = RANGE.match(form["query"])
        assert matched is not None, form
        end = float(form["time"])
        found = self._chosen(matched[1], end - int(matched[2]) / 1000, end)
        if sum(len(samples) for _, samples in found) > self.most_samples:
            error = "query processing would load too many samples into memory in query execution"
            return web.json_response({"status": "error", "errorType": "execution", "error": error}, status=422)
        return self._matrix(found)

    def _sampled(self, form: dict[str, str]) -> web.Response:
        start, end, step = (float(form[key]) for key in ("start", "end", "step"))
        moments = [start + step * n for n in range(int((end - start) / step) + 1)]
        found = []
        for labels, samples in self._chosen(form["query"], -math.inf, end):
            known = [(at, [v for t, v in samples if at - 300 < t <= at]) for at in moments]
            found.append((labels, [(at, values[-1]) for at, values in known if values]))
        return self._matrix([(labels, samples) for labels, samples in found if samples])

    def _chosen(self, selector: str, start: float, end: float) -> list[tuple[Labels, list[tuple[float, float]]]]:
        tests = [(name, op, text.replace("\\\\", "\\")) for name, op, text in MATCHER.findall(selector)]
        return [
            (labels, [(at, value) for at, value in samples if start <= at <= end])
            for labels, samples in self.series
            if all(_fits(labels.get(name, ""), op, text) for name, op, text in tests)
        ]

    def _matrix(self, found: list[tuple[Labels, list[tuple[float, float]]]]) -> web.Response:
        result = [{"metric": labels, "values": [[at, _text(v)] for at, v in samples]} for labels, samples in found]
        return self._good({"resultType": "matrix", "result": result})

    def _good(self, data: Any) -> web.Response:
        return web.json_response({"status": "success", "data": data})


def _fits(value: str, operator: str, text: str) -> bool:
    return value == text if operator == "=" else re.fullmatch(text, value) is not None


def _text(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)
