"""The running agent on real sockets: bad targets harm nobody, nothing overlaps, nothing is left behind."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from loopback import (
    METRICS,
    agent,
    answers,
    child_pids,
    config,
    never,
    open_sockets,
    outcomes,
    points,
    server,
    target,
    until,
)

from agent.model import Effects
from agent.runtime import Listeners
from probes.clock import ScaledClock
from probes.nvml import GpuReader
from probes.recording import RecordingWriter, read_entries
from probes.sample import ProbeResult

TOKEN = "sk-made-up-secret-9"
QUICK_CANARY = {"kind": "chat", "interval_seconds": 0.2, "total_timeout_seconds": 3, "first_token_timeout_seconds": 2}


async def test_bad_targets_have_their_outcomes_and_the_good_one_is_on_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six bad ones beside a good one: while the hanging one is waited for, the good one is read many times."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("A_TOKEN", TOKEN)

    async def echoes_secrets(request: web.Request) -> web.Response:
        return web.Response(text=f"<html>{request.headers['Authorization']}</html>", content_type="text/html")

    async with (
        server(answers(METRICS)) as good,
        server(never) as hangs,
        server(echoes_secrets) as html,
        server(answers("no", 401)) as locked,
        server(answers("no", 500)) as broken,
        server(answers("go_goroutines 7\n")) as other,
    ):
        auth = {"bearer_token_env": "A_TOKEN"}
        urls = {"good": good, "hangs": hangs, "html": html, "locked": locked, "broken": broken, "other": other}
        targets = [target(name, served.url, auth=auth) for name, served in urls.items()]
        targets.append(target("refused", "http://127.0.0.1:9", auth=auth))
        scrape = {"interval_seconds": 0.1, "timeout_seconds": 2}
        async with agent(config(targets=targets, scrape=scrape)).running() as running:
            await until(lambda: len(good.asked) >= 8, "the good target was read 8 times")
            assert len(hangs.asked) <= 4
            await until(lambda: len(outcomes(running)) == 7, "every target had a look")
            assert outcomes(running) == {
                "good": "ok",
                "hangs": "timeout",
                "html": "html",
                "locked": "status_401",
                "broken": "status_500",
                "other": "not_vllm",
                "refused": "connect_refused",
            }
            looks = points(running, "slo_agent_scrapes_total")
            assert looks["good", "ok"] >= 8
            assert {labels for labels in looks if labels[1] != "ok"} == {
                pair for pair in outcomes(running).items() if pair[1] != "ok"
            }
            details = [log.last_attempt.detail for log in running.view.memory.windows.targets.values()]
    assert TOKEN in good.asked[0].headers["Authorization"]
    assert TOKEN not in caplog.text + "".join(details)
    assert "Traceback" not in caplog.text


async def test_looks_at_one_target_never_overlap_and_skipped_ones_are_told() -> None:
    async with server(never) as slow:
        scrape = {"interval_seconds": 0.1, "timeout_seconds": 0.5}
        async with agent(config(targets=[target("slow", slow.url)], scrape=scrape)).running() as running:
            await until(lambda: len(slow.asked) >= 3, "the slow target was asked three times")
            assert points(running, "slo_agent_missed_jobs_total")["scrape/slow",] >= 4
    assert slow.most_in_flight == 1


async def test_leaving_stops_every_task_socket_and_process() -> None:
    """In the middle of everything: a page that hangs, a canary that hangs."""
    tasks, children, sockets = asyncio.all_tasks(), child_pids(), open_sockets()
    async with server(never) as hangs:
        of = config(
            targets=[target("a", hangs.url), target("b", "http://127.0.0.1:9")],
            canaries=[QUICK_CANARY],
            scrape={"interval_seconds": 0.1, "timeout_seconds": 30},
        )
        async with agent(of).running():
            await until(lambda: len(hangs.asked) >= 2, "a look and a canary were under way")
            assert child_pids() - children
    await until(lambda: asyncio.all_tasks() == tasks, "no task was left")
    assert child_pids() == children
    await until(lambda: open_sockets() == sockets, "no socket was left")


async def test_stopping_in_the_middle_logs_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with server(never) as hangs:
        scrape = {"interval_seconds": 0.1, "timeout_seconds": 30}
        async with agent(config(targets=[target("a", hangs.url)], scrape=scrape)).running():
            await until(lambda: len(hangs.asked) == 1, "a look was under way")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_canary_that_cannot_be_sent_is_a_result_with_its_planned_time() -> None:
    """Every 0.2 s on a server that keeps each for up to 2 s: the runs in between are `missed`, on their own grid."""
    async with server(never) as hangs:
        of = config(targets=[target("a", hangs.url, model="m")], canaries=[QUICK_CANARY])
        async with agent(of).running() as running:

            def missed() -> list[ProbeResult]:
                return [r for r in running.view.canaries.recent() if r.outcome == "missed"]

            await until(lambda: len(missed()) >= 4, "four canaries were missed")
            planned = sorted(result.planned_at_seconds for result in missed())
    gaps = [after - before for before, after in pairwise(planned)]
    assert all(gap == pytest.approx(round(gap / 0.2) * 0.2, abs=0.05) for gap in gaps)
    assert all(gap > 0.1 for gap in gaps)


async def test_two_canaries_of_one_kind_are_both_sent() -> None:
    prompts: set[str] = set()

    async def listens(request: web.Request) -> web.Response:
        if request.method == "POST":
            prompts.add((await request.json())["messages"][-1]["content"])
        return web.Response(status=503)

    async with server(listens) as served:
        canaries = [{**QUICK_CANARY, "prompt": prompt} for prompt in ("one", "two")]
        of = config(targets=[target("a", served.url, model="m")], canaries=canaries)
        async with agent(of).running():
            await until(lambda: any("one" in p for p in prompts) and any("two" in p for p in prompts), "both were sent")


async def test_a_stall_of_the_whole_agent_leaves_missed_canaries_not_silence() -> None:
    """The loop stands still for a second: the canaries planned in it are told, each with its time."""
    async with server(answers("no", 503)) as served:
        of = config(targets=[target("a", served.url, model="m")], canaries=[QUICK_CANARY])
        async with agent(of).running() as running:
            await until(lambda: bool(running.view.canaries.recent()), "the first canary was sent")
            before = time.time()
            time.sleep(1.1)  # noqa: ASYNC251  that is the fault
            await until(
                lambda: sum(before < r.planned_at_seconds < before + 1.1 for r in running.view.canaries.recent()) >= 4,
                "four of the five runs in the stall were told",
            )


async def test_intervals_and_timeouts_are_seconds_of_the_clock() -> None:
    """At 50 times the speed, a look every 5 s with 5 s of patience is ten looks a second."""
    clock = ScaledClock(50, time.time())
    async with server(answers(METRICS)) as good:
        scrape = {"interval_seconds": 5, "timeout_seconds": 5}
        of = config(tick_seconds=5, targets=[target("a", good.url)], scrape=scrape)
        async with agent(of, clock).running() as running:
            began = clock.now_seconds()
            await until(lambda: len(good.asked) >= 10, "ten looks")
            passed = clock.now_seconds() - began
            assert passed >= 40
            increments = next(iter(running.view.memory.windows.increments.values()))
            spans = [i.to_seconds - i.from_seconds for i in increments if i.to_seconds > i.from_seconds]
            assert sum(spans) == pytest.approx(5 * len(spans), rel=0.5)


async def test_a_token_file_is_read_at_every_use(tmp_path: Path) -> None:
    """Kubernetes replaces a projected token every hour; the old one then stops working."""
    file = tmp_path / "token"
    file.write_text("first")
    async with server(answers(METRICS)) as served:
        targets = [target("a", served.url, auth={"bearer_token_file": str(file)})]
        async with agent(config(targets=targets)).running():
            await until(lambda: len(served.asked) >= 1, "a first look")
            file.write_text("second")
            await until(lambda: served.asked[-1].headers["Authorization"] == "Bearer second", "the new token was sent")
    assert served.asked[0].headers["Authorization"] == "Bearer first"


async def test_a_listener_that_fails_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Effects] = []

    def fails(_effects: Effects) -> None:
        raise RuntimeError("disk on fire")

    async with agent(config(), listeners=Listeners((fails, heard.append))).running():
        await until(lambda: len(heard) >= 3, "the second listener heard three ticks")
    assert "disk on fire" in caplog.text


async def test_a_recording_tells_of_a_target_once_and_before_its_readings(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl.gz"
    async with server(answers(METRICS)) as served:
        auth = {"headers_env": {"X-Key": "HOME"}}
        of = config(
            targets=[target("a", served.url, auth=auth)], scrape={"interval_seconds": 0.1, "timeout_seconds": 2}
        )
        recorder = RecordingWriter(out)
        async with agent(of, listeners=Listeners(recorder=recorder)).running():
            await until(lambda: len(served.asked) >= 4, "the target was read four times")
        recorder.close()
    entries = list(read_entries(out))
    assert [entry.source for entry in entries[:3]] == ["target", "vllm", "vllm"]
    assert [entry.source for entry in entries].count("target") == 1
    assert "X-Key" not in entries[0].body


async def test_a_recording_on_a_full_disk_ends_and_the_agent_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with server(answers(METRICS)) as served:
        recorder = RecordingWriter(Path("/dev/full"))
        watching = agent(config(targets=[target("a", served.url)]), listeners=Listeners(recorder=recorder))
        async with watching.running() as running:
            await until(lambda: len(served.asked) >= 4, "four looks")
            assert outcomes(running) == {"a": "ok"}
        assert running.tape.trouble == "No space left on device"
    assert caplog.text.count("recording stopped") == 1
    recorder.abandon()


async def discovering(tmp_path: Path, groups: object) -> tuple[Path, dict[str, object]]:
    path = tmp_path / "targets.json"
    path.write_text(json.dumps(groups))
    return path, {"kind": "file", "path": str(path), "refresh_seconds": 0.05}


async def test_discovered_labels_become_fields_and_changes_are_picked_up(tmp_path: Path) -> None:
    async with server(answers(METRICS)) as first, server(answers(METRICS)) as second:
        labels = {
            "name": "a",
            "role": "decode",
            "service": "chat",
            "model": "m",
            "__metrics_path__": "/m",
            "rack": "r1",
        }
        path, source = await discovering(tmp_path, [{"targets": [f"127.0.0.1:{first.port}"], "labels": labels}])
        async with agent(config(discovery=[source])).running() as running:
            await until(lambda: len(first.asked) >= 1, "the first address was read")
            facts = running.view.plan.targets["a"]
            assert (facts.role, facts.service, facts.model) == ("decode", "chat", "m")
            assert dict(facts.labels)["rack"] == "r1"
            assert first.asked[0].path == "/m"
            path.write_text(
                json.dumps([{"targets": [f"127.0.0.1:{second.port}"], "labels": labels | {"x": "changed"}}])
            )
            await until(lambda: len(second.asked) >= 1, "the new address of the same name was read")
            asked = len(first.asked)
            await until(lambda: len(second.asked) >= 4, "the new address was read again")
            assert len(first.asked) <= asked + 1
            path.write_text("[]")
            await until(lambda: not running.view.plan.targets, "the target was gone")
            assert outcomes(running) == {}


async def test_an_address_that_names_targets_is_asked_before_the_first_evaluation() -> None:
    """http_sd: the target is in the plan from the start, and what the address says later counts too."""
    found: list[dict[str, object]] = []

    async def names_targets(_request: web.Request) -> web.Response:
        return web.json_response(found)

    async with server(answers(METRICS)) as first, TestServer(_app(names_targets)) as inventory:
        found.append({"targets": [f"127.0.0.1:{first.port}"], "labels": {"name": "a", "llm-d.ai/role": "decode"}})
        source = {"kind": "http", "url": str(inventory.make_url("/sd")), "refresh_seconds": 0.1}
        async with agent(config(discovery=[source])).running() as running:
            assert running.view.plan.targets["a"].role == "decode"
            await until(lambda: len(first.asked) >= 1, "it was read")
            found.clear()
            await until(lambda: not running.view.plan.targets, "the target was gone")


def _app(answer: Callable[[web.Request], Awaitable[web.Response]]) -> web.Application:
    app = web.Application()
    app.router.add_get("/sd", answer)
    return app


BAD_FOUND = [
    {"targets": ["user:secret@host:1", "bad host/path:99999999", "-" * 99, ""], "labels": {}},
    {"targets": ["127.0.0.1:8"], "labels": {"__scheme__": "gopher"}},
    {"targets": ["127.0.0.1:8"], "labels": {"__metrics_path__": "metrics"}},
    {"targets": ["127.0.0.1:8"], "labels": {"name": "a name/with spaces"}},
]


@pytest.mark.parametrize("is_bad_from_the_start", [True, False])
async def test_a_bad_address_in_the_file_is_left_out_and_told(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    is_bad_from_the_start: bool,  # noqa: FBT001  a row's two cases
) -> None:
    async with server(answers(METRICS)) as good:
        usable = {"targets": [f"127.0.0.1:{good.port}"], "labels": {"name": "good"}}
        path, source = await discovering(tmp_path, [*BAD_FOUND, usable] if is_bad_from_the_start else [])
        async with agent(config(discovery=[source])).running() as running:
            path.write_text(json.dumps([*BAD_FOUND, usable, usable]))
            await until(lambda: len(good.asked) >= 2, "the good one was read")
            await until(lambda: '"good" is taken' in caplog.text, "the second of one name was told")
            assert list(running.view.plan.targets) == ["good"]
    told = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert len(told) == len(set(told)) == 8, "each told once, not at every look"
    assert "secret" not in caplog.text


async def test_a_file_that_changes_all_the_time_does_not_starve_the_others(tmp_path: Path) -> None:
    """Each change schedules anew what changed, and only that."""
    async with server(answers(METRICS)) as good:
        path, source = await discovering(tmp_path, [])
        scrape = {"interval_seconds": 1.0, "timeout_seconds": 0.5}
        of = config(targets=[target("steady-1", good.url), target("b", good.url)], discovery=[source], scrape=scrape)
        async with agent(of).running():
            until_all = asyncio.create_task(until(lambda: len(good.asked) >= 6, "three looks at both"))
            number = 0
            while not until_all.done():
                number += 1
                path.write_text(json.dumps([{"targets": [f"127.0.0.1:{1 + number % 60_000}"]}]))
                await asyncio.sleep(0.05)
            await until_all


CONFIG_FILE = """
tick_seconds: 0.1
gpu: {{enabled: "no"}}
scrape: {{interval_seconds: 0.2, timeout_seconds: 0.1}}
targets:
  - {{name: a, url: "{url}"}}
