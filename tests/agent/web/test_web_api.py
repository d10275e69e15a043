"""/api/v1: the names that scripts rely on, unknown as null, and refusals that say what to write instead."""

from dataclasses import replace

import fake_view
import pytest
from fake_view import FakeView
from fake_world import NOW_SECONDS
from serving import Serve

from agent.gpu_pods import GpuPods, PodOnGpu
from agent.web.paths import PATHS
from probes.canary.outcomes import OUTCOMES

FIGURE = {"value", "low", "high", "count", "ci_low", "ci_high"}


async def get(serve: Serve, view: FakeView, path: str) -> dict:
    client = await serve(view)
    response = await client.get(path)
    assert response.status == 200
    assert response.content_type == "application/json"
    return await response.json()


async def test_status_says_in_words_how_things_stand(serve: Serve) -> None:
    status = await get(serve, fake_view.burning(), "/api/v1/status")
    assert status["verdict"]["level"] == "bad"
    assert status["verdict"]["text"] == "1 SLO is burning its budget: chat-ttft, 15x; paged 2 min ago"
    assert status["now"] - status["at"] == 2.0
    assert (status["version"], status["ready"], status["note"]) == ("0.1.0", True, None)
    assert status["alerts_firing"] == 2  # the watchdog always fires and is not counted


async def test_status_carries_the_note_of_a_demo(serve: Serve) -> None:
    client = await serve(fake_view.calm(), note="Demo: time runs 20x")
    assert (await (await client.get("/api/v1/status")).json())["note"] == "Demo: time runs 20x"


@pytest.mark.parametrize("part", ["targets", "slos", "alerts", "recommendations", "capacity", "probes"])
async def test_before_the_first_tick_every_list_is_empty_and_at_is_null(serve: Serve, part: str) -> None:
    answer = await get(serve, fake_view.starting(), f"/api/v1/{part}")
    assert {key: answer[key] for key in ("at", part)} == {"at": None, part: []}


async def test_an_slo_shows_its_state_budget_and_the_counts_behind_each_burn(serve: Serve) -> None:
    first = (await get(serve, fake_view.burning(), "/api/v1/slos"))["slos"][0]
    assert first["name"] == "chat-ttft"
    assert first["state"] == "burning"
    assert first["budget"]["remaining_ratio"] == 0.413
    assert first["burns"][0]["factor"] == 14.4
    assert first["burns"][0]["long_counts"] == {"good": 17_914, "bad": 3_150, "undecided": 61, "total": 21_125}


async def test_a_recommendation_has_the_promised_keys(serve: Serve) -> None:
    first = (await get(serve, fake_view.burning(), "/api/v1/recommendations"))["recommendations"][0]
    promised = (
        "id at target action current proposed low high reason_code binding summary confidence meets_slo evidence "
        "alternatives do_nothing side_effects steps rollback verify_at verdict"
    )
    assert list(first) == promised.split()
    assert first["target"] == {"model": "meta-llama/Llama-3.3-70B-Instruct", "role": "aggregated"}


async def test_a_probe_has_the_promised_keys(serve: Serve) -> None:
    newest = (await get(serve, fake_view.burning(), "/api/v1/probes"))["probes"][0]
    promised = (
        "outcome ttft_seconds first_text_seconds tpot_seconds itl_seconds e2e_seconds output_tokens prompt_tokens "
        "cached_tokens timing_error_seconds phases detail"
    )
    assert set(promised.split()) <= set(newest)
    assert set(newest["itl_seconds"]) == {"p50", "p99", "max"}


async def test_signals_have_bounds_and_unknown_is_null(serve: Serve) -> None:
    seen = await get(serve, fake_view.burning(), "/api/v1/signals?window_seconds=3600")
    assert seen["window_seconds"] == 3600
    busy, idle = (seen["targets"][name]["signals"] for name in ("vllm-0", "vllm-1"))
    assert set(busy["ttft_seconds"]) == {"p50", "p90", "p95", "p99", "mean", "count"}
    assert set(busy["ttft_seconds"]["p95"]) == FIGURE
    assert busy["ttft_seconds"]["p99"]["high"] is None  # beyond the last bucket: known to be long, not how long
    assert idle["ttft_seconds"] is None
    assert idle["request_rate_per_second"] == 0.0  # measured, not unknown
    assert seen["total"]["signals"]["goodput_ratio"]["low"] == 0.178


async def test_signals_default_to_five_minutes(serve: Serve) -> None:
    assert (await get(serve, fake_view.burning(), "/api/v1/signals"))["window_seconds"] == 300


