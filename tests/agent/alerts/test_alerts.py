"""Alerts as `tick()` raises them: labels as promised, words that hold the counts, silence that resolves nothing."""

from dataclasses import replace

import pytest
from fake_engine import FakeEngine, no_page

from agent.model import Alert, BurnPair, Counts, Effects, Events, SliName, Slo
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from probes.sample import ProbeResult, Reading, Sample

T0, HOUR = 1_800_000_000.0, 3_600.0
FAST = BurnPair("page", "fast", 300.0, HOUR, 14.4)
ALLOWED = {"alertname", "severity", "tier", "slo", "service", "model", "role", "node", "target"}
WORDS = {"summary", "description", "cause", "recommendation", "budget", "runbook_url", "dashboard_url", "page_url"}


def promise(sli: SliName = "ttft", **more: object) -> Slo:
    given: dict[str, object] = {"threshold_seconds": 2.5, "pairs": (FAST,), **more}
    return Slo(f"chat-{sli}", "chat", sli, given.pop("source", "engine"), 0.99, 30 * 86_400.0, **given)  # type: ignore[arg-type]


def plan_of(*slos: Slo, **more: object) -> Plan:
    return Plan(slos, {"vllm-0": TargetFacts("m", "aggregated", None)}, **more)  # type: ignore[arg-type]


def watched_for_an_hour(memory: Memory, plan: Plan) -> None:
    """As if the agent had seen an idle hour before."""
    for slo in plan.slos:
        memory.windows.events[slo.name].begin(T0 - HOUR)


def overloaded(plan: Plan, memory: Memory, steps: int = 30) -> Effects:
    """Ten minutes in which half of all requests are slow and a queue stands."""
    engine = FakeEngine(running=8)
    watched_for_an_hour(memory, plan)
    effects = tick(plan, memory, T0)
    for step in range(steps):
        memory.windows.take(engine.reading(T0 + 10 * step))
        engine.finish(20, ttft=0.3)
        engine.finish(20, ttft=7.0)
        engine.waiting += 5
        effects = tick(plan, memory, T0 + 10 * step)
    return effects


def labels_of(alert: Alert) -> dict[str, str]:
    assert set(dict(alert.labels)) <= ALLOWED
    assert set(alert.annotations) <= WORDS
    return dict(alert.labels)


def test_labels_of_a_burn_alert_are_exactly_the_promised_ones() -> None:
    (alert,) = overloaded(plan_of(promise(model="m", role="aggregated"), node="n1"), Memory()).snapshot.alerts
    assert labels_of(alert) == {
        "alertname": "SLOBurnRate", "severity": "page", "tier": "fast", "slo": "chat-ttft", "service": "chat",
        "model": "m", "role": "aggregated", "node": "n1",
    }  # fmt: skip


def test_what_does_not_apply_is_no_label() -> None:
    (alert,) = overloaded(plan_of(promise()), Memory()).snapshot.alerts
    assert set(labels_of(alert)) == {"alertname", "severity", "tier", "slo", "service"}


def test_annotations_hold_the_counts_and_the_arithmetic() -> None:
    """29 steps of 20 good and 20 bad, and 100 that wait since a reading ago for certain: 680 of 1260, 54 times 1 %."""
    plan = plan_of(promise(runbook_url="http://run/book"), page_url="http://agent", dashboard_url="http://grafana")
    words = overloaded(plan, Memory()).snapshot.alerts[0].annotations
    assert set(words) == WORDS
    assert "680 of 1260 requests in the last 1h were bad: 54.0 times the 1.00%" in words["description"]
    assert "Alerts above 14.4 times. Good means: TTFT at most 2.5 s." in words["description"]
    assert "requests queue: 145 waiting now" in words["cause"]
    assert "of the error budget is left" in words["budget"]
    assert (words["runbook_url"], words["page_url"], words["dashboard_url"]) == (
        "http://run/book", "http://agent", "http://grafana",
    )  # fmt: skip


def test_values_never_stand_in_labels() -> None:
    """Whatever the counts become, the identity stays."""
    memory, plan = Memory(), plan_of(promise())
    first = {alert.labels for alert in overloaded(plan, memory, 15).snapshot.alerts}
    assert first == {alert.labels for alert in overloaded(plan, Memory(), 40).snapshot.alerts}


