"""Repair: the heaviest fault of a GPU says what to do, with the figures that show it; no fault, no advice."""

from dataclasses import replace
from typing import Any

import pytest

from agent.advice.gpu_repair import gpu_repair
from agent.advice.review import Review
from agent.advice.scene import Scene
from agent.model import Recommendation, TargetStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from agent.windows import Windows
from agent.xids import mend_of
from probes.nvml_reading import gpu_reading
from probes.sample import Reading

T0 = 1_800_000_000.0
WELL: dict[str, Any] = {
    "clock_reasons": 0,
    "sm_mhz": 1980,
    "temp": 60,
    "ecc_uncorrected": 0,
    "remap_pending": 0,
    "remap_failed": 0,
    "remapped_uncorrected": 0,
    "xids": {},
}
ENGINE = TargetStatus("vllm-0", "vllm", "up", T0, "ok", "", "m", "aggregated")
POD = {"processes": [{"pid": 1, "used": 5, "pod": "uid-0"}]}
FACTS = {"vllm-0": TargetFacts("m", "aggregated", None, labels={"pod_uid": "uid-0"})}


def seen(*bodies: dict[str, Any], gpu: str = "gpu-0", windows: Windows | None = None) -> Windows:
    """Readings every ten seconds, the last one at T0."""
    windows = windows or Windows()
    for place, body in enumerate(bodies):
        at = T0 - 10 * (len(bodies) - 1 - place)
        windows.take(gpu_reading(gpu, at, WELL | body))
    return windows


def advised(windows: Windows, plan: Plan | None = None, now: float = T0) -> list[Recommendation]:
    return list(gpu_repair(Scene(plan or Plan(node="n1"), [ENGINE], [], windows, now)))


@pytest.mark.parametrize(
    ("row", "body", "code", "words"),
    [
        ("rows that cannot be remapped", {"remap_failed": 1, "remap_pending": 1}, "gpu_replace", "no spare ones"),
        ("off the bus", {"xids": {"79": 1}}, "gpu_restart_node", "does not answer on its bus"),
        ("double-bit error", {"xids": {"48": 1, "63": 1}, "remap_pending": 1}, "gpu_reset", "XID 48"),
        ("rows that wait", {"remap_pending": 1}, "gpu_reset", "the next reset"),
        ("ECC without an XID that we saw", {"ecc_uncorrected": 2}, "gpu_reset", "2 memory errors"),
        ("a code nobody here knows", {"xids": {"999": 1}}, "gpu_look_up", "XID 999"),
        ("the program's fault", {"xids": {"31": 3}}, "gpu_restart_engine", "page fault"),
        ("contained", {"xids": {"94": 1, "45": 1}}, "gpu_restart_engine", "one program only"),
        ("program and GPU", {"xids": {"31": 1, "119": 1}}, "gpu_reset", "XID 119"),
    ],
)
def test_the_heaviest_fault_says_what_to_do(row: str, body: dict[str, Any], code: str, words: str) -> None:
    (advice,) = advised(seen({}, body))
    assert (advice.action, advice.reason_code) == ("repair", code), row
    assert words in advice.summary
    assert "gpu-0 of node n1" in advice.summary
    assert "GPUFault" in advice.summary, "the alert is referred to, not doubled"
    assert advice.evidence
    assert advice.meets_slo is None
    assert all(choice["meets_slo"] is None for choice in advice.alternatives)


@pytest.mark.parametrize(
    ("row", "body"),
    [
        ("well", {}),
        ("a row was marked, and nothing waits", {"xids": {"63": 1}}),
        ("the program ended by itself", {"xids": {"43": 1, "45": 2}}),
        ("corrected errors", {"ecc_corrected": 900}),
        ("nothing told", {"remap_failed": None, "remap_pending": None, "ecc_uncorrected": None, "xids": None}),
    ],
)
def test_no_fault_no_advice(row: str, body: dict[str, Any]) -> None:
    assert advised(seen({}, body)) == [], row


def test_an_error_from_before_we_looked_or_an_hour_ago_is_no_news() -> None:
    old = seen({"xids": {"79": 4}}, {"xids": {"79": 4}})
    assert advised(old) == []
    fresh = seen({}, {"xids": {"79": 1}})
    assert [advice.reason_code for advice in advised(fresh, now=T0 + 3500)] == ["gpu_restart_node"]
    assert advised(fresh, now=T0 + 3700) == []


