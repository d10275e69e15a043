"""What leaves the simulator besides pages: spans, NVML, LMCache, recordings, reports."""

import gzip
import json
import os
import statistics
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent.simulator.ask import Ask, Sequence
from agent.simulator.client_report import percentile, share_over
from agent.simulator.command import main
from agent.simulator.engine import EngineConfig
from agent.simulator.lmcache_page import lmcache_page
from agent.simulator.nvml import GpuReadings
from agent.simulator.plant import Plant
from agent.simulator.spans import export_body
from agent.simulator.tier import CacheTier
from agent.simulator.topology import Topology

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared"))


def captured(*parts: str) -> bytes:
    path = SHARED.joinpath("data", *parts)
    if not path.exists():
        pytest.skip(f"needs {path} (set SLO_AGENT_SHARED)")
    return path.read_bytes()


def spans_of(body: bytes) -> list[object]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def finished() -> Sequence:
    ended: list[Sequence] = []
    fleet = Topology().fleet(Plant(), None, 1000.0, on_end=ended.append)
    fleet.submit(Ask("cmpl-a", 500, 20, max_tokens=20), 1000.0)
    fleet.settle(1010.0)
    return ended[0]


def test_spans_carry_what_a_captured_export_carries() -> None:
    """Same name, kind, scope and attribute keys as vLLM 0.32's own export; the phases add up."""
    theirs = spans_of(captured("spans", "004.pb"))[0]
    ours = spans_of(export_body([finished()]))[0]
    assert {each.key for each in ours.attributes} == {each.key for each in theirs.attributes}  # type: ignore[attr-defined]
    assert (ours.name, ours.kind) == (theirs.name, theirs.kind)  # type: ignore[attr-defined]
    seconds = {each.key: each.value.double_value for each in ours.attributes}  # type: ignore[attr-defined]
    parts = seconds["gen_ai.latency.time_in_model_prefill"] + seconds["gen_ai.latency.time_in_model_decode"]
    assert parts == pytest.approx(seconds["gen_ai.latency.time_in_model_inference"])


def test_aborted_requests_have_no_span() -> None:
    """metrics.md 2: client-disconnect aborts are not emitted."""
    assert spans_of(export_body([Sequence(Ask("a", 1, 1), 0.0, state="aborted")])) == []


def test_lmcache_page_has_the_families_of_a_real_one() -> None:
    def families(page: str) -> list[str]:
        return [line for line in page.splitlines() if line.startswith("# TYPE lmcache_")]

    real = captured("pages", "lmcache", "lmcache_mp_with_vllm.prom").decode()
    assert families(lmcache_page(CacheTier(1e9), "llama8b")) == families(real)


def test_gpu_readings_follow_the_engine() -> None:
    """Idle: 0 % and 124.5 W. One stream all the time: 100 % and 463 W. Energy is power times time."""
    fleet = Topology().fleet(Plant(EngineConfig(front_end_seconds=0.0)), None, 0.0)
    gpu = GpuReadings(fleet.replicas[0].engine, 0.0)
    fleet.settle(10.0)
    idle = gpu.read(10.0)
    assert (idle["gpu"], idle["power_mw"]) == (0, 124_500)
    assert idle["energy_mj"] == pytest.approx(10 * 124_500)
    fleet.submit(Ask("a", 100, 4000), 10.0)
    fleet.settle(20.0)
    busy = gpu.read(20.0)
    assert busy["gpu"] == 100
    assert busy["power_mw"] == pytest.approx(463_600, rel=0.03)


def test_percentile_is_numpys_linear_one() -> None:
    """Of 0..10, the 95th percentile is 9.5; of one value it is that value; of none it is unknown."""
    assert percentile([float(value) for value in range(11)], 95) == pytest.approx(9.5)
    assert percentile([3.0], 99) == 3.0
    assert percentile([], 50) is None
    assert share_over([1.0, 2.0, 3.0, 4.0], 2.0) == 0.5


def run_command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["simulate", *words])
    return main()


