"""`slo-agent report` on a prefill and a decode instance of real H200s, joined by NIXL."""

import json
from typing import Any

import pytest
from h200 import RECORDING, needs_h200

from agent.cli import main

pytestmark = needs_h200
PD_RECORDING = RECORDING.with_name("pd_1p1d.jsonl.gz")


def report(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["report", str(PD_RECORDING), "--json", *more]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_transfers_are_told_with_their_post_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured there: 169 transfers of 1.0 GB and 30,400 pieces, 137 ms each, of which 104 ms are post time."""
    transfer = report(capsys)["targets"]["vllm-8001"]["signals"]["kv_transfer"]
    assert transfer["transfers"] == 169
    assert transfer["transfer_seconds"]["mean"] == pytest.approx(0.137, abs=5e-4)
    assert transfer["post_seconds"]["mean"] == pytest.approx(0.104, abs=5e-4)
    assert transfer["transferred_bytes"] / 169 == pytest.approx(0.996e9, rel=1e-3)
    assert transfer["descriptors"] / 169 == pytest.approx(30_406, abs=1)
    assert transfer["failed"] == 0


def test_who_transfers_nothing_has_no_transfer(capsys: pytest.CaptureFixture[str]) -> None:
    """The GPUs have no page of NIXL; the prefill instance has one, and starts no transfer."""
    targets = report(capsys)["targets"]
    assert targets["gpu-0"]["signals"]["kv_transfer"] is None
    assert targets["vllm-8000"]["signals"]["kv_transfer"]["transfer_seconds"] is None
