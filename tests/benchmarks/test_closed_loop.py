"""The quick part of the closed loop; the whole is `python tests/benchmarks/closed_loop.py`, which takes hours."""

import closed_loop
import pytest
from loop.services import TRACES


def test_quick(capsys: pytest.CaptureFixture[str]) -> None:
    if not TRACES.exists():
        pytest.skip(f"needs the traces in {TRACES} (set SLO_AGENT_SHARED)")
    assert closed_loop.main(["--quick"]) == 0
    with capsys.disabled():
        print(capsys.readouterr().out)  # noqa: T201 - a benchmark prints