WORDS = ("--concurrency", "4", "--input-tokens", "1000", "--output-tokens", "50", "--requests", "12", "--seed", "7")


def test_command_prints_the_keys_of_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, *WORDS, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["completed"] == 12
    assert report["total_output_tokens"] == 600
    for key in ("mean_ttft_ms", "p99_itl_ms", "mean_tpot_ms", "p99_e2el_ms", "output_throughput", "request_throughput"):
        assert report[key] > 0
    theirs = json.loads(captured("h200", "closed_loop_sweep.client.json"))["c32"]
    assert set(theirs) <= set(report)


def test_same_seed_same_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Report and recording, byte for byte; another seed differs."""
    outputs = []
    words = (
        "--rate",
        "5",
        "--input-tokens",
        "800",
        "--output-tokens",
        "40",
        "--requests",
        "30",
        "--range-ratio",
        "0.5",
    )
    for index, seed in enumerate(("7", "7", "8")):
        path = tmp_path / f"{index}.jsonl.gz"
        run_command(monkeypatch, *words, "--seed", seed, "--json", "--out", str(path))
        outputs.append((capsys.readouterr().out, path.read_bytes()))
    assert outputs[0] == outputs[1]
    assert outputs[0][0] != outputs[2][0]
    assert outputs[0][1] != outputs[2][1]


def test_recording_has_the_documented_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """interfaces.md: gzip'd JSON lines ordered by `at`, one page and one NVML reading a replica and second."""
    path = tmp_path / "rec.jsonl.gz"
    run_command(monkeypatch, *WORDS, "--replicas", "2", "--json", "--out", str(path))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert all(set(line) == {"at", "target", "source", "body"} for line in lines)
    stamps = [line["at"] for line in lines]
    assert stamps == sorted(stamps)
    assert {(line["target"], line["source"]) for line in lines} == {
        ("sim-0", "vllm"), ("gpu-0", "nvml"), ("sim-1", "vllm"), ("gpu-1", "nvml"),
    }  # fmt: skip
    nvml = json.loads(next(line["body"] for line in lines if line["source"] == "nvml"))
    assert set(nvml) == {"gpu", "mem", "power_mw", "energy_mj", "sm_mhz", "temp", "used"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "one of --concurrency, --rate, --scenario, --serve is needed"),
        (("--rate", "1", "--concurrency", "2", "--input-tokens", "1", "--output-tokens", "1"), "exclude each other"),
        ((*WORDS, "--topology", "pd:0:1"), "Write pd:P:D"),
        ((*WORDS, "--range-ratio", "1.5"), "expected 0 <= x < 1"),
        (("--scenario", "steady", "--rate", "3"), "--scenario brings its own load"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert run_command(monkeypatch, *words) == 2
    assert told in capsys.readouterr().err


def test_stamped_gaps_keep_their_mean() -> None:
    """Stamp delays cancel: a late stamp makes one gap longer and the next one shorter."""
    from agent.simulator.seeds import stream  # noqa: PLC0415
    from agent.simulator.telemetry import GapLog  # noqa: PLC0415

    log = GapLog()
    log.lines.append((0.005, 0.0, 1000, 5))
    gaps = log.as_stamped(stream(1, "stamps"))
    assert len(gaps) == 5000
    assert statistics.fmean(gaps) == pytest.approx(0.005, abs=1e-5)
    assert (percentile(gaps, 99) or 0) - 0.005 == pytest.approx(0.14e-3 * 3.912, rel=0.1)


def test_a_story_takes_engine_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A smaller token budget cuts prompts into more steps, which shows in the tail of TTFT."""
    tails = []
    for budget in ("8192", "256"):
        words = ("--scenario", "steady", "--duration", "60", "--max-num-batched-tokens", budget, "--json")
        assert run_command(monkeypatch, *words) == 0
        tails.append(json.loads(capsys.readouterr().out)["p99_ttft_ms"])
    assert tails[1] > 1.3 * tails[0]
