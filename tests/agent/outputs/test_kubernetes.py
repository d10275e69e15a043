"""Recommendations as Kubernetes Events and annotations, against a stand-in for the API."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import aiohttp
import pytest
from filled_view import ADVICE

from agent.config_outputs import KubernetesOutput as Config
from agent.config_outputs import Workload
from agent.model import Action, Effects, Recommendation, Snapshot
from agent.outputs.kubernetes import ANNOTATION, KubernetesOutput, event_of
from probes.clock import SystemClock

sys.path.insert(0, str(Path(__file__).parents[2] / "probes"))
from fake_kubernetes import FakeKubernetes, kubernetes

EMPTY = Snapshot(0.0, (), (), (), ())
WORKLOAD = Workload(name="vllm-chat", role=ADVICE.role)


async def told(
    api: FakeKubernetes, tmp_path: Path, *advice: Recommendation, outcomes: int = 1, annotate: bool = False
) -> list[str]:
    """What the output says of its attempts, after so many."""
    (tmp_path / "token").write_text(api.token)
    config = Config(
        workloads=[WORKLOAD], namespace="serving", annotate=annotate, api_url=api.url, token_file=tmp_path / "token"
    )
    said: list[str] = []
    enough = asyncio.Event()

    def delivered(_: str, outcome: str) -> None:
        said.append(outcome)
        if len(said) == outcomes:
            enough.set()

    async with aiohttp.ClientSession() as session:
        output = KubernetesOutput(config, session, SystemClock(), delivered)
        output.update(Effects((), advice, EMPTY))
        running = asyncio.create_task(output.run())
        async with asyncio.timeout(20):
            await enough.wait()
        running.cancel()
    return said


async def test_advice_is_an_event_on_its_workload(tmp_path: Path) -> None:
    async with kubernetes() as api:
        assert await told(api, tmp_path, ADVICE) == ["ok"]
    ((method, path, event),) = api.written
    assert (method, path) == ("POST", "/api/v1/namespaces/serving/events")
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "vllm-chat",
        "namespace": "serving",
    }
    assert (event["reason"], event["message"]) == ("Recommendation", ADVICE.summary)


async def test_the_annotation_holds_the_recommendation_only_if_asked_for(tmp_path: Path) -> None:
    async with kubernetes() as api:
        assert await told(api, tmp_path, ADVICE, annotate=True) == ["ok"]
    method, path, patch = api.written[1]
    assert (method, path) == ("PATCH", "/apis/apps/v1/namespaces/serving/deployments/vllm-chat")
    assert list(patch) == ["metadata"]  # nothing of the workload's spec is touched
    assert json.loads(patch["metadata"]["annotations"][ANNOTATION])["id"] == ADVICE.id


@pytest.mark.parametrize("action", get_args(Action))
def test_an_event_has_a_name_that_the_api_takes_and_no_other_has(action: Action) -> None:
    """RFC 1123: small letters, digits, - and . alone; two pieces of advice of one moment are two Events."""
    advice = replace(ADVICE, action=action)
    others = replace(advice, reason_code="another_reason"), replace(advice, verdict="not_applied")
    names = [event_of(one, WORKLOAD, "serving")["metadata"]["name"] for one in (advice, *others)]  # type: ignore[index]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name) for name in names)


async def test_a_verdict_is_an_event_of_its_own_and_other_parts_are_left_out(tmp_path: Path) -> None:
    judged = replace(ADVICE, verdict="not_applied", verdict_at_seconds=ADVICE.at_seconds + 600)
    other = replace(ADVICE, role="decode" if ADVICE.role != "decode" else "prefill")
    async with kubernetes() as api:
        assert await told(api, tmp_path, other, ADVICE, judged, outcomes=2) == ["ok", "ok"]
    names = [event["metadata"]["name"] for _, _, event in api.written]
    assert len(set(names)) == 2
    assert names[1].endswith(".not-applied")


async def test_a_forbidden_event_is_told_and_not_tried_again(tmp_path: Path) -> None:
    async with kubernetes() as api:
        api.status = 403
        assert await told(api, tmp_path, ADVICE, replace(ADVICE, id="r-2"), outcomes=2) == ["refused", "refused"]
    assert len(api.written) == 2
