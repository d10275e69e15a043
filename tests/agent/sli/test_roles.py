"""Who prefills and who decodes, where nobody said it."""

import gzip
import json

import pytest
from h200 import RECORDING, needs_h200

from agent.signals.roles import roles_of
from agent.sli.count import TargetFacts
from agent.sli.roles import RoleBook
from agent.windows import Windows
from probes.page import SystemPage
from probes.sample import Reading, Sample

UNSAID = TargetFacts("m", "aggregated", None, role_is_said=False)


def engine(target: str, **counters: float) -> Reading:
    """A page with these counters; `source__label` stands for a labelled one."""
    samples = [
        Sample(name.partition("__")[0], "counter", "0", "m", value, name.partition("__")[2])
        for name, value in counters.items()
    ]
    return Reading(target, "vllm", 10.0, samples=tuple(samples))


def prefill(target: str) -> Reading:
    return engine(target, requests_finished_total__length=40, generation_tokens_total=40)


def decode(target: str, computed: float = 0) -> Reading:
    return engine(
        target,
        requests_finished_total__stop=40,
        generation_tokens_total=4_000,
        prompt_tokens_by_source_total__external_kv_transfer=9_000,
        prompt_tokens_by_source_total__local_compute=computed,
    )


def seen(*readings: Reading) -> dict[str, str]:
    windows = Windows()
    for reading in readings:
        windows.take(reading)
    return {name: role.role for name, role in roles_of(windows, windows.targets).items()}


@needs_h200
def test_two_real_instances_show_what_they_do() -> None:
    windows, readers = Windows(), {name: SystemPage("vllm") for name in ("vllm-8000", "vllm-8001")}
    with gzip.open(RECORDING.with_name("pd_1p1d.jsonl.gz"), "rt") as lines:
        for line in map(json.loads, lines):
            if line["target"] in readers:
                windows.take(readers[line["target"]].read(line["body"], line["target"], line["at"]))
    found = roles_of(windows, windows.targets)
    assert {name: role.role for name, role in found.items()} == {"vllm-8000": "prefill", "vllm-8001": "decode"}
    assert found["vllm-8000"].evidence == "all 169 requests ended after one token"


def test_an_instance_with_a_shared_cache_serves_alone() -> None:
    """It takes prompts from elsewhere, and computes others."""
    assert seen(decode("a", computed=3_000)) == {}


def test_one_token_requests_alone_are_no_prefill() -> None:
    """Somebody has to decode: a load of one-token requests looks the same."""
    assert seen(prefill("a")) == {}
    assert seen(prefill("a"), decode("b")) == {"a": "prefill", "b": "decode"}


def test_few_requests_show_nothing() -> None:
    few = engine("a", requests_finished_total__length=3, generation_tokens_total=3)
    assert seen(few, decode("b")) == {"b": "decode"}


def test_a_dynamo_worker_says_it_itself() -> None:
    """A decode worker is called backend there, as one that serves alone is: others prefill, so it decodes."""

    def worker(target: str, component: str) -> Reading:
        return Reading(
            target, "dynamo_worker", 10.0, samples=(Sample("worker_requests_total", "counter", "0", "", 1, component),)
        )

    assert seen(worker("p", "prefill"), worker("d", "backend")) == {"p": "prefill", "d": "decode"}
    assert seen(worker("a", "backend"), worker("b", "backend")) == {}


def test_a_router_says_it_of_the_addresses_it_asks() -> None:
    windows = Windows()
    legs = (
        Sample("router_pd_prefill_requests_total", "counter", "0", "", 5, "http://p:8000"),
        Sample("router_pd_decode_requests_total", "counter", "0", "", 5, "http://d:8000/"),
    )
    windows.take(Reading("front", "vllm_router", 10.0, samples=legs))
    found = roles_of(windows, ["p", "d"], {"p": "http://p:8000", "d": "http://d:8000"})
    assert {name: role.role for name, role in found.items()} == {"p": "prefill", "d": "decode"}


def test_what_is_said_stays_and_what_was_learned_is_kept() -> None:
    windows, book = Windows(), RoleBook()
    windows.take(prefill("p"))
    windows.take(decode("d"))
    said = TargetFacts("m", "aggregated", None)
    targets = {"p": UNSAID, "d": UNSAID, "x": said}
    applied = book.applied(targets, windows)
    assert {name: facts.role for name, facts in applied.items()} == {"p": "prefill", "d": "decode", "x": "aggregated"}
    assert applied["p"].labels["role_evidence"] == "all 40 requests ended after one token"
    assert book.applied(targets, windows) is applied
    assert book.applied(targets, Windows()) is applied
    assert book.applied({"x": said}, windows) == {"x": said}


@pytest.mark.parametrize("targets", [{}, {"a": UNSAID}])
def test_with_nothing_learned_the_targets_are_as_they_were(targets: dict[str, TargetFacts]) -> None:
    assert RoleBook().applied(targets, Windows()) is targets
