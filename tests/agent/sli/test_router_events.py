"""What a router's page adds to an SLO, and to the signals: the captured pages, read one after the other."""

import os
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from agent.model import BurnPair, Counts, SliName, Slo
from agent.plan import Plan
from agent.signals.outcomes import outcomes_of
from agent.signals.read import Question, read_signals
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from agent.windows import Windows
from probes.books import System
from probes.page import SystemPage
from probes.sample import Reading, Sample

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared")) / "data" / "pages"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "pages"
FAST = BurnPair("page", "fast", 300.0, 3_600.0, 14.4)
T0 = 1_800_000_000.0
PLAN_TARGETS = {"front": TargetFacts("", "aggregated", None)}


def page(name: str) -> str:
    file = SHARED / name if "/" in name else FIXTURES / f"{name}.prom"
    if not file.exists():
        pytest.skip(f"{file} is not there: set SLO_AGENT_SHARED to the folder that holds data/")
    return file.read_text(encoding="utf-8")


def watched(system: System, *pages: str) -> Windows:
    """Windows that have taken these pages of one router, 10 s apart."""
    windows, reader = Windows(), SystemPage(system)
    for number, text in enumerate(pages):
        windows.take(reader.read(text, "front", T0 + 10 * number))
    return windows


def promise(sli: SliName = "availability", **more: object) -> Slo:
    return Slo(f"front-{sli}", "chat", sli, "router", 0.99, 2_592_000.0, (FAST,), **more)  # type: ignore[arg-type]


def counted(slo: Slo, windows: Windows) -> Counts:
    memory = Memory(windows)
    tick(Plan((slo,), PLAN_TARGETS), memory, T0 + 20)
    return windows.events[slo.name].total()


DYNAMO_IDLE = "dynamo/dynamo_frontend_idle.prom"
DYNAMO_KILLED = "dynamo/dynamo_agg_workerkilled_3s_frontend.prom"


def test_what_the_engine_never_saw_is_bad_at_the_router_and_who_hung_up_is_neither() -> None:
    """A Dynamo front end after a worker was killed: 69 answered, 6 failed (5 of them streams cut off behind an HTTP
    200), 9 hung up.
    """
    windows = watched("dynamo_frontend", page(DYNAMO_IDLE), page(DYNAMO_KILLED))
    assert counted(promise(), windows) == Counts(good=69, bad=6)


def test_the_first_requests_of_all_count() -> None:
    """Neither counter nor histogram stands on the idle page: they come up with their first event, and count from it."""
    windows = watched("dynamo_frontend", page(DYNAMO_IDLE), page("dynamo/dynamo_frontend.prom"))
    work = read_signals(windows, T0, T0 + 10, ["front"], Question()).router
    assert work is not None
    assert (work.answered, work.failed, work.cancelled, work.refused) == (61, 0, 0, 3)
    assert (work.prompt_tokens, work.output_tokens) == (30_929, 3_848)
    assert work.ttft_seconds is not None
    assert work.ttft_seconds.count == 61


def test_on_a_page_that_was_never_seen_before_nothing_is_new() -> None:
    windows = watched("dynamo_frontend", page(DYNAMO_KILLED))
    assert counted(promise(), windows) == Counts()


def test_latencies_at_the_router_are_counted_there() -> None:
    """Of 91 first tokens, those up to 0.1 s are good; the edge is the router's own."""
    slo = promise("ttft", threshold_seconds=0.1)
    windows = watched("dynamo_frontend", page(DYNAMO_IDLE), page(DYNAMO_KILLED))
    counts = counted(slo, windows)
    assert counts.total == 91
    assert counts.undecided == 0
    line = next(
        line
        for line in page(DYNAMO_KILLED).splitlines()
        if line.startswith("dynamo_frontend_time_to_first_token_seconds_bucket") and 'le="0.1"' in line
    )
    assert counts.good == float(line.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("name", "answered", "failed"),
    [
        ("vllm_router/vllm_router.prom", 59, {"every attempt failed": 1}),
        ("vllm_router/vllm_router_pd.prom", 46, {"decode": 14}),
    ],
)
def test_each_mode_of_the_router_has_its_own_arithmetic(name: str, answered: float, failed: dict[str, float]) -> None:
    """60 requests each: alone, failures are left out of the count; through prefill and decode they are in it."""
    windows = watched("vllm_router", page("vllm_router/vllm_router_idle.prom"), page(name))
    work = read_signals(windows, T0, T0 + 10, ["front"], Question()).router
    assert work is not None
    assert (work.answered, work.failed_by_reason) == (answered, failed)


