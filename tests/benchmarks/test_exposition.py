"""What reading a page costs, beside prometheus_client's own parser: `make bench`.

Consecutive pages of an engine under load, every one different, once through each reader in turn, in CPU time;
ours gives samples and histograms ready for the windows, the other one families. No page is kept; what a first sight
costs is printed too.
"""

import gzip
import itertools
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from probes.page import SystemPage

sys.path.insert(0, str(Path(__file__).parents[1] / "probes"))  # for the pages
from page_files import SHARED, fixture

PAGES = 140
ROUND = 10  # pages that one reader takes before it is the other's turn: both meet the same machine
AT_LEAST = 20.0
RECORDING = SHARED / "h200" / "closed_loop_sweep.jsonl.gz"


def recorded() -> list[str]:
    """Pages of an H200 under load, once a second, those that differ; from where all its series are there."""
    if not RECORDING.exists():
        pytest.skip(f"{RECORDING} is not there: set SLO_AGENT_SHARED to the folder that holds data/")
    with gzip.open(RECORDING, "rt", encoding="utf-8") as lines:
        bodies = (entry["body"] for entry in map(json.loads, lines) if entry["source"] == "vllm")
        loaded = itertools.islice(bodies, 150, None)
        return list(itertools.islice(dict.fromkeys(loaded), PAGES))


def generated() -> list[str]:
    """One page of vLLM 0.32 again and again, with each of its numbers a little higher."""
    text = fixture("vllm_0.32_cpu")
    number = re.compile(r" ([0-9.e+]+)$", re.MULTILINE)
    return [number.sub(lambda found, step=step: f" {float(found[1]) + step}", text) for step in range(PAGES)]


def chunks(pages: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(pages), ROUND):
        yield pages[start : start + ROUND]


@pytest.mark.parametrize("source", [recorded, generated])
def test_twenty_times_as_fast_as_prometheus_clients_parser(source: object) -> None:
    pages = source()  # type: ignore[operator]  # one of the two above
    assert len(pages) == len(set(pages)) == PAGES
    ours = SystemPage("vllm")
    began = time.thread_time()
    first = ours.read(pages[0], "t", 0.0)
    first_seconds = time.thread_time() - began
    assert first.outcome == "ok"
    our_seconds, their_seconds, ratios, samples = 0.0, 0.0, [], 0
    for chunk in chunks(pages):
        began = time.thread_time()
        readings = [ours.read(page, "t", 0.0) for page in chunk]
        between = time.thread_time()
        counts = [sum(len(family.samples) for family in text_string_to_metric_families(page)) for page in chunk]
        ended = time.thread_time()
        assert all(reading.outcome == "ok" for reading in readings)
        samples += sum(counts)
        our_seconds += between - began
        their_seconds += ended - between
        ratios.append((ended - between) / (between - began))
    ratio = their_seconds / our_seconds
    per_page = samples / len(pages)
    rows = [
        ("pages, samples a page", f"{len(pages)}, {per_page:.0f}"),
        ("ours, samples a second", f"{samples / our_seconds:,.0f}"),
        ("prometheus_client, samples a second", f"{samples / their_seconds:,.0f}"),
        ("ratio; median of the rounds", f"{ratio:.1f}; {statistics.median(ratios):.1f}"),
        ("ours, a page", f"{1e3 * our_seconds / len(pages):.3f} ms"),
        ("ours, the first sight of a target", f"{1e3 * first_seconds:.2f} ms"),
    ]
    for name, figure in rows:
        sys.stdout.write(f"\n  {name:<38} {figure:>14}")
    assert statistics.median(ratios) >= AT_LEAST