def test_an_alert_that_outlives_its_cause_says_so_and_keeps_the_cause() -> None:
    """Five minutes of a queue, then seven good ones: the fast pair is over, the slow one remembers."""
    slow = BurnPair("page", "slow", 1_800.0, HOUR, 6.0)
    memory, plan = Memory(), plan_of(promise(pairs=(FAST, slow)))
    began = overloaded(plan, memory).snapshot.alerts
    assert ["It is recovering" in alert.annotations["description"] for alert in began] == [False, False]
    engine = FakeEngine(running=8, started_at_seconds=T0 + 300)
    for step in range(31, 73):
        memory.windows.take(engine.reading(T0 + 10 * step))
        engine.finish(40, ttft=0.3)
        effects = tick(plan, memory, T0 + 10 * step)
    (alert,) = effects.snapshot.alerts
    assert dict(alert.labels)["tier"] == "slow"
    assert "the last 5m keep the objective, and the alert ends when the last 30m do" in alert.annotations["description"]
    assert alert.annotations["cause"].startswith("requests queue")
    assert alert.annotations["cause"].count("seen earlier") == 1


def test_a_firing_alert_survives_silence() -> None:
    """The engine goes: no events, no proof that the trouble is over. Its own alert comes, and the SLO's stays."""
    memory, plan = Memory(), plan_of(promise())
    overloaded(plan, memory)
    for step in range(30, 400):
        memory.windows.take(no_page(T0 + 10 * step))
        effects = tick(plan, memory, T0 + 10 * step)
    assert {alert.name for alert in effects.snapshot.alerts} == {"SLOBurnRate", "EngineUnreachable"}
    assert effects.snapshot.slos[0].burns[0].reason == "no_events"
    assert effects.snapshot.slos[0].state == "no_data"


def test_an_alert_of_an_slo_that_is_gone_is_resolved() -> None:
    memory = Memory()
    overloaded(plan_of(promise()), memory)
    (over,) = tick(plan_of(), memory, T0 + 300).changed_alerts
    assert (over.name, over.is_firing) == ("SLOBurnRate", False)


def test_a_stuck_engine_stays_stuck_while_its_page_is_away() -> None:
    """unknown=>stuck=>(stale: held)=>down: the page fails 25 to 30 s, and nothing says that the engine moves."""
    memory, plan, engine = Memory(), plan_of(), FakeEngine(running=4)
    names = []
    for step in range(12):
        at = T0 + 10 * step
        memory.windows.take(engine.reading(at) if step < 6 else no_page(at))
        names += [[a.name for a in tick(plan, memory, at + part).snapshot.alerts] for part in (4, 9)]
    seen = list(dict.fromkeys(map(tuple, names)))
    assert seen == [(), ("EngineStuck",), ("EngineUnreachable",)]


@pytest.mark.parametrize(
    ("outcomes", "names"),
    [
        (["server_error"] * 2, []),
        (["server_error"] * 3, ["CanaryDown"]),
        (["server_error", "ok", "server_error", "server_error"], []),
        (["server_error", "server_error", "missed", "server_error"], ["CanaryDown"]),
        (["auth"] * 5, []),
        (["internal_error"] * 5, []),
        (["ok", "model_not_found", "model_not_found", "model_not_found"], ["CanaryDown"]),
        (["model_not_found"] * 5, []),
    ],
)
def test_canary_down_takes_three_failures_that_are_not_ours(outcomes: list[str], names: list[str]) -> None:
    memory, plan = Memory(), plan_of()
    memory.windows.take(FakeEngine().reading(T0))
    for number, outcome in enumerate(outcomes):
        memory.windows.take_probe(ProbeResult("vllm-0", "chat", outcome, T0 + number, T0 + number + 0.5))
    alerts = tick(plan, memory, T0 + 20).snapshot.alerts
    assert [alert.name for alert in alerts] == names
    for alert in alerts:
        assert labels_of(alert) == {
            "alertname": "CanaryDown", "severity": "page", "target": "vllm-0", "model": "m", "role": "aggregated",
        }  # fmt: skip


