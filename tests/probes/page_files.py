"""The captured pages: our own few as fixtures, the whole collection where it is there."""

import os
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "pages"
SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[3] / "shared")) / "data"


def fixture(name: str) -> str:
    """A page of ours, without comments and `_created` series."""
    return (FIXTURES / f"{name}.prom").read_text(encoding="utf-8")


def shared(path: str) -> Path:
    """A file of the collection, such as "pages/vllm/vllm_v0_0.6_real.txt"; skips the test where it is not there."""
    file = SHARED / path
    if not file.exists():
        pytest.skip(f"{file} is not there: set SLO_AGENT_SHARED to the folder that holds data/")
    return file