def test_failures_behind_retries_are_told_though_no_client_saw_them() -> None:
    windows = watched("vllm_router", page("vllm_router/vllm_router_idle.prom"), page("vllm_router/vllm_router.prom"))
    work = read_signals(windows, T0, T0 + 10, ["front"], Question()).router
    assert work is not None
    assert (work.worker_failures, work.retries, work.failed) == (17, 16, 1)


def test_the_endpoint_pickers_two_sets_of_names_are_one() -> None:
    """50 scheduled, of which 2 endpoints failed; 3 requests were bad ones and never scheduled."""
    idle = 'llm_d_epp_ready_endpoints{name="p"} 3\n'
    windows = watched("llm_d_epp", idle, page("llm_d_epp_both_names"))
    assert counted(promise(), windows) == Counts(good=48, bad=2)


def test_production_stacks_router_counts_what_comes_in() -> None:
    counters = {("router_received_requests_total", "m"): 120.0, ("router_failed_requests_total", "timeout"): 7.0}
    outcomes = outcomes_of("production_stack_router", counters)
    assert (outcomes.answered, outcomes.failures) == (113, 7)


RECEIVED, ROUTER_FAILED = "router_received_requests_total", "router_failed_requests_total"
SCHEDULED = "router_scheduled_requests_total"


@pytest.mark.parametrize(
    ("system", "went_out", "why"),
    [
        ("production_stack_router", RECEIVED, "timeout"),
        ("llm_d_epp", SCHEDULED, "ModelServerError"),
        ("vllm_router", "router_pd_requests_total", "decode"),
    ],
)
def test_a_request_that_fails_after_its_page_is_counted_once(system: System, went_out: str, why: str) -> None:
    """Ten came in and were counted; three of them fail a page later, when nothing comes in, and are bad. They were
    taken to be good before, so of the next ten three are left out: 20 requests are 20 events.
    """
    failed = "router_pd_decode_failed_requests_total" if system == "vllm_router" else ROUTER_FAILED
    windows = Windows()
    for number, (came, broke) in enumerate([(0, 0), (10, 0), (10, 3), (20, 3)]):
        samples = (Sample(went_out, "counter", "", "", came, "m"), Sample(failed, "counter", "", "", broke, why))
        windows.take(Reading("front", system, T0 + 10 * number, samples=samples))
    assert counted(promise(), windows) == Counts(good=17, bad=3)


def test_an_engines_requests_are_not_the_routers_and_the_other_way_round() -> None:
    """One service, a router and an engine: each SLO counts one of them."""
    windows = watched("dynamo_frontend", page(DYNAMO_IDLE), page(DYNAMO_KILLED))
    engine = FakeEngine()
    windows.take(engine.reading(T0))
    engine.finish(69)
    windows.take(engine.reading(T0 + 10))
    at_engine = Slo("at-engine", "chat", "availability", "engine", 0.99, 2_592_000.0, (FAST,), 300.0)
    plan = Plan((promise(), at_engine), PLAN_TARGETS | {"vllm-0": TargetFacts("m", "aggregated", None)})
    tick(plan, Memory(windows), T0 + 20)
    assert windows.events["front-availability"].total() == Counts(good=69, bad=6)
    assert windows.events["at-engine"].total() == Counts(good=69)


def test_an_idle_router_is_no_traffic_and_a_dead_one_no_data() -> None:
    plan = Plan((promise(),), PLAN_TARGETS)
    memory = Memory(watched("dynamo_frontend", page(DYNAMO_IDLE), page(DYNAMO_IDLE)))
    (status,) = tick(plan, memory, T0 + 15).snapshot.slos
    assert status.state == "no_traffic"
    (status,) = tick(plan, memory, T0 + 600).snapshot.slos
    assert status.state == "no_data"


def test_the_page_names_what_the_router_said() -> None:
    """6 of 84 ended requests failed: enough to page, and the cause is in the router's own words."""
    memory = Memory(watched("dynamo_frontend", page(DYNAMO_IDLE), page(DYNAMO_KILLED)))
    memory.windows.events["front-availability"].begin(T0 - 3_600)
    plan = Plan(
        (Slo("front-availability", "chat", "availability", "router", 0.999, 2_592_000.0, (FAST,)),), PLAN_TARGETS
    )
    (alert,) = tick(plan, memory, T0 + 20).snapshot.alerts
    assert alert.name == "SLOBurnRate"
    assert "6 requests failed at the router in 5 min: 6 unavailable" in alert.annotations["cause"]