def test_a_cache_server_that_is_away_is_a_ticket() -> None:
    """Its model is the one that the config names: LMCache's pages name the folder that the model lies in."""
    for model, labels in (("", {}), ("llama", {"model": "llama"})):
        memory = Memory()
        plan = Plan(targets={"cache": TargetFacts(model, "aggregated", None)})
        looked_up = Sample("cache_lookup_tokens_total", "counter", "", "/models/llama-8b", 5.0)
        memory.windows.take(Reading("cache", "lmcache", T0 - 10, samples=(looked_up,)))
        for at in range(0, 60, 10):
            memory.windows.take(replace(no_page(T0 + at, target="cache"), source="lmcache"))
        (alert,) = tick(plan, memory, T0 + 50).snapshot.alerts
        assert labels_of(alert) == {"alertname": "CacheTierDown", "severity": "ticket", "target": "cache", **labels}


def test_a_stuck_engine_names_the_cache_server_that_is_down() -> None:
    """Both alerts stand; the page for the engine says where to begin."""
    facts = TargetFacts("", "aggregated", None)
    memory, plan, engine = Memory(), Plan(targets={"vllm-0": facts, "cache": facts}), FakeEngine(waiting=2)
    asked = Sample("external_cache_queried_tokens_total", "counter", "0", "m", 5000.0)
    for at in range(0, 60, 10):
        page = engine.reading(T0 + at)
        memory.windows.take(replace(page, samples=(*page.samples, asked)))
        memory.windows.take(replace(no_page(T0 + at, target="cache"), source="lmcache"))
    alerts = {alert.name: alert for alert in tick(plan, memory, T0 + 50).snapshot.alerts}
    assert alerts.keys() == {"CacheTierDown", "EngineStuck"}
    assert alerts["EngineStuck"].annotations["cause"].startswith("the cache server cache is down")
    assert "restart the cache server cache" in alerts["EngineStuck"].annotations["recommendation"]


def test_canaries_that_an_engine_asleep_does_not_answer_tell_that_it_sleeps() -> None:
    memory = Memory()
    page = FakeEngine().reading(T0)
    asleep = Sample("engine_sleep_state", "gauge", "0", "m", 1.0, "discard_all")
    memory.windows.take(replace(page, samples=(*page.samples, asleep)))
    for at in range(3):
        memory.windows.take_probe(canary(T0 + at, "first_token_timeout"))
    (alert,) = tick(plan_of(), memory, T0 + 5).snapshot.alerts
    assert alert.name == "CanaryDown"
    assert "its metrics page answers and says that engine 0 sleeps (discard_all)" in alert.annotations["cause"]


def test_an_agent_that_does_not_look_says_so() -> None:
    memory, plan = Memory(), plan_of(node="n1")
    memory.windows.take(FakeEngine().reading(T0))
    assert tick(plan, memory, T0 + 90).snapshot.alerts == ()
    (alert,) = tick(plan, memory, T0 + 91).snapshot.alerts
    assert labels_of(alert) == {"alertname": "AgentBlind", "severity": "page", "node": "n1"}


def canary(at: float, outcome: str, kind: str = "chat") -> ProbeResult:
    return ProbeResult("vllm-0", kind, outcome, at, at)


def test_canaries_that_are_not_sent_any_more_say_nothing() -> None:
    """Three strikes, then the kill switch: the last words of canaries are over after some minutes."""
    memory, plan = Memory(), plan_of()
    engine = FakeEngine(running=1)
    for at in (0, 30, 60):
        memory.windows.take_probe(canary(T0 + at, "server_error"))
    found = {}
    for step in range(60):
        memory.windows.take(engine.reading(T0 + 60 + 10 * step))
        engine.finish(5)
        memory.windows.take_probe(canary(T0 + 61 + 10 * step, "skipped_paused"))
        names = [alert.name for alert in tick(plan, memory, T0 + 60 + 10 * step).snapshot.alerts]
        found[10 * step] = "CanaryDown" in names
    assert (found[0], found[290], found[310], found[590]) == (True, True, False, False)


