"""docs/spans.md names what is read and what the limits are, and its examples are what it says they are."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from probes.spans import attributes, forward, seen, sketch
from probes.spans.limits import SpanLimits
from probes.spans.result import SpanResult

PAGE = (Path(__file__).parents[3] / "docs" / "spans.md").read_text(encoding="utf-8")
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("table", [attributes.SECONDS, attributes.TOKENS, attributes.RESOURCE])
def test_names_every_attribute_beside_its_field(table: dict[str, tuple[str, ...]]) -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, places in table.items():
        (line,) = [line for line in lines if f"`{name}`" in line.split("|")[1]]
        assert [place for place in places if f"`{place}`" not in line] == []


def test_names_no_field_that_is_not_there() -> None:
    table = PAGE.split("## What is read")[1].split("\n**")[0]
    named = {
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1:2][0] if "|" in line else "")
    }
    assert named <= {field.name for field in fields(SpanResult)} | {"field"}


def test_limits_are_those_of_the_code() -> None:
    limits = SpanLimits()
    assert (limits.wire_bytes, limits.body_bytes, limits.waiting_bytes, limits.span_bytes) == (
        *(4 << 20, 8 << 20, 32 << 20, 64 << 10),
    )
    assert (limits.receive_seconds, limits.receiving_bodies, limits.waiting_bodies) == (10, 8, 256)
    assert (limits.spans_per_body, limits.attributes, seen.REMEMBERED) == (20_000, 128, 20_000)
    assert (forward.WAITING_BODIES, forward.WAITING_BYTES, sketch.RELATIVE_ERROR) == (256, 32 << 20, 0.005)


def test_the_collectors_example_sends_every_span_to_both() -> None:
    """Each exporter of the pipeline is defined, and no processor stands before them."""
    (collector,) = [example for example in EXAMPLES if "service" in example]
    pipeline = collector["service"]["pipelines"]["traces"]
    assert set(pipeline["exporters"]) == set(collector["exporters"])
    assert set(pipeline["receivers"]) == set(collector["receivers"])
    assert "processors" not in pipeline
    assert collector["exporters"]["otlp/slo-agent"]["endpoint"].endswith(":4317")


def test_the_agents_examples_are_whole_addresses() -> None:
    spans = [example["spans"] for example in EXAMPLES if "spans" in example]
    assert [(one["grpc"], one["http"]) for one in spans] == [("127.0.0.1:4317", "127.0.0.1:4318")] * 2
    assert spans[1]["forward"]["url"].endswith("/v1/traces")
