"""The command line: help, exit codes, and a sentence for everything people can get wrong; never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli import COMMANDS, main
from probes.recording import Entry, RecordingWriter

ROOT = Path(__file__).parents[2]
GOOD_CONFIG = "targets: [{name: a, url: 'http://127.0.0.1:9'}]\n"


def slo_agent(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent.cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


def ends(arguments: list[str]) -> int:
    """The exit code, whether argparse or a command ends it."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends([command, "--help"]) == 0
    assert f"slo-agent {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [command.name for command in COMMANDS if command.name != "dashboards"])
def test_its_examples_can_be_typed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    ends([command, "--help"])
    examples = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
    assert examples
    assert [line for line in examples if f"slo-agent {command} " not in line] == []


def test_without_a_command_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends([]) == 2
    out = capsys.readouterr().out
    assert all(f"    {command.name}" in out for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(["--version"]) == 0
    assert capsys.readouterr().out.startswith("slo-agent ")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every kind of wrong file, which is also where the command runs."""
    (tmp_path / "good.yaml").write_text(GOOD_CONFIG)
    (tmp_path / "typo.yaml").write_text("target: []\ntick_seconds: -1\n")
    (tmp_path / "broken.yaml").write_text("targets: [\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.gz").write_bytes(b"")
    writer = RecordingWriter(tmp_path / "good.gz")
    writer.write(Entry(100.0, "a", "vllm", 'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n'))
    writer.close()
    writer = RecordingWriter(tmp_path / "bad_body.gz")
    writer.write(Entry(100.0, "a", "probe", "[]"))
    writer.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = [
    ("check", 2, "required: -c/--config"),
    ("check -c none.yaml", 2, "none.yaml: cannot be read: No such file"),
    ("check -c folder", 2, "folder: cannot be read: Is a directory"),
    ("check -c binary", 2, "binary: cannot be read: it is not UTF-8"),
    ("check -c broken.yaml", 2, "broken.yaml: line 2"),
    ("check -c list.yaml", 2, "list.yaml: holds a list"),
    ("check -c typo.yaml", 2, 'Did you mean "targets"?'),
    ("run -c none.yaml", 2, "none.yaml: cannot be read"),
    ("run -c good.yaml --log-level loud", 2, "invalid choice: 'loud'"),
    ("record -c good.yaml", 2, "required: --out"),
    ("record -c good.yaml --out good.gz", 2, "good.gz is there already. Name another file"),
    ("record -c good.yaml --out no/such/folder.gz", 2, "no/such/folder.gz cannot be written: No such file"),
    ("record -c good.yaml --out x.gz --for ever", 2, "'ever' is no duration; write 90, 90s, 10m or 1h"),
    ("record -c good.yaml --out x.gz --for -5s", 2, "--for"),
    ("inspect none.prom", 2, "none.prom cannot be read: No such file"),
    ("inspect folder", 2, "folder cannot be read: Is a directory"),
    ("inspect http://127.0.0.1:9", 2, "http://127.0.0.1:9/metrics: connect_refused"),
    ("inspect http://", 2, "bad_address"),
    ("inspect http://[::1", 2, "Is this the address of a metrics page?"),
    ("inspect binary", 1, ""),
    ("probe", 2, "required: URL"),
    ("probe vllm:8000", 2, "'vllm:8000' is no http address. Write one such as http://vllm:8000."),
    ("probe http://[::1", 2, "is no http address"),
    ("probe http://127.0.0.1:9 --max-tokens 1", 2, "--max-tokens is 1. At least 2 are needed"),
    ("probe http://127.0.0.1:9 --max-tokens many", 2, "invalid int value"),
    ("probe http://127.0.0.1:9", 1, ""),
    ("report none.gz", 2, "none.gz: cannot be read: No such file"),
    ("report folder", 2, "folder: cannot be read: Is a directory"),
    ("report good.yaml", 2, "good.yaml: is not gzip'd"),
    ("report empty.gz", 2, "empty.gz"),
    ("report bad_body.gz", 2, "not a mapping"),
    ("report good.gz --from 9 --to 5", 2, "--from 9.0 is not before --to 5.0"),
    ("report good.gz --from nan", 2, "'nan' is no number and no time"),
    ("report good.gz --to soon", 2, "'soon' is no number and no time; write unix seconds or 2026-01-31T12:00:00Z"),
    ("report good.gz --from 2026-13-01", 2, "'2026-13-01' is no number and no time"),
    ("report good.gz --target nobody", 2, "nobody"),
    ("report good.gz --goodput 5", 2, "--goodput is '5'. Write seconds"),
    ("report good.gz --goodput ttft:nan,tpot:1", 2, "--goodput is"),
    ("report good.gz --goodput ttft:1,tpot:1,itl:2", 2, "--goodput is"),
    ("report good.gz --threshold speed=1", 2, "--threshold is 'speed=1'. Write SIGNAL=SECONDS"),
    ("report good.gz --threshold itl_seconds=-1", 2, "--threshold is"),
    ("report good.gz --threshold itl_seconds=inf", 2, "--threshold is"),
    ("report good.gz --gpu-price -1", 2, "--gpu-price"),
    ("report good.gz --gpu-price inf", 2, "'inf' is no number"),
    ("report good.gz -c typo.yaml", 2, "typo.yaml: target is not a known key"),
    ("replay none.gz -c good.yaml", 2, "none.gz: cannot be read"),
    ("replay bad_body.gz -c good.yaml", 2, "not a mapping"),
    ("replay good.gz", 2, "required: -c/--config"),
    ("rules -c none.yaml", 2, "none.yaml: cannot be read"),
    ("rules", 2, "one of -c FILE and --deadman is needed"),
    ("rules -c good.yaml --deadman", 2, "one of -c FILE and --deadman is needed"),
    ("dashboards --out good.yaml", 2, "good.yaml cannot be written"),
    ("demo --speed 0", 2, "--speed is 0. Give a number from 1 to 100."),
    ("demo --speed nan", 2, "--speed is nan"),
    ("demo --listen nowhere", 2, "--listen is 'nowhere'. Write HOST:PORT"),
    ("demo --record no/such/folder.gz", 2, "no/such/folder.gz cannot be written"),
    ("demo --record good.gz", 2, "good.gz is there already"),
    ("fly", 2, "invalid choice: 'fly'"),
]


@pytest.mark.parametrize(("words", "code", "sentence"), WRONG, ids=[words for words, _, _ in WRONG])
def test_what_people_get_wrong_has_a_sentence(
    words: str, code: int, sentence: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(words.split()) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "file"), [("rules --deadman", "slo-agent-deadman.yaml"), ("rules -c EXAMPLE", "example-slos.yaml")]
)
def test_the_rules_it_prints_are_those_of_the_repository(
    words: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what their first line names as their writer is what wrote them."""
    example = str(ROOT / "deploy" / "agent.example.yaml")
    assert main(words.replace("EXAMPLE", example).split()) == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "rules" / "prometheus" / file).read_text(encoding="utf-8")
    assert printed.startswith(f"# Written by `slo-agent {words.partition(' -c')[0]}`")