def test_an_answered_kind_of_canary_hides_no_other_and_is_no_strike_of_it() -> None:
    """Chat is answered, completion is not: one steady alert that names completion, whatever their order."""
    memory, plan = Memory(), plan_of()
    firing = set()
    for step in range(40):
        memory.windows.take(FakeEngine(running=1).reading(T0 + 10 * step))
        memory.windows.take_probe(canary(T0 + 10 * step, "server_error", "completion"))
        if step % 6 == 0:
            memory.windows.take_probe(canary(T0 + 10 * step + 1, "ok"))
        alerts = [a for a in tick(plan, memory, T0 + 10 * step + 2).snapshot.alerts if a.name == "CanaryDown"]
        if step >= 3:
            firing.add(tuple("completion" in alert.annotations["description"] for alert in alerts))
    assert firing == {(True,)}


def test_a_gpu_that_was_lost_is_a_fault_until_it_gives_figures_again() -> None:
    memory, plan = Memory(), plan_of(node="n1")
    good = Reading("gpu-0", "nvml", T0, samples=(Sample("gpu_power_watts", "gauge", "", "", 500.0),))
    memory.windows.take(good)
    memory.windows.take(Reading("gpu-0", "nvml", T0 + 10, outcome="gpu_lost", detail="GPU is lost"))
    assert tick(plan, memory, T0 + 29).snapshot.alerts == ()
    (alert,) = tick(plan, memory, T0 + 30).snapshot.alerts
    assert labels_of(alert) == {"alertname": "GPUFault", "severity": "ticket", "target": "gpu-0", "node": "n1"}
    assert "gpu_lost: GPU is lost" in alert.annotations["description"]
    memory.windows.take(replace(good, at_seconds=T0 + 40))
    assert tick(plan, memory, T0 + 40).snapshot.alerts == ()


def gpu_page(at: float, *, xids: dict[str, float] | None = None, **states: float) -> Reading:
    """One reading of a GPU. Without XID errors the counter stands at 0 without a code."""
    errors = xids or {"": 0.0}
    samples = [Sample("gpu_xid_errors_total", "counter", "", "", count, code) for code, count in errors.items()]
    samples += [Sample(f"gpu_row_remap_{name}_state", "gauge", "", "", value) for name, value in states.items()]
    return Reading("gpu-0", "nvml", T0 + at, samples=tuple(samples))


def test_an_xid_error_is_an_event_and_not_a_state() -> None:
    """Told for an hour after it happened, though its counter stays where it is; the same code again is told anew."""
    memory, plan, told = Memory(), plan_of(node="n1"), {}
    pages = {0: None, 10: None, 20: {"79": 1.0}, 30: {"79": 1.0}, 3610: {"79": 1.0}, 3620: {"79": 1.0}}
    for at, xids in {**pages, 3630: {"79": 2.0}}.items():
        memory.windows.take(gpu_page(at, xids=xids))
        alerts = tick(plan, memory, T0 + at).snapshot.alerts
        told[at] = [alert.annotations["cause"] for alert in alerts if alert.name == "GPUFault"]
    assert told[10] == []
    assert told[20] == ["the driver told of XID 79, last 0 s ago"]
    assert told[3610] == ["the driver told of XID 79, last 3590 s ago"]
    assert told[3620] == []
    assert told[3630] == ["the driver told of XID 79, last 0 s ago"]


def test_an_xid_error_from_before_we_looked_is_no_news() -> None:
    memory = Memory()
    memory.windows.take(gpu_page(0, xids={"79": 4.0}))
    memory.windows.take(gpu_page(10, xids={"79": 4.0}))
    assert tick(plan_of(), memory, T0 + 10).snapshot.alerts == ()


