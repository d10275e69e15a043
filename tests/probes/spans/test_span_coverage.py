"""Coverage says how many of the requests the spans speak for; unknown is not full."""

import pytest

from probes.spans.coverage import coverage


@pytest.mark.parametrize(
    ("spans", "finished", "ratio"),
    [
        (90, 100.0, 0.9),
        (0, 100.0, 0.0),
        (102, 100.0, 1.02),  # never cut to 1: more spans than requests is a fault to be seen
        (0, 0.0, None),  # an idle stretch covers nothing and lacks nothing
        (5, None, None),
        (None, 100.0, None),
    ],
)
def test_coverage(spans: int | None, finished: float | None, ratio: float | None) -> None:
    assert coverage(spans, finished) == ratio
