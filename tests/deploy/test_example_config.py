"""The example config is complete, true and loadable: as it stands, and with every switched-off setting switched on."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from agent.config import Config
from agent.config_file import load_config, parse_config

EXAMPLE = Path(__file__).parents[2] / "deploy" / "agent.example.yaml"
TEXT = EXAMPLE.read_text(encoding="utf-8")
ALL_ON = re.sub(r"(?m)^( *)#(?=[^\s]|  )", r"\1", TEXT)


def sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel], str]]:
    """Every (path, section, field) of the config tree."""
    for name, field in model.model_fields.items():
        yield path, model, name
        for inner in models_in(field.annotation):
            yield from sections(inner, f"{path}.{name}" if path else name)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


@cache
def shown(text: str) -> dict[str, list[tuple[Any, str]]]:
    """By path, what the YAML shows there: each value with the line it begins on."""
    found: dict[str, list[tuple[Any, str]]] = {}
    lines = text.splitlines()

    def walk(node: yaml.Node, path: str) -> None:
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                walk(item, path)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = f"{path}.{key.value}" if path else key.value
                plain = yaml.safe_load(yaml.serialize(value))
                found.setdefault(inner, []).append((plain, lines[key.start_mark.line]))
                walk(value, inner)

    root = yaml.compose(text)
    assert root is not None
    walk(root, "")
    return found


def test_the_example_loads_as_it_stands() -> None:
    """It holds the three promises that the README and the rendered rules speak of."""
    config = load_config(EXAMPLE)
    promises = [(slo.name, slo.sli, slo.source, slo.objective_ratio, slo.threshold_seconds) for slo in config.slos]
    assert promises == [
        ("chat-availability", "availability", "engine", 0.999, 300),
        ("chat-canary-availability", "availability", "canary", 0.99, None),
        ("chat-ttft", "ttft", None, 0.99, 2.5),
    ]


def test_every_switched_off_setting_is_valid_too() -> None:
    """Taking the `#` from every `#key:` gives a config that loads: examples that are only remarks rot."""
    config = parse_config(ALL_ON, "the example with everything on")
    assert config.node == "gpu-node-07"
    assert [target.name for target in config.targets] == ["vllm-0", "vllm-1", "lmcache-0", "router-0", "store"]
    assert config.burn.windows[0].factor == pytest.approx(14.4)
    assert config.outputs.otlp is not None


@pytest.mark.parametrize(("path", "section", "name"), list(sections(Config)))
def test_every_field_is_shown(path: str, section: type[BaseModel], name: str) -> None:
    """A field that is not in the example is a field nobody finds."""
    assert (f"{path}.{name}" if path else name) in shown(ALL_ON), f"{section.__name__}.{name} is not in {EXAMPLE.name}"


@pytest.mark.parametrize(("path", "section", "name"), list(sections(Config)))
def test_every_default_is_shown_or_said(path: str, section: type[BaseModel], name: str) -> None:
    """A scalar field shows its default somewhere, or the remark on its line says what the default is."""
    default = section.model_fields[name].default
    if section.model_fields[name].is_required() or isinstance(default, list) or repr(default) == "PydanticUndefined":
        return
    entries = shown(ALL_ON).get(f"{path}.{name}" if path else name, [])
    assert any(value == default or "default" in line for value, line in entries), f"{path}.{name}: {default!r}"
