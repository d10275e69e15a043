"""Real command-line tools in tests: skipped where they are not installed, but never on CI."""

import os
import shutil

import pytest


def real_tool(name: str) -> str:
    """The path of `name`. Skips the test where it is missing; with CI=true that is a failure."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        sentence = f"{name} is not installed: tests/live/install_real_parts.sh brings it"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return path
