"""What stands beside the engines goes away: each by its own name."""

from dataclasses import replace

import pytest
from fake_engine import no_page

from agent.model import Alert
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from probes.sample import Reading, Sample

T0 = 1_800_000_000.0
PLAN = Plan(targets={"it": TargetFacts("", "aggregated", None)})


def away(source: str) -> Alert:
    """The alert about a target of this kind that does not answer."""
    memory = Memory()
    for at in range(0, 60, 10):
        memory.windows.take(replace(no_page(T0 + at, target="it"), source=source))
    (alert,) = tick(PLAN, memory, T0 + 50).snapshot.alerts
    return alert


@pytest.mark.parametrize(
    ("source", "name", "severity"),
    [
        ("dynamo_worker", "EngineUnreachable", "page"),
        ("dynamo_frontend", "RouterUnreachable", "page"),
        ("vllm_router", "RouterUnreachable", "page"),
        ("llm_d_epp", "RouterUnreachable", "page"),
        ("mooncake", "CacheTierDown", "ticket"),
        ("dcgm", "GPUFault", "ticket"),
    ],
)
def test_a_neighbour_that_is_away_has_its_own_alert(source: str, name: str, severity: str) -> None:
    labels = dict(away(source).labels)
    assert (labels["alertname"], labels["severity"], labels["target"]) == (name, severity, "it")


@pytest.mark.parametrize(("url", "targets"), [("", ["http://vllm-1:8000"]), ("http://vllm-1:8000", [])])
def test_a_worker_that_its_router_takes_to_be_ill_is_named_unless_it_is_a_target(url: str, targets: list[str]) -> None:
    """One that we watch ourselves has its own alert."""
    memory = Memory()
    health = [
        Sample("router_worker_health_state", "gauge", "0", "", up, f"http://vllm-{n}:8000")
        for n, up in ((0, 1), (1, 0))
    ]
    memory.windows.take(Reading("it", "vllm_router", T0, samples=tuple(health)))
    plan = Plan(targets={**PLAN.targets, "other": TargetFacts("", "aggregated", None, url=url)})
    alerts = tick(plan, memory, T0).snapshot.alerts
    assert [dict(alert.labels)["target"] for alert in alerts] == targets
    assert all(alert.name == "EngineUnreachable" for alert in alerts)


def store(at: float, clients: float, capacity: float) -> Reading:
    samples = (
        Sample("store_clients", "gauge", "0", "", clients),
        Sample("store_capacity_bytes", "gauge", "0", "", capacity),
    )
    return Reading("it", "mooncake", at, samples=samples)


def test_a_client_that_died_is_seen_by_the_room_it_takes_with_it() -> None:
    """The store's page answers, and no counter of failures moves."""
    memory = Memory()
    for number, (clients, capacity) in enumerate([(2, 128.0), (2, 128.0), (1, 64.0)]):
        memory.windows.take(store(T0 + 10 * number, clients, capacity))
    (alert,) = tick(PLAN, memory, T0 + 20).snapshot.alerts
    assert (alert.name, dict(alert.labels)["severity"]) == ("CacheTierDown", "ticket")
    assert alert.annotations["description"].startswith(
        "1 of 2 clients are gone, and room for 64 of 128 bytes with them"
    )


def test_clients_that_come_are_no_loss_and_a_loss_is_news_for_a_while() -> None:
    memory = Memory()
    memory.windows.take(store(T0, 1, 64.0))
    memory.windows.take(store(T0 + 10, 2, 128.0))
    assert tick(PLAN, memory, T0 + 10).snapshot.alerts == ()
    memory.windows.take(store(T0 + 20, 1, 64.0))
    memory.windows.take(store(T0 + 930, 1, 64.0))
    assert tick(PLAN, memory, T0 + 930).snapshot.alerts == ()
