"""The report of a calibration: what the model says of every run beside what the client measured, as one HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from typing import Any

from agent.advice.capacity import EngineCapacity, predict
from agent.advice.rehearsal import EngineLimits, Load
from agent.capacity_report import CapacityAnswer
from agent.model import Figure

WIDTH, HEIGHT, MARGIN = 520, 240, 52
STYLE = (
    "body{font:16px system-ui;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
    "td,th{padding:.2em .8em;text-align:right}svg text{font:12px system-ui}"
)
SAID, MEASURED = "#1664c0", "#c04616"


@dataclass(frozen=True, slots=True)
class Compared:
    """One run: what the model says of its load, and what the client measured. Seconds."""

    name: str
    concurrency: int | None
    rate: float | None
    tpot_said: float
    tpot_measured: float
    ttft_said: float
    ttft_measured: float
    itl_p99_said: float
    itl_p99_measured: float


def compared(name: str, client: Mapping[str, Any], answer: CapacityAnswer, load: Load) -> Compared:
    """The run beside the prediction of this answer's model, whatever its domain says: a report shows where it fails."""
    assumed = answer.assumed
    limits = EngineLimits(
        int(assumed["max_num_batched_tokens"].value or 8192),
        int(assumed["max_num_seqs"].value or 256),
        answer.kv_capacity_tokens,
    )
    engine = EngineCapacity(answer.steps, limits, assumed["front_end_seconds"].value or 0.0)
    said = predict(engine, load)
    return Compared(
        name,
        load.concurrency,
        load.rate,
        _value(said.tpot_mean_seconds),
        client["mean_tpot_ms"] / 1e3,
        _value(said.ttft_mean_seconds),
        client["mean_ttft_ms"] / 1e3,
        _value(said.itl_p99_seconds),
        client["p99_itl_ms"] / 1e3,
    )


def _value(figure: Figure | None) -> float:
    return 0.0 if figure is None or figure.value is None else figure.value


def html(answer: CapacityAnswer, rows: Sequence[Compared], held_out: Compared | None) -> str:
    """The whole page; nothing is loaded from anywhere."""
    return "\n".join(_page(answer, rows, held_out)) + "\n"


def _page(answer: CapacityAnswer, rows: Sequence[Compared], held_out: Compared | None) -> Iterator[str]:
    steps = answer.steps
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Calibration</title><style>{STYLE}</style>'
    yield "<h1>Calibration</h1><p>One step of this engine takes "
    yield (
        f"{steps.overhead_seconds * 1e3:.2f} ms, and {steps.prefill_seconds_per_token * 1e6:.1f} µs for every prompt "
        f"token, and what decoding costs; the median busy stretch is missed by {100 * steps.error_ratio:.1f} %.</p>"
    )
    for reason in answer.refusals:
        yield f"<p><b>Out of domain:</b> {escape(reason)}.</p>"
    if held_out is not None:
        off = 100 * (held_out.tpot_said / held_out.tpot_measured - 1)
        yield (
            f"<p>Held out: learned without the run of {held_out.concurrency} users, the model says a TPOT of "
            f"{held_out.tpot_said * 1e3:.1f} ms for it; measured were {held_out.tpot_measured * 1e3:.1f} ms "
            f"({off:+.0f} %).</p>"
        )
    yield f'<p><b style="color:{SAID}">said by the model</b>, <b style="color:{MEASURED}">measured</b></p>'
    users = [row for row in rows if row.concurrency is not None]
    rates = [row for row in rows if row.rate is not None]
    for title, part in (("users", users), ("requests a second", rates)):
        if len(part) > 1:
            x = [float(row.concurrency or row.rate or 0) for row in part]
            yield _plot(f"TPOT, mean, ms by {title}", x, [(r.tpot_said, r.tpot_measured) for r in part])
            yield _plot(f"ITL, p99, ms by {title}", x, [(r.itl_p99_said, r.itl_p99_measured) for r in part])
            yield _plot(f"TTFT, mean, ms by {title}", x, [(r.ttft_said, r.ttft_measured) for r in part])
    yield "<table><tr><th>run<th>TPOT ms said<th>measured<th>ITL p99 said<th>measured<th>TTFT said<th>measured</tr>"
    for row in rows:
        pairs = (
            *(row.tpot_said, row.tpot_measured, row.itl_p99_said, row.itl_p99_measured),
            *(row.ttft_said, row.ttft_measured),
        )
        yield f"<tr><td>{escape(row.name)}" + "".join(f"<td>{1e3 * value:.1f}" for value in pairs) + "</tr>"
    yield "</table></html>"


def _plot(title: str, x: Sequence[float], pairs: Sequence[tuple[float, float]]) -> str:
    """Both curves over x, on a logarithmic scale of milliseconds."""
    values = [max(1e-3, 1e3 * value) for pair in pairs for value in pair]
    low, high = log10(min(values) * 0.8), log10(max(values) * 1.25)
    across, first = max(x) - min(x), min(x)

    def place(at: float, milliseconds: float) -> str:
        left = MARGIN + (WIDTH - 2 * MARGIN) * ((at - first) / across if across else 0.5)
        top = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (log10(max(1e-3, milliseconds)) - low) / (high - low)
        return f"{left:.1f},{top:.1f}"

    lines = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
        + " ".join(place(at, 1e3 * pair[which]) for at, pair in zip(x, pairs, strict=True))
        + '"/>'
        for which, colour in ((0, SAID), (1, MEASURED))
    )
    marks = "".join(
        f'<text x="{place(at, 1.0).split(",")[0]}" y="{HEIGHT - MARGIN / 3:.0f}" text-anchor="middle">{at:g}</text>'
        for at in x
    )
    ends = "".join(
        f'<text x="4" y="{place(first, 10**at).split(",")[1]}">{10**at:.3g}</text>'
        for at in (low, (low + high) / 2, high)
    )
    head = f'<text x="{MARGIN}" y="16">{escape(title)}</text>'
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img">{head}{lines}{marks}{ends}</svg>'
