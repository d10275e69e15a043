"""Presets: every one is a config that loads, on edges of vLLM's histograms, and one's own SLOs come first."""

import pytest

from agent.config_file import parse_config
from agent.errors import ConfigError
from agent.foresight import first_alert, warnings
from agent.model import Slo
from agent.planning import make_plan
from agent.presets import presets

TARGET = "targets: [{name: vllm-0, url: 'http://vllm-0:8000'}]\n"


def slos(text: str) -> dict[str, Slo]:
    return {slo.name: slo for slo in make_plan(parse_config(TARGET + text, "f"), ()).slos}


@pytest.mark.parametrize("name", presets())
def test_a_preset_needs_nothing_else_and_warns_of_no_bucket(name: str) -> None:
    found = slos(f"preset: {name}")
    assert found
    assert all(slo.name.startswith(f"{name}-") and slo.service == name for slo in found.values())
    assert [words for slo in found.values() for words in warnings(slo, None)] == []


@pytest.mark.parametrize("name", ["chat", "agent", "rag"])
def test_a_full_outage_pages_within_an_hour(name: str) -> None:
    for slo in slos(f"preset: {name}").values():
        page = first_alert(slo, "page", 1.0)
        assert page is not None, slo.name
        assert page[0] <= 3600


def test_batch_never_pages() -> None:
    assert {pair.severity for slo in slos("preset: batch").values() for pair in slo.pairs} == {"ticket"}


def test_an_slo_of_ones_own_takes_the_presets_place_and_names_the_service() -> None:
    own = "slos: [{name: chat-ttft, service: shop, sli: ttft, objective_ratio: 0.9, threshold_seconds: 5}]\n"
    found = slos(own + "preset: chat")
    assert (found["chat-ttft"].objective_ratio, len(found)) == (0.9, 5)
    assert {slo.service for slo in found.values()} == {"shop"}


def test_the_goodput_of_the_kind_is_taken_unless_one_is_written() -> None:
    assert parse_config(TARGET + "preset: agent", "f").goodput.ttft_seconds == 5.0
    assert parse_config(TARGET + "preset: agent\ngoodput: {ttft_seconds: 1}", "f").goodput.ttft_seconds == 1.0


def test_a_preset_that_is_none_is_told() -> None:
    with pytest.raises(
        ConfigError, match=r'preset is "chatt"; expected one of chat, agent, rag, batch\. Did you mean "chat"\?'
    ):
        parse_config(TARGET + "preset: chatt", "f")
