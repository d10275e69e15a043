"""Which real parts are on this machine. A test whose part is missing is skipped aloud; in CI it fails."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]
SLO_PYTHON = Path(sys.executable)  # has aiohttp, for the stubs
VLLM_SCRIPT = ROOT / "tests" / "live" / "real_vllm.sh"
NEIGHBOURS_SCRIPT = ROOT / "tests" / "live" / "real_neighbours.sh"
LMCACHE_SCRIPT = ROOT / "tests" / "live" / "real_lmcache.sh"


def program(*names: str) -> str:
    """The path of the first of these programs that is there (Debian keeps some in sbin)."""
    where = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = next(filter(None, (shutil.which(name, path=where) for name in names)), None)
    return found or missing(" or ".join(names))


def vllm_folder() -> Path:
    """The folder with the real vLLM: $SLO_AGENT_VLLM_DIR, else .cache/vllm in the repository."""
    folder = Path(os.environ.get("SLO_AGENT_VLLM_DIR") or ROOT / ".cache" / "vllm")
    if subprocess.run(["bash", VLLM_SCRIPT, "installed", folder], check=False).returncode != 0:
        missing(f"a real vLLM in {folder}")
    return folder


def lmcache_folder() -> Path:
    """The folder of `vllm_folder`, where LMCache is installed beside it."""
    folder = vllm_folder()
    if subprocess.run(["bash", LMCACHE_SCRIPT, "installed", folder], check=False).returncode != 0:
        missing(f"a real LMCache in {folder}")
    return folder


def neighbours_folder() -> Path:
    """The folder with Mooncake, Dynamo and vllm-router: $SLO_AGENT_NEIGHBOURS_DIR, else .cache/neighbours."""
    folder = Path(os.environ.get("SLO_AGENT_NEIGHBOURS_DIR") or ROOT / ".cache" / "neighbours")
    if subprocess.run(["bash", NEIGHBOURS_SCRIPT, "installed", folder], check=False).returncode != 0:
        missing(f"Mooncake, Dynamo and vllm-router in {folder}", "make neighbours")
    return folder


def missing(what: str, how: str = "make real-parts") -> NoReturn:
    """Ends the test that needs `what`."""
    sentence = f"NOT HERE: {what}. Bring it with: {how}"
    if os.environ.get("CI"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(f"##### SKIPPED, NOT PASSED ##### {sentence}")


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
