"""Real parts for the tests marked `real`."""

import os
import shutil

import pytest


def _found(*names: str) -> str:
    """The first program of these names; where none is there the test is skipped, but in CI it fails."""
    for name in names:
        if path := shutil.which(name):
            return path
    sentence = f"none of {', '.join(names)} is on PATH: install it to run this test"
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture
def promtool() -> str:
    return _found("promtool")


@pytest.fixture
def alertmanager_binary() -> str:
    """Debian calls it prometheus-alertmanager."""
    return _found("alertmanager", "prometheus-alertmanager")


@pytest.fixture
def amtool() -> str:
    return _found("amtool")