def test_check_lists_every_mistake(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "many.yaml").write_text(
        "tick_seconds: -1\n"
        "colour: red\n"
        "targets: [{name: a, url: ftp://x}, {url: 'http://x'}]\n"
        "slos: [{name: s, sli: speed, objective_ratio: 99.5}]\n"
    )
    assert main(["check", "-c", "many.yaml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    spots = ["tick_seconds", "colour", "targets[0].url", "targets[1].name", "slos[0].sli", "slos[0].objective_ratio"]
    assert [spot for spot in spots if not any(line.startswith(f"many.yaml: {spot}") for line in lines)] == []
    assert len(lines) == len(spots)


@pytest.mark.parametrize("words", ["--help", "report --help", "inspect page.prom"])
def test_a_reader_that_has_seen_enough_is_no_error(words: str, tmp_path: Path) -> None:
    """`slo-agent ... | head -1`: the pipe is closed before we write."""
    (tmp_path / "page.prom").write_text('vllm:generation_tokens_total{engine="0",model_name="m"} 7\n')
    reading, writing = os.pipe()
    os.close(reading)
    words = words.replace("page.prom", str(tmp_path / "page.prom"))
    try:
        ended = slo_agent(*words.split(), stdout=writing)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_full_disk_under_the_output_is_told(tmp_path: Path) -> None:
    (tmp_path / "page.prom").write_text('vllm:generation_tokens_total{engine="0",model_name="m"} 7\n')
    with Path("/dev/full").open("w") as full:
        ended = slo_agent("inspect", str(tmp_path / "page.prom"), stdout=full.fileno())
    assert ended.returncode == 2
    assert ended.stderr == "slo-agent: No space left on device\n"
