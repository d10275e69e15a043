"""`slo-agent simulate` takes finite numbers only."""

import pytest

from agent.cli import main


@pytest.mark.parametrize("rate", ["inf", "nan", "-inf", "fast"])
def test_a_rate_that_is_no_finite_number_is_refused(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", f"--rate={rate}", "--input-tokens", "10", "--output-tokens", "10", "--requests", "2"])
    assert ended.value.code == 2
    assert "is no number" in capsys.readouterr().err