slos:
  - {{name: {slo}, sli: ttft, objective_ratio: 0.99, threshold_seconds: 2.5}}
{more}
"""


async def test_a_reload_keeps_windows_and_alerts_and_refuses_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    async with server(answers(METRICS)) as served:
        path.write_text(CONFIG_FILE.format(url=served.url, slo="one", more=""))
        from agent.config_file import load_config  # noqa: PLC0415  beside its use

        async with agent(load_config(path), path=path).running() as running:
            await until(lambda: len(served.asked) >= 2, "two looks")
            memory, windows = running.view.memory, running.view.memory.windows.targets["a"]
            path.write_text(CONFIG_FILE.format(url=served.url, slo="two", more="colour: red"))
            mistakes = await running.reload()
            assert len(mistakes) == 1
            assert "colour" in mistakes[0]
            assert [slo.name for slo in running.view.plan.slos] == ["one"]
            path.write_text(CONFIG_FILE.format(url=served.url, slo="two", more=""))
            assert await running.reload() == []
            assert [slo.name for slo in running.view.plan.slos] == ["two"]
            assert running.view.memory is memory
            assert memory.windows.targets["a"] is windows
            asked = len(served.asked)
            await until(lambda: len(served.asked) >= asked + 2, "it looks on")


async def test_a_reload_says_what_needs_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG_FILE.format(url="http://127.0.0.1:9", slo="one", more="server: {listen: '127.0.0.1:1234'}"))
    of = config(targets=[target("a", "http://127.0.0.1:9")])
    async with agent(of, path=path).running() as running:
        assert await running.reload() == []
    assert "until a restart: server" in caplog.text


async def test_a_reload_without_a_file_says_so() -> None:
    async with agent(config()).running() as running:
        assert len(await running.reload()) == 1


class TwoGpus:
    """NVML with two GPUs that give their temperature and no more; what it is asked can fail, or never return."""

    class NVMLError(Exception):
        value = 3  # not supported

    class LostError(NVMLError):
        value = 15

    NVML_TEMPERATURE_GPU = NVML_CLOCK_SM = 0

    def __init__(self) -> None:
        self.lost: set[int] = set()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802  the library's name
        self.goes_on.wait()
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802  the library's name
        if index in self.lost:
            raise self.LostError
        return index

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802  the library's name
        return 61

    def __getattr__(self, name: str) -> object:
        def not_supported(*arguments: object) -> None:
            raise self.NVMLError

        return not_supported


async def test_gpus_are_read_and_a_hanging_driver_holds_nobody_up() -> None:
    """Ticks go on while NVML does not return, and leaving the agent does not wait for it."""
    library = TwoGpus()
    watching = agent(config(gpu={"enabled": "no", "interval_seconds": 0.1}))
    watching._gpus = GpuReader(library)
    async with watching.running() as running:
        await until(lambda: outcomes(running) == {"gpu-0": "ok", "gpu-1": "ok"}, "both GPUs were read")
        library.lost.add(1)
        await until(lambda: outcomes(running) == {"gpu-0": "ok", "gpu-1": "gpu_lost"}, "one GPU was lost")
        library.goes_on.clear()
        await until(lambda: points(running, "slo_agent_missed_jobs_total")["gpu",] >= 2, "its runs were skipped")
        ticked = running.view.snapshot().at_seconds
        await until(lambda: running.view.snapshot().at_seconds > ticked + 0.2, "ticks went on")
        leaving = time.monotonic()
    assert time.monotonic() - leaving < 10
    library.goes_on.set()
