"""The container image: it builds from nothing but packages, runs as nobody, and plays the demo."""

import os
import re
import signal
import socket
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from real_tools import real_tool

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "build-image.sh"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_runs_as_nobody_from_the_lock_alone() -> None:
    """A number, since Kubernetes cannot tell of a name that it is not root; hashes, since registries are not ours."""
    assert re.findall(r"(?m)^USER (.*)$", DOCKERFILE) == ["65532:65532"]
    assert "--require-hashes -r requirements.lock" in DOCKERFILE
    assert DOCKERFILE.count("ARG BASE_IMAGE") == 1
    assert re.findall(r"(?m)^FROM (\S+)", DOCKERFILE) == ["${BASE_IMAGE}", "${BASE_IMAGE}"]


def test_every_locked_package_has_its_hashes_and_no_place_of_its_own() -> None:
    """Reproducible anywhere: no address of an index, no path of a machine."""
    for lock in ("requirements.lock", "requirements-dev.lock", "requirements-build.lock"):
        text = (ROOT / lock).read_text(encoding="utf-8")
        packages = re.findall(r"(?m)^[a-z0-9][a-z0-9._-]*==\S+ \\\n    --hash=sha256:", text)
        assert len(packages) == len(re.findall(r"(?m)^[a-z0-9]", text)), lock
        assert not re.search(r"(?m)^-|://|find-links", text), lock


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^([a-z0-9][a-z0-9._-]*)==(\S+)", text))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[ <>=!\[;]", requirement)[0].lower().replace("_", "-") for requirement in requirements}


def test_the_locks_hold_what_pyproject_asks_for_and_agree_with_each_other() -> None:
    """After a change of the dependencies: make lock. What is tested is what is shipped."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shipped, tested, building = (pins(f"requirements{name}.lock") for name in ("", "-dev", "-build"))
    assert names(project["dependencies"]) <= shipped.keys()
    assert names(project["optional-dependencies"]["dev"]) <= tested.keys()
    assert shipped.items() <= tested.items()
    assert building.items() <= tested.items()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def page(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.URLError):
        return None


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With an image built by buildah on Debian's packages, without any registry of images."""
    real_tool("buildah")
    real_tool("debootstrap")
    if os.geteuid() != 0:
        pytest.skip("buildah's chroot isolation needs root here")
    folder = tmp_path_factory.mktemp("image")
    environment = {**os.environ, "ENGINE": "buildah", "BASE_IMAGE": "debootstrap", "IMAGE_DIR": str(folder)}
    built = subprocess.run(
        ["bash", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return environment


@pytest.mark.real
def test_the_image_knows_its_version_and_is_not_root(environment: dict[str, str]) -> None:
    """The exit code of the agent is that of the run."""
    version = subprocess.run(
        ["bash", SCRIPT, "run", "--version"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (version.returncode, version.stdout.split()[0]) == (0, "slo-agent"), version.stderr
    missing = subprocess.run(
        ["bash", SCRIPT, "run", "check", "-c", "/nowhere.yaml"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert missing.returncode == 2, missing.stderr
    assert "/nowhere.yaml: cannot be read" in missing.stderr


@pytest.mark.real
def test_the_demo_plays_in_the_image_whose_root_cannot_be_written(environment: dict[str, str]) -> None:
    """Its page answers, it has evaluated its SLOs, and Ctrl-C stops all of it."""
    port = free_port()
    demo = subprocess.Popen(
        ["bash", SCRIPT, "run", "demo", "--listen", f"127.0.0.1:{port}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 120
        while "slo_agent_objective_ratio{" not in (page(port, "/metrics") or ""):
            assert demo.poll() is None, demo.communicate()[0]
            assert time.monotonic() < until, "the demo's SLOs are not on its page after 2 minutes"
            time.sleep(0.5)
        assert "<html" in (page(port, "/") or "")
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        words = demo.communicate(timeout=60)[0]
    assert words.rstrip().endswith("stopped."), words
    assert page(port, "/") is None