@pytest.mark.parametrize(
    ("row", "reasons", "codes"),
    [
        ("at its power cap, as a busy GPU is", 0x04, []),
        ("idle and application clocks", 0x03, []),
        ("heat, by hardware", 0x48, ["gpu_cool"]),
        ("heat, by the driver", 0x20, ["gpu_cool"]),
        ("the power supply", 0x80, ["gpu_cool"]),
    ],
)
def test_heat_and_power_faults_are_told_and_a_power_cap_is_none(row: str, reasons: int, codes: list[str]) -> None:
    hot = {"clock_reasons": reasons, "temp": 91, "sm_mhz": 1200}
    found = advised(seen(*[hot] * 30))
    assert [advice.reason_code for advice in found] == codes, row
    for advice in found:
        figures = {figure.signal: figure.value for figure in advice.evidence}
        assert figures["gpu_sm_clock_hertz"] == pytest.approx(1.2e9)
        assert figures["gpu_temperature_celsius"] == 91.0
        assert not any("cordon" in step and "un" not in step for step in advice.steps), "nothing is drained for heat"


def test_a_hot_minute_is_no_fault() -> None:
    hot = {"clock_reasons": 0x40}
    assert advised(seen(*[{}] * 24, *[hot] * 6)) == []
    assert advised(seen(*[hot] * 5)) == [], "five readings are too few"


def test_a_lost_gpu_is_told_after_a_while_and_one_that_only_failed_to_answer_is_not() -> None:
    windows = seen({})
    windows.take(Reading("gpu-0", "nvml", T0 + 10, "gpu_lost", "GPU is lost"))
    assert advised(windows, now=T0 + 10) == []
    (advice,) = advised(windows, now=T0 + 40)
    assert advice.reason_code == "gpu_restart_node"
    needs_reset = seen({})
    needs_reset.take(Reading("gpu-0", "nvml", T0 + 10, "reset_required", ""))
    assert [one.reason_code for one in advised(needs_reset, now=T0 + 40)] == ["gpu_reset"]
    silent = seen({})
    silent.take(Reading("gpu-0", "nvml", T0 + 10, "nvml_error", "timeout"))
    assert advised(silent, now=T0 + 40) == []


def test_whose_gpu_it_is_says_whose_capacity_is_away() -> None:
    plan = Plan(targets=FACTS, node="n1")
    (advice,) = advised(seen(POD, POD | {"xids": {"48": 1}}), plan)
    assert (advice.model, advice.role) == ("m", "aggregated")
    assert any("0 replicas instead of 1" in said for said in advice.side_effects)
    assert "another replica" in advice.steps[0], "the last replica is replaced before it is drained"
    (unknown,) = advised(seen({}, {"xids": {"48": 1}}), plan)
    assert (unknown.model, unknown.role) == ("", "")
    assert any("not known" in said for said in unknown.side_effects)


def test_gpus_with_the_same_need_are_one_advice_and_one_more_asks_anew() -> None:
    """The ledger compares the number of GPUs: a second one is more than what was told."""
    windows = seen({}, {"xids": {"48": 1}})
    memory = Memory(windows=windows)
    plan = Plan(node="n1")
    first = tick(plan, memory, T0).snapshot.recommendations
    assert [(one.reason_code, one.proposed) for one in first] == [("gpu_reset", 1.0)]
    seen({}, {"xids": {"95": 1}}, gpu="gpu-1", windows=windows)
    later = tick(plan, memory, T0 + 70).snapshot.recommendations
    assert [(one.proposed, one.verdict) for one in later] == [(1.0, "superseded"), (2.0, None)]
    assert "gpu-0, gpu-1" in later[-1].summary


def test_a_repair_is_told_beside_whatever_else_is_advised() -> None:
    windows = seen({}, {"xids": {"79": 1}}, {"xids": {"79": 1}})
    seen({}, {"remap_failed": 1}, gpu="gpu-1", windows=windows)
    found = list(Review().advise(Scene(Plan(node="n1"), [ENGINE], [], windows, T0)))
    assert [one.reason_code for one in found] == ["gpu_replace", "gpu_restart_node"]


def test_one_mig_instance_more_is_no_other_gpu() -> None:
    windows = seen({}, {"xids": {"48": 1}})
    windows.take(replace(gpu_reading("gpu-0-mig-0", T0, {"used": 1}, is_whole=False)))
    assert len(advised(windows)) == 1


@pytest.mark.parametrize(
    ("codes", "mend"),
    [(["79", "48"], "restart_node"), (["48", "31"], "reset"), (["147"], "look_up"), (["x"], "look_up"), ([], "none")],
)
def test_the_heaviest_code_counts(codes: list[str], mend: str) -> None:
    """79 asks for the node, 48 for a reset; what has a workflow of its own, or is none of ours, is looked up."""
    assert mend_of(codes) == mend
