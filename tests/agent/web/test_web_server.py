"""/metrics, the lifecycle addresses and what every answer carries."""

import fake_view
import pytest
from fake_actions import FakeActions
from serving import Serve


async def test_metrics_are_prometheus_text_unless_openmetrics_is_asked_for(serve: Serve) -> None:
    client = await serve(fake_view.calm())
    plain = await client.get("/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert "slo_agent_ticks_total 7.0" in await plain.text()
    asked = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert asked.headers["Content-Type"].startswith("application/openmetrics-text")
    assert (await asked.text()).endswith("# EOF\n")


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/slos"])
async def test_answers_are_compressed_for_whoever_takes_gzip(serve: Serve, path: str) -> None:
    client = await serve(fake_view.burning())
    asked = await client.get(path, headers={"Accept-Encoding": "gzip"})
    assert asked.headers["Content-Encoding"] == "gzip"
    refused = await client.get(path, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in refused.headers


async def test_healthy_at_once_and_ready_after_the_first_tick(serve: Serve) -> None:
    view = fake_view.starting()
    client = await serve(view)
    assert (await client.get("/-/healthy")).status == 200
    early = await client.get("/-/ready")
    assert early.status == 503
    assert "nothing has been evaluated yet" in await early.text()
    view.snapshot_now = fake_view.calm().snapshot_now
    assert (await client.get("/-/ready")).status == 200


async def test_reload_is_an_order_and_so_a_post(serve: Serve) -> None:
    actions = FakeActions()
    client = await serve(fake_view.calm(), actions)
    refused = await client.get("/-/reload")
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    assert (await refused.json())["fix"] == "Use POST."
    assert (await client.post("/-/reload")).status == 200
    assert actions.reloads == 1


async def test_reload_lists_every_error_and_says_that_the_old_config_stays(serve: Serve) -> None:
    client = await serve(fake_view.calm(), FakeActions(errors=["a.yaml: one", "a.yaml: two"]))
    response = await client.post("/-/reload")
    assert response.status == 422
    body = await response.json()
    assert body["errors"] == ["a.yaml: one", "a.yaml: two"]
    assert "the old one stays" in body["error"]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_another_web_site_cannot_give_orders(serve: Serve, headers: dict[str, str]) -> None:
    actions = FakeActions()
    client = await serve(fake_view.calm(), actions)
    assert (await client.post("/-/reload", headers=headers)).status == 403
    assert (await client.get("/probe?target=vllm-0", headers=headers)).status == 403
    assert (actions.reloads, actions.probed) == (0, [])


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/v1/status", "/metrics", "/no-such", "/-/healthy"])
async def test_every_answer_carries_the_security_headers(serve: Serve, path: str) -> None:
    client = await serve(fake_view.calm())
    headers = (await client.get(path)).headers
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_static_files_stay_in_their_folder(serve: Serve) -> None:
    client = await serve(fake_view.calm())
    assert (await client.get("/static/%2e%2e/server.py")).status in (403, 404)
    assert (await client.get("/static/")).status in (403, 404)
