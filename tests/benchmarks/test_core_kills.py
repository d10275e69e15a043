"""kill -9, 200 times: the counts are those of the counters, and the alert fires since its beginning."""

from pathlib import Path

from test_state import kill_again_and_again


def test_two_hundred_kills(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "s.db", times=200)
