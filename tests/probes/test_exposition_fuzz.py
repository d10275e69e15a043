"""Whatever stands on a page: what the fuzzer checks (fuzz_exposition.py), on what it once found and on made-up text."""

from pathlib import Path

import pytest
from exposition_checks import check
from hypothesis import given
from hypothesis import strategies as st
from page_files import fixture

from probes.exposition import SLICE_CHARACTERS, PageParser

CORPUS = sorted((Path(__file__).parent / "exposition_corpus").iterdir())
PIECES = st.sampled_from(
    ["vllm:", "num_requests_running", "_bucket", "_total", "{", "}", '"', "\\", "\n", ",", "=", "le", "+Inf", "NaN",
     " ", "#", "1", "-1", "1e9", "_", "engine", "model_name", "\x00", "\r", "\u2028", "\ufffd"]
)  # fmt: skip


@pytest.mark.parametrize("page", CORPUS, ids=[page.name for page in CORPUS])
def test_what_once_was_trouble_is_read(page: Path) -> None:
    check(page.read_text(encoding="utf-8", errors="replace"))


@given(st.lists(PIECES | st.text(max_size=3), max_size=60).map("".join))
def test_made_up_text_is_read_the_same_way_twice(text: str) -> None:
    check(text)


@given(st.data())
def test_a_real_page_with_a_few_characters_changed_is_read(data: st.DataObject) -> None:
    text = fixture("vllm_0.32_cpu")[:6_000]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + data.draw(PIECES) + text[place + data.draw(st.integers(0, 20)) :]
    check(text)


@pytest.mark.parametrize("end", ["\n", ""])
def test_no_line_is_lost_where_a_huge_page_is_cut_into_slices(end: str) -> None:
    """Lines of every length around the cuts, and one longer than a slice."""
    lines = [f'a{{n="{n}",pad="{"x" * (n % 97)}"}} {n}' for n in range(9_000)]
    lines.insert(4_000, f'b{{pad="{"y" * 60_000}"}} 1')
    lines.insert(5_000, "# " + "z" * 2 * SLICE_CHARACTERS)
    text = "\n".join(lines) + end
    assert len(text) > 4 * SLICE_CHARACTERS
    page = PageParser(lambda name, labels: (name, labels.get("n"))).parse(text)
    assert page.values == {**{("a", str(n)): float(n) for n in range(9_000)}, ("b", None): 1.0}
    assert page.malformed == 0
