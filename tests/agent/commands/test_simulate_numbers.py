"""`slo-agent simulate` takes finite numbers only, and prints figures with their units."""

import pytest

from agent.cli import main


@pytest.mark.parametrize("rate", ["inf", "nan", "-inf", "fast"])
def test_a_rate_that_is_no_finite_number_is_refused(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", f"--rate={rate}", "--input-tokens", "10", "--output-tokens", "10", "--requests", "2"])
    assert ended.value.code == 2
    assert "is no number" in capsys.readouterr().err


def test_a_run_is_told_with_units_and_without_what_was_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Two requests of one output token have no gap: unknown, never "None". No --concurrency, so no line of it."""
    words = "--rate 1 --input-tokens 10 --output-tokens 1 --requests 2"
    assert main(["simulate", *words.split()]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["request_rate"] == ["1.00"]
    assert "max_concurrency" not in lines
    assert lines["request_throughput"][1:] == ["requests/s"]
    assert lines["duration"][1:] == ["s"]
    assert lines["mean_itl_ms"] == ["unknown"]
    assert main(["simulate", "--scenario", "steady", "--duration", "5"]) == 0
    story = capsys.readouterr().out
    assert "request_rate" not in story
    assert "None" not in story
