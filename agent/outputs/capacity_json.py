"""The JSON of `slo-agent capacity`: the names that stay stable, and some more."""

from dataclasses import fields

from agent.advice.capacity import Limit, Prediction
from agent.capacity_report import CapacityAnswer
from agent.model import Figure
from agent.outputs.jsonable import figure_json

Json = dict[str, object]


def capacity_json(answer: CapacityAnswer) -> Json:
    """Model, domain and prediction. The split of the decode cost is null where the data cannot tell it."""
    steps, (sequences, kv) = answer.steps, answer.at
    return {
        "target": answer.target,
        "step_overhead_seconds": steps.overhead_seconds,
        "prefill_seconds_per_token": steps.prefill_seconds_per_token,
        "decode_seconds_per_kv_token": steps.decode_seconds_per_kv_token if steps.is_split_known else None,
        "decode_seconds_per_sequence": steps.decode_seconds_per_sequence if steps.is_split_known else None,
        "decode_seconds_per_step": {
            "at_sequences": sequences,
            "at_kv_tokens": kv,
            "value": steps.decode_seconds(sequences, kv),
        },
        "fit_error_ratio": steps.error_ratio,
        "samples": steps.samples,
        "kv_capacity_tokens": answer.kv_capacity_tokens,
        "domain": {
            "sequences": list(answer.domain.sequences),
            "kv_tokens": list(answer.domain.kv_tokens),
            "input_tokens": None if answer.domain.input_tokens is None else list(answer.domain.input_tokens),
            "warnings": list(answer.warnings),
            "refusals": list(answer.refusals),
        },
        "assumed": {name: {"value": a.value, "source": a.source} for name, a in answer.assumed.items()},
        "prediction": _prediction(answer.prediction, answer),
        "as_is": None if answer.as_is is None else _figures(answer.as_is),
        "proven": {"requests_running": answer.proven.running, "rate_per_second": answer.proven.rate},
    }


def _prediction(prediction: Prediction | None, answer: CapacityAnswer) -> Json | None:
    if answer.rate_limit is None or answer.concurrency_limit is None:
        return None
    figures = {field.name: None for field in fields(Prediction)} if prediction is None else _figures(prediction)
    return {
        **figures,
        "max_rate_per_second": _limit(answer.rate_limit),
        "max_concurrency": _limit(answer.concurrency_limit),
        "binding": answer.concurrency_limit.binding,
        "rate_binding": answer.rate_limit.binding,
    }


def _figures(prediction: Prediction) -> Json:
    found: Json = {}
    for field in fields(prediction):
        value = getattr(prediction, field.name)
        if isinstance(value, Figure):
            found[field.name] = figure_json(value)
        elif field.name == "over_threshold_ratio":
            found[field.name] = {name: None if f is None else figure_json(f) for name, f in value.items()}
        else:
            found[field.name] = value
    return found


def _limit(limit: Limit) -> Json | None:
    return figure_json(Figure(limit.value, limit.low, limit.high, 0))
