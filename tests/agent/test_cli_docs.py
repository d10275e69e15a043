"""What the documents for operators say is what the code does: their examples are read, their lists compared."""

import json
import re
from pathlib import Path

import pytest

from agent.advice.scale_out import QUEUE_SHARE, WINDOW_SECONDS
from agent.cli import COMMANDS, main
from agent.model import Figure, Recommendation
from agent.outputs.jsonable import figure_json, recommendation_json
from agent.web.paths import PATHS
from probes.nvml import SIGNALS
from probes.recording import PAGE_SOURCES, Entry, EntryReader
from probes.sample import Reading

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def example(name: str) -> dict[str, object]:
    (text,) = re.findall(r"```json\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    document: dict[str, object] = json.loads(text)
    return document


def keys_in_table(name: str) -> list[str]:
    cells = re.findall(r"^\| (`.*?`) \|", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE)
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


def test_the_recording_of_the_document_is_read() -> None:
    line = example("recordings.md")
    entry = Entry(float(str(line["at"])), str(line["target"]), str(line["source"]), str(line["body"]))
    reading = EntryReader().read(entry)
    assert isinstance(reading, Reading)
    assert (reading.target, reading.at_seconds) == ("vllm-0", 1700000000.25)


def test_the_recording_document_names_every_source_and_gpu_key() -> None:
    text = (DOCS / "recordings.md").read_text(encoding="utf-8")
    assert [
        word
        for word in (*PAGE_SOURCES, "scrape", "nvml", "probe", "span", "target", *SIGNALS)
        if f"`{word}`" not in text
    ] == []


def test_the_figure_of_the_document_has_the_keys_of_a_figure() -> None:
    assert list(example("figures.md")) == list(figure_json(Figure(0.083, 0.06, 0.1, 60)) or {})


def test_the_recommendation_document_names_every_key() -> None:
    empty = Recommendation(
        id="", at_seconds=0, model="", role="", action="none", current=1, proposed=1, low=1, high=1, reason_code="",
        binding="", summary="", confidence=0, meets_slo=None, evidence=(), alternatives=(), do_nothing={},
        side_effects=(), steps=(), rollback="", verify_at_seconds=0,
    )  # fmt: skip
    assert set(recommendation_json(empty)) - set(keys_in_table("recommendations.md")) == set()


def test_the_recommendation_document_has_the_rules_own_numbers() -> None:
    text = (DOCS / "recommendations.md").read_text(encoding="utf-8")
    assert f"the last {WINDOW_SECONDS / 60:.0f} minutes" in text
    assert f"at least {QUEUE_SHARE:.0%}".replace("%", " %") in text


def test_the_config_of_the_readme_is_good_and_warns_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer's first `check` should be about what they changed."""
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "agent.yaml").write_text(text)
    assert main(["check", "-c", str(tmp_path / "agent.yaml")]) == 0
    assert "warning" not in capsys.readouterr().out


def test_the_readme_links_files_that_are_there_and_every_document() -> None:
    links = set(re.findall(r"\]\(([^)#]+)", README))
    assert sorted(link for link in links if not (ROOT / link).exists()) == []
    assert {f"docs/{path.name}" for path in DOCS.glob("*.md")} - links == set()


def test_the_readme_has_every_command_and_every_address_of_the_api() -> None:
    assert sorted(re.findall(r"^\| `slo-agent (\w+)", README, re.MULTILINE)) == sorted(c.name for c in COMMANDS)
    (listed,) = re.findall(r"`/api/v1/{(.*?)}`", README)
    assert {f"/api/v1/{part}" for part in listed.split(",")} == {p for p in PATHS if p.startswith("/api/v1/")}
