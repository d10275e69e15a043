"""`slo-agent explain`: the sums it prints are those a person gets from the counts it prints."""

import json
import re
from pathlib import Path

import pytest
from recorded import START, recording

from agent.cli import main
from agent.commands.explain import explained
from agent.model import BurnPair, Counts, Events, Slo
from agent.outputs.jsonable import slo_json
from agent.slo.status import slo_status
from agent.stats.time_buckets import TimeBuckets

DAY = 86_400.0
CONFIG = "slos: [{name: fast, sli: ttft, objective_ratio: 0.9, threshold_seconds: 0.1}]\n"


def lines(counts: Counts, undecided: str = "bad") -> str:
    """Four days watched, all events in the last five minutes."""
    pair = BurnPair("page", "fast", 300, 3600, 14.4)
    slo = Slo("s", "chat", "ttft", "engine", 0.99, 30 * DAY, (pair,), 2.5, undecided=undecided)  # type: ignore[arg-type]
    events = TimeBuckets()
    events.begin(START - 3 * DAY)
    events.add(Events(START - 300, START, counts))
    return "\n".join(explained(slo_json(slo_status(slo, events, START)), START))


def test_the_sums_are_those_of_the_counts() -> None:
    """(150 + 50) of 1,000 at a budget of 0.01 is 20 times, above 14.4; a tenth of the period was watched: 2 spent of it
    is 200 % of the budget gone, 100 % below nothing.
    """
    told = lines(Counts(good=800, bad=150, undecided=50))
    assert "SLO s of chat, 2023-11-14 22:13:20 UTC: burning" in told
    assert "1h   (150 bad + 50 undecided) / 1,000 / 0.01 = 20 times" in told
    assert "5m   (150 bad + 50 undecided) / 1,000 / 0.01 = 20 times" in told
    assert "both burn faster: it alerts" in told
    assert "200 / (0.01 x 1,000) = 2000.0000% of what was watched" in told
    assert "1 - 2000.0000% x 10.0000% = -100.0000%" in told


def test_undecided_ones_that_count_as_good_are_left_out() -> None:
    assert "1h   150 / 1,000 / 0.01 = 15 times" in lines(Counts(good=800, bad=150, undecided=50), "good")


def test_without_events_everything_is_unknown() -> None:
    told = lines(Counts())
    assert "left           unknown: no events were counted" in told
    assert "1h   no events: unknown" in told


def test_every_rate_follows_from_its_own_line() -> None:
    """bad / all / budget, with the very numbers of the line."""
    told = lines(Counts(good=9_000, bad=321))
    rates = re.findall(r"(\d+) / ([\d,]+) / ([\d.]+) = ([\d.]+) times", told)
    assert len(rates) == 2
    for bad, total, budget, rate in rates:
        assert float(bad) / float(total.replace(",", "")) / float(budget) == pytest.approx(float(rate), rel=1e-3)


def test_a_recording_is_explained_as_it_stood_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 requests a second for a minute, all within 0.1 s."""
    (tmp_path / "c.yaml").write_text(CONFIG)
    rec = recording(tmp_path / "r.gz")
    assert main(["explain", "fast", "--recording", str(rec), "-c", str(tmp_path / "c.yaml")]) == 0
    out = capsys.readouterr().out
    assert "ok" in out.splitlines()[0]
    assert "0 of 120 events" in out
    assert main(["explain", "fast", "--recording", str(rec), "-c", str(tmp_path / "c.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slo"]["budget"]["counts"]["good"] == 120


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("explain fast", "Write --agent URL, or --recording REC -c FILE, or --prometheus URL -c FILE."),
        (
            "explain fast --recording r.gz",
            "Write --agent URL, or --recording REC -c FILE, or --prometheus URL -c FILE.",
        ),
        ("explain fats --recording r.gz -c c.yaml", 'there is no SLO "fats". Did you mean "fast"?'),
        ("explain fast --agent http://127.0.0.1:9", "Is this the address of a running agent?"),
        ("explain fast --agent nowhere", "Is this the address of a running agent?"),
    ],
)
def test_what_people_get_wrong_is_told(
    arguments: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    recording(tmp_path / "r.gz", 3)
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    assert told in capsys.readouterr().err


def test_slices_are_explained_as_slices() -> None:
    """An hour of minutes: 50 good, 4 bad, 6 without a request."""
    pair = BurnPair("page", "fast", 300, 3600, 14.4)
    slo = Slo("s", "chat", "ttft", "engine", 0.99, 30 * DAY, (pair,), 2.5, slice_seconds=60.0, slice_good_ratio=0.95)
    events, now = TimeBuckets(), 1_800_003_600.0
    events.begin(now - 3600)
    events.add(Events(now - 3600, now, Counts(good=50, bad=4)))
    told = "\n".join(explained(slo_json(slo_status(slo, events, now)), now))
    assert "counted        slices of 1m, good where at least 95% of its events are; not those without events" in told
    assert "of all slices over 30d" in told
    assert "bad            4 of 54 slices" in told
    assert "empty          6 slices had no event, or nobody told of them: neither good nor bad" in told
