"""What to write instead: the mend for values whose intention can be read, such as 99%, 2500ms, or an address alone."""

import re
from collections.abc import Sequence

UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+|%)\s*")
TARGET = '{{name: vllm-0, url: "{value}"}}'
SHAPES = {  # where people write one word, and what it should look like
    ("targets",): f"targets: [{TARGET}]",
    ("targets", 0): TARGET,
    ("alertmanager",): 'alertmanager: {{urls: ["{value}"]}}',
    ("alertmanager", "urls"): 'urls: ["{value}"]',
    ("canaries",): "canaries: [{{kind: chat}}]",
    ("slos",): "slos: [{{name: chat-ttft, sli: ttft, objective_ratio: 0.99, threshold_seconds: 2.5}}]",
    ("slos", 0): "{{name: chat-ttft, sli: ttft, objective_ratio: 0.99, threshold_seconds: 2.5}}",
    ("discovery",): "discovery: [{{kind: file, path: targets.json}}]",
    ("discovery", 0): "{{kind: file, path: targets.json}}",
    ("server",): 'server: {{listen: "{value}"}}',
    ("state",): 'state: {{path: "{value}"}}',
    ("outputs", "otlp"): 'otlp: {{endpoint: "{value}"}}',
    ("spans", "forward"): 'forward: {{url: "{value}"}}',
}


def mend_for(path: Sequence[int | str], value: object) -> str | None:
    """The whole sentence after the value: what was expected and what to write. None where we cannot tell."""
    name = str(path[-1]) if path else ""
    if name.endswith("_ratio"):
        return _ratio(value)
    if name.endswith("_seconds") and isinstance(value, str):
        return _seconds(value)
    return _shape(path, value)


def _ratio(value: object) -> str | None:
    """A percentage is meant by "99%" and 99.5, and by nothing between 1 and 50: nobody promises so little."""
    quantity = QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if quantity and quantity[2] == "%":
        value = float(quantity[1])
    elif isinstance(value, bool) or not isinstance(value, int | float) or not value > 1:
        return None
    meant = f"Write {value / 100:.10g}" if 50 <= value < 100 else "Write one such as 0.999"
    return f"expected a ratio between 0 and 1. {meant}."


def _seconds(value: str) -> str | None:
    quantity = QUANTITY.fullmatch(value)
    if quantity is None or quantity[2] not in UNITS:
        return None
    return f"expected a number of seconds, without a unit. Write {float(quantity[1]) * UNITS[quantity[2]]:.10g}."


def _shape(path: Sequence[int | str], value: object) -> str | None:
    shape = SHAPES.get(tuple(0 if isinstance(part, int) else part for part in path), "")
    wanted = "list" if ": [" in shape.partition("{")[0] else "mapping"
    if isinstance(value, list) and len(value) == 1 and wanted == "mapping":
        value = value[0]  # of a list of one word, that word is meant
    if not shape or isinstance(value, list | dict) or (not isinstance(value, str) and "{value}" in shape):
        return None
    return f"expected a {wanted}. Write {shape.format(value=value)}."