@pytest.mark.parametrize("asked", ["61", "1h", "", "-60", "1e2", "nan"])
async def test_another_window_is_refused_with_what_where_and_fix(serve: Serve, asked: str) -> None:
    client = await serve(fake_view.burning())
    response = await client.get(f"/api/v1/signals?window_seconds={asked}")
    assert response.status == 400
    assert await response.json() == {
        "error": f'/api/v1/signals: window_seconds is "{asked}". Write one of 60, 300, 3600.',
        "what": f'window_seconds is "{asked}"',
        "where": "/api/v1/signals",
        "fix": "Write one of 60, 300, 3600.",
    }


async def test_history_is_columns_of_one_length_and_starts_at_once(serve: Serve) -> None:
    past = await get(serve, fake_view.burning(), "/api/v1/history")
    assert past["at"] == [fake_view.NOW_SECONDS]
    assert past["ttft_p99_seconds"] == [None]  # the p99 is beyond the last bucket,
    assert past["ttft_p99_low_seconds"] == [80.0]  # so it is known to be long, not how long
    assert past["ttft_p99_high_seconds"] == [None]
    assert past["request_rate_per_second"] == [17.38]
    assert past["requests_waiting"] == [127]


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/"])
async def test_the_root_lists_every_path_there_is(serve: Serve, path: str) -> None:
    client = await serve(fake_view.calm())
    answer = await client.get(path)
    assert answer.status == 200
    served = {
        route.resource.canonical
        for route in client.app.router.routes()
        if route.resource is not None and not route.resource.canonical.startswith("/static")
    }
    assert {one["path"] for one in (await answer.json())["paths"]} == served - {"/api/v1/"}


async def test_not_found_names_every_path(serve: Serve) -> None:
    client = await serve(fake_view.calm())
    said = (await (await client.get("/api/v1/slo")).json())["fix"]
    for path in PATHS:
        assert path in said


async def test_outcomes_have_words(serve: Serve) -> None:
    words = (await get(serve, fake_view.calm(), "/api/v1/outcomes"))["outcomes"]
    assert words["connect_refused"] == "nothing listens there"
    assert words["timeout"] == "no answer in time"
    assert set(OUTCOMES) <= set(words)


async def test_the_canary_log_says_from_when_on_it_is_complete(serve: Serve) -> None:
    """Of good results the latest 60 are kept: what failed before the oldest of them stands there alone."""
    view = fake_view.calm()
    one = next(probe for probe in fake_view.burning().probe_results if not probe.is_ok)
    good = view.probe_results[0]
    view.probe_results = [replace(good, at_seconds=NOW_SECONDS - number) for number in range(60)]
    view.probe_results.append(replace(one, at_seconds=NOW_SECONDS - 4000))
    assert (await get(serve, view, "/api/v1/probes"))["complete_from"] == NOW_SECONDS - 59
    view.probe_results = view.probe_results[1:]  # 59: none was dropped yet
    assert (await get(serve, view, "/api/v1/probes"))["complete_from"] is None


async def test_an_unknown_address_is_a_json_error(serve: Serve) -> None:
    client = await serve(fake_view.calm())
    response = await client.get("/api/v2/slos")
    assert response.status == 404
    assert (await response.json())["where"] == "/api/v2/slos"


async def test_a_bug_is_a_json_error_that_keeps_its_text_to_the_log(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    view = fake_view.calm()
    view.snapshot_now = None
    client = await serve(view)
    response = await client.get("/api/v1/slos")
    assert response.status == 500
    assert (await response.json())["what"] == "the agent failed to answer"
    assert "request failed path=/api/v1/slos" in caplog.text


async def test_gpus_show_whose_processes_hold_their_memory(serve: Serve) -> None:
    view = fake_view.calm()
    view.gpus = (GpuPods("gpu-0", 10.0, 1000.0, 3, 1, (PodOnGpu("uid-a", "decode-0", "serving", "vllm-0", 2, None),)),)
    pod = {
        "uid": "uid-a", "pod": "decode-0", "namespace": "serving", "target": "vllm-0", "processes": 2,
        "memory_bytes": None,
    }  # fmt: skip
    assert (await get(serve, view, "/api/v1/gpus"))["gpus"] == [
        {
            "gpu": "gpu-0", "at_seconds": 10.0, "memory_used_bytes": 1000.0, "processes": 3, "processes_without_pod": 1,
            "pods": [pod],
        }
    ]  # fmt: skip
