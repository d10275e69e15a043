"""Bad configs are files, with the exact words for every mistake beside each."""

from pathlib import Path

import pytest

from agent.cli import main
from agent.config import Config
from agent.config_file import load_config, parse_config
from agent.errors import ConfigError

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
