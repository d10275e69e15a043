"""Benchmarks print tables and take their time: they run when asked for (`make bench`), and not among the tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "agent"))  # for the fakes
sys.path.insert(0, str(HERE.parent / "live"))  # for the real parts


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this folder out unless the command line names it."""
    asked = any("benchmarks" in argument for argument in config.args)
    return None if asked or HERE not in (collection_path, *collection_path.parents) else True
