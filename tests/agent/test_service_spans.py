"""Request spans through the whole agent: from an OTLP export to the API, /metrics and a clear word for a taken port."""

import asyncio
import socket
import sys
import threading
import time
from pathlib import Path

import aiohttp
import pytest
from loopback import METRICS, answers, child_pids, config, server, target, until
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agent.errors import UsageError
from agent.service import Extras, serving
from probes.clock import SystemClock
from probes.recording import EntryReader, RecordingWriter, read_entries
from probes.spans.result import SpanResult

sys.path.append(str(Path(__file__).parents[1] / "probes" / "spans"))
from span_bodies import export, span

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(taken.getsockname()[1]) for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


def just_ended() -> Span:
    ended = span()
    ended.end_time_unix_nano = time.time_ns()
    ended.start_time_unix_nano = ended.end_time_unix_nano - 2_500_000_000
    return ended


async def test_a_span_becomes_exact_figures_on_the_api_and_the_metrics_page() -> None:
    page, otlp = free_ports(2)
    async with server(answers(METRICS)) as engine:
        of = config(
            targets=[target("a", engine.url)],
            spans={"http": f"127.0.0.1:{otlp}"},
            server={"listen": f"127.0.0.1:{page}"},
        )
        async with serving(of, SystemClock(), Extras()) as agent, aiohttp.ClientSession() as session:
            body = export([just_ended()])
            async with session.post(f"http://127.0.0.1:{otlp}/v1/traces", data=body, headers=PROTOBUF) as answer:
                assert answer.status == 200
            await until(lambda: agent.view.signals(60).total.span_requests == 1.0, "the span arrived")
            seen = agent.view.signals(60).targets["a"]
            assert seen.span_ttft_seconds is not None
            assert seen.span_goodput_ratio is not None
            async with session.get(f"http://127.0.0.1:{page}/metrics") as answer:
                text = await answer.text()
            assert 'slo_agent_ttft_seconds_count{model="",source="span",target="a"} 1.0' in text
            assert "slo_agent_span_goodput_ratio" in text


async def test_a_recording_holds_the_spans_and_the_receiver_tells_what_it_did(tmp_path: Path) -> None:
    page, otlp = free_ports(2)
    recorder = RecordingWriter(tmp_path / "r.jsonl.gz")
    async with server(answers(METRICS)) as engine:
        of = config(
            targets=[target("a", engine.url)],
            spans={"http": f"127.0.0.1:{otlp}"},
            server={"listen": f"127.0.0.1:{page}"},
        )
        async with serving(of, SystemClock(), Extras(recorder=recorder)) as agent, aiohttp.ClientSession() as session:
            for body, status in ((export([just_ended()]), 200), (b"no protobuf", 400)):
                url = f"http://127.0.0.1:{otlp}/v1/traces"
                async with session.post(url, data=body, headers=PROTOBUF) as answer:
                    assert answer.status == status
            await until(lambda: agent.view.signals(60).total.span_requests == 1.0, "the span arrived")
            async with session.get(f"http://127.0.0.1:{page}/metrics") as answer:
                text = await answer.text()
            assert 'slo_agent_spans_total{result="request"} 1.0' in text
            assert 'slo_agent_span_exports_total{protocol="http"} 1.0' in text
            assert 'slo_agent_span_exports_refused_total{reason="malformed"} 1.0' in text
    recorder.close()
    (entry,) = (entry for entry in read_entries(tmp_path / "r.jsonl.gz") if entry.source == "span")
    read = EntryReader().read(entry)
    assert isinstance(read, SpanResult)
    assert (read.target, read.ttft_seconds, read.client_request_id) == ("a", 0.5, "user-7")


async def test_a_taken_span_port_is_told_and_leaves_nothing_running() -> None:
    tasks, threads, children = asyncio.all_tasks(), set(threading.enumerate()), set(child_pids())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        of = config(
            server={"listen": f"127.0.0.1:{free_ports(1)[0]}"},
            spans={"http": f"127.0.0.1:{taken.getsockname()[1]}"},
            outputs={"otlp": {"endpoint": "http://127.0.0.1:9/v1/metrics"}},
        )
        with pytest.raises(UsageError, match=r"Set spans\.grpc and spans\.http"):
            async with serving(of, SystemClock(), Extras()):
                pytest.fail("it started")
    assert asyncio.all_tasks() == tasks
    assert set(threading.enumerate()) <= threads
    assert set(child_pids()) <= children
