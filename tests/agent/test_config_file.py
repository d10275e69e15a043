"""Bad configs are files, with the exact words for every mistake beside each."""

import os
import threading
import time
from pathlib import Path

import pytest

from agent.cli import main
from agent.config import Config
from agent.config_file import load_config, parse_config
from agent.errors import ConfigError
from agent.pipe import read_pipe

BAD = sorted((Path(__file__).parents[1] / "fixtures" / "bad_config").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD, ids=[path.stem for path in BAD])
def test_every_mistake_is_told_in_one_line(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    told = [line.replace(str(path), path.name) for line in caught.value.lines]
    assert told == path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", BAD, ids=[path.stem for path in BAD])
def test_no_secret_is_ever_shown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-c", str(path)]) == 2
    assert "hunter2" not in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory\."):
        load_config(tmp_path / "none.yaml")


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        load_config(tmp_path / "agent.yaml")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_an_empty_file_is_the_default_config(text: str) -> None:
    assert parse_config(text, "agent.yaml") == Config()


@pytest.mark.parametrize(("word", "meant"), [("yes", "yes"), ("no", "no"), ("auto", "auto"), ('"yes"', "yes")])
def test_yaml_yes_and_no_are_words(word: str, meant: str) -> None:
    """YAML 1.1 reads a plain yes as true."""
    assert parse_config(f"gpu: {{enabled: {word}}}", "agent.yaml").gpu.enabled == meant


def test_a_name_of_a_discovered_target_is_no_mistake() -> None:
    text = "discovery: [{path: targets.json}]\ncanaries: [{targets: [vllm-7]}]"
    assert parse_config(text, "agent.yaml").canaries[0].targets == ["vllm-7"]


def test_the_token_is_read_anew_and_its_absence_is_no_crash(tmp_path: Path) -> None:
    file = tmp_path / "token"
    text = f'targets: [{{name: a, url: "http://a:1", auth: {{bearer_token_file: {file}}}}}]'
    auth = parse_config(text, "agent.yaml").targets[0].auth
    assert auth is not None
    assert auth.token() == ""
    file.write_text("one\n")
    assert auth.token() == "one"
    file.write_text("two\n")
    assert auth.token() == "two"


def test_a_pipe_that_nobody_writes_into_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TimeoutError, match=r"nobody wrote into this pipe for 0\.2 s"):
        read_pipe(tmp_path / "pipe", patience_seconds=0.2)


def test_a_config_comes_through_a_pipe_however_slowly(tmp_path: Path) -> None:
    """As `-c <(helm template ...)` gives it, in two parts."""
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with (tmp_path / "pipe").open("w") as pipe:
            pipe.write('targets: [{name: a, url: "http://a:8000"}')
            pipe.flush()
            time.sleep(0.3)
            pipe.write("]\n")

    writer = threading.Thread(target=write)
    writer.start()
    assert [target.name for target in load_config(tmp_path / "pipe").targets] == ["a"]
    writer.join()
