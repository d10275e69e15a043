"""Advice in the words of whoever pays for it: what a figure means, what a count costs, why nothing is advised."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.commands.common import count_of, short

Item = Mapping[str, Any]
HOURS_A_MONTH = 730.0
FIGURES = {  # signal: words; "" where the figure is not for this page
    "forecast_arrival_rate_q50_per_second": "{value} requests/s are expected: the largest minute of the next {window}",
    "forecast_arrival_rate_q90_per_second": "with 90 % chance at most {value} requests/s",
    "forecast_arrival_rate_q97_per_second": "with 97 % chance at most {value} requests/s",
    "carried_per_replica_low_per_second": "one replica carries {value} requests/s for sure within what is promised",
    "carried_per_replica_per_second": "one replica carries {value} requests/s at the best guess",
    "carried_correction_ratio": "that is {percent} of what the model says: so it was seen",
    "requests_waiting": "{value} requests wait in the queues",
    "readings_ratio": "{percent} of the readings came in over {window}",
    "cold_start_seconds": "a new replica answers after {time}",
    "replicas_pending": "replicas on their way: {value}",
    "replicas_lost": "replicas that are lost and carry nothing: {value}",
    "replicas_needed": "replicas that the load asks for: {value}",
    "arrival_rate_per_second": "{value} requests/s came over {window}",
    "served_rate_per_second": "{value} requests/s were served over {window}",
    "served_rate_per_replica_per_second": "one replica served {value} requests/s while it had a queue",
    "requests_waiting_share_of_readings_ratio": "requests waited in {percent} of the readings over {window}",
    "prefill_seconds_per_token": "a token of a prompt takes {microseconds} to compute",
    "step_overhead_seconds": "every step takes {time}, whatever is in it",
    "requests_running_per_replica": "{value} requests run at once on a replica",
    "input_tokens_mean": "a prompt has {value} tokens on average",
    "threshold_seconds": "the promise is {time}",
}
SHARES = {"itl_seconds": "gaps between tokens", "ttft_seconds": "first tokens", "tpot_seconds": "answers, per token,"}
NEUTRAL = {"carried_correction_ratio": 1.0, "readings_ratio": 1.0, "replicas_pending": 0.0, "replicas_lost": 0.0}
PARTS = {  # of the confidence
    "data": "how much of the readings came in",
    "fit": "how well the model fits",
    "seen": "how much was seen so far",
    "width": "how far apart the ends of the prediction are",
    "reach": "how far it goes beyond the loads that were seen",
    "correction": "how far the model had to be put right",
}
KEEPS = {
    "within_band": "the load asks for no other number",
    "holding": "no more are needed; whether fewer would do is watched for some minutes first",
    "pending": "some are still on their way",
    "max_replicas": "more are needed, and advice.max_replicas does not allow them",
    "cannot_be_met": "no number of them keeps what is promised",
    "bad_data": "too much of the data is missing to say more",
    "no_model": "too little was seen yet to know what one carries, or what was seen fits no model",
}


def figure_line(evidence: Item) -> str | None:
    """One figure in words; None for one that says that nothing is wrong, and for parts of the confidence."""
    signal, value, seconds = evidence["signal"], evidence["value"], evidence["window_seconds"]
    if signal.startswith("confidence_") or (signal in NEUTRAL and NEUTRAL[signal] == value):
        return None
    window = f" over {_span(seconds)}" if seconds > 0 else " now"
    if value is None:
        return f"{_words(signal)}: not known{window}"
    if signal.startswith("burn_rate:"):
        name = signal.removeprefix("burn_rate:")
        return f"{name} spends its error budget {value:.2g} times as fast as it may{window}"
    name, _, limit = signal.partition(">")
    if limit and name in SHARES:
        return f"{100 * value:.3g} % of the {SHARES[name]} take longer than {limit} s{window}"
    known = FIGURES.get(signal)
    if known is None:
        return f"{_words(signal)}: {_with_unit(signal, value)}{window}"
    told = {"percent": f"{100 * value:.3g} %", "time": _time(value), "microseconds": f"{value * 1e6:.3g} microseconds"}
    return known.format(value=short(round(value, 1) if value > 1 else value), window=_span(seconds), **told)


def weakest_parts(evidence: Sequence[Item]) -> Iterator[str]:
    """What lowers the confidence most, lowest first, at most two."""
    parts = {
        name: each["value"]
        for each in evidence
        for name in PARTS
        if each["signal"] == f"confidence_{name}_ratio" and each["value"] < 0.95
    }
    for name in sorted(parts, key=lambda part: parts[part])[:2]:
        yield f"less by {PARTS[name]}: {100 * parts[name]:.0f} %"


def cost_lines(one: Item) -> list[str]:
    """Dollars an hour now and then, where they are known; else of the choices."""
    prices = {choice["setting"]: choice.get("dollars_per_hour") for choice in one["alternatives"]}
    now, then = (prices.get(count_of(int(one[which]), "replica")) for which in ("current", "proposed"))
    if now is not None and then is not None and one["action"] == "scale":
        more = then - now
        word, month = ("more" if more > 0 else "less"), abs(more) * HOURS_A_MONTH
        return [f"${now:.2f}/h now, ${then:.2f}/h then: ${abs(more):.2f}/h {word}, about ${month:,.0f} a month"]
    known = [price for price in prices.values() if price is not None]
    if not known:
        return ["no price is known: give prices.gpu_hour_dollars and each target's gpu_type in the config"]
    if min(known) == max(known):
        return [f"${known[0]:.2f}/h, as now: no GPU more or less"]
    return [f"${min(known):.2f}/h to ${max(known):.2f}/h, by the choice"]


def group_line(wish: Item) -> str:
    """Of a group whose replicas are to stay: how many, and why."""
    target = wish["target"]
    rate = "" if wish["rate_per_second"] is None else f"; {wish['rate_per_second']:.3g} requests/s come"
    replicas = count_of(wish["current"], "replica")
    why = KEEPS.get(wish["reason"], "see the advice")
    return f"{target['model']} ({target['role']}): keep {replicas}: {why}{rate}"


def _words(signal: str) -> str:
    name = signal.replace(":", ", ")
    for unit in ("_per_second", "_seconds", "_ratio"):
        name = name.replace(unit, "")
    return name.replace("_", " ")


def _with_unit(signal: str, value: float) -> str:
    if signal.endswith("_per_second"):
        return f"{short(value)}/s"
    if "_seconds" in signal:
        return _time(value)
    return f"{100 * value:.3g} %" if signal.endswith("_ratio") else short(value)


def _time(seconds: float) -> str:
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{seconds * 1000:,.3g} ms"


def _span(seconds: float) -> str:
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"