@pytest.mark.parametrize(
    ("page", "summary", "mend"),
    [
        (gpu_page(10, failed=1.0), "gpu-0 has bad memory", "out of service"),
        (gpu_page(10, pending=1.0), "gpu-0 waits for a reset", "drain the node and reset the GPU"),
        (gpu_page(10, xids={"31": 2.0}), "gpu-0 had an error", "the engine's log"),
        (gpu_page(10, xids={"31": 1.0, "48": 1.0}), "gpu-0 had an error", "drain the node"),
        (gpu_page(10, xids={"63": 1.0}, failed=1.0, pending=1.0), "gpu-0 has bad memory", "out of service"),
    ],
    ids=["rows failed", "rows pending", "the program's fault", "the GPU's fault", "all at once"],
)
def test_what_is_wrong_with_a_gpu_is_one_ticket_with_what_to_do(page: Reading, summary: str, mend: str) -> None:
    memory = Memory()
    memory.windows.take(gpu_page(0, failed=0.0, pending=0.0))
    assert tick(plan_of(), memory, T0).snapshot.alerts == ()
    memory.windows.take(page)
    (alert,) = tick(plan_of(), memory, T0 + 10).snapshot.alerts
    assert labels_of(alert) == {"alertname": "GPUFault", "severity": "ticket", "target": "gpu-0"}
    assert alert.annotations["summary"] == summary
    assert mend in alert.annotations["recommendation"]


def test_a_gpu_that_does_not_tell_of_its_rows_has_no_fault() -> None:
    memory = Memory()
    memory.windows.take(gpu_page(0))
    assert tick(plan_of(), memory, T0).snapshot.alerts == ()


def test_a_spent_budget_is_told_when_the_budget_of_the_whole_period_is_spent() -> None:
    """Objective 99 %, 10 % bad: a tenth of the 30 days spends it all. Before that, the rest may still be good."""
    slo = promise("tpot", pairs=())
    for days, names in ((2, []), (4, ["SLOBudgetExhausted"])):
        memory = Memory()
        memory.windows.events[slo.name].add(Events(T0 - days * 86_400, T0, Counts(900, 100)))
        assert [alert.name for alert in tick(plan_of(slo), memory, T0).snapshot.alerts] == names


@pytest.mark.parametrize(
    ("slo", "state"),
    [(promise("ttft"), "no_traffic"), (promise("queue"), "no_data"), (promise(source="canary"), "no_data")],
    ids=["an idle page", "a page without the histogram", "no canaries"],
)
def test_no_traffic_and_no_data_are_told_apart(slo: Slo, state: str) -> None:
    """An idle engine has no traffic; what no page tells, and what no canary tried, is not known."""
    memory, engine = Memory(), FakeEngine()
    for at in (0, 10):
        reading = engine.reading(T0 + at)
        kept = tuple(h for h in reading.histograms if h.signal != "queue_seconds")
        memory.windows.take(replace(reading, histograms=kept))
    assert tick(plan_of(slo), memory, T0 + 10).snapshot.slos[0].state == state


def test_no_data_has_a_reason() -> None:
    """rolling_out=>idle=>down, and blind where the page has not what is counted."""
    memory, plan, engine = Memory(), plan_of(promise(), promise("queue")), FakeEngine()

    def reasons(at: float) -> list[str | None]:
        return [s.silence.reason if s.silence else None for s in tick(plan, memory, at).snapshot.slos]

    assert reasons(T0) == ["rolling_out", "rolling_out"]
    for at in (0, 700):
        reading = engine.reading(T0 + at)
        kept = tuple(h for h in reading.histograms if h.signal != "queue_seconds")
        memory.windows.take(replace(reading, histograms=kept))
    assert reasons(T0 + 700) == ["idle", "blind"]
    for at in range(710, 760, 10):
        memory.windows.take(no_page(T0 + at))
    assert reasons(T0 + 760) == ["down", "down"]


def test_an_alert_is_held_without_data_for_a_day_after_the_last_event() -> None:
    """The windows' old events leave one by one; no page tells that it got better. In the end nobody cares."""
    memory, plan = Memory(), plan_of(promise())
    overloaded(plan, memory)
    for at in (*range(300, 4_000, 60), 86_000, 87_000):
        memory.windows.take(no_page(T0 + at))
        effects = tick(plan, memory, T0 + at)
        names = {alert.name for alert in effects.snapshot.alerts}
        assert ("SLOBurnRate" in names) == (at <= 86_400 + 290), at
