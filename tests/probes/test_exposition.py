"""The page parser: every number under its meaning, whatever else stands on the page."""

import math
import tracemalloc
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.exposition import MAX_LABEL_BYTES, PageParser, PageValues

Series = tuple[str, frozenset[tuple[str, str]]]


def everything(name: str, labels: Mapping[str, str]) -> Series:
    return name, frozenset(labels.items())


def read(text: str) -> PageValues[Series]:
    return PageParser(everything).parse(text)


def series(name: str, **labels: str) -> Series:
    return name, frozenset(labels.items())


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
label_values = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ["}", '"', "\\", "\n", '\\"', "a}b", "a b", "#", " # {", ",", '="', "\\n", "", " 1.0"]
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
ends = st.sampled_from(["", " 1700000000000", ' # {trace_id="a}b"} 0.5', " # {} 0.5 1700000000.1", " ", "\r"])


@given(
    st.dictionaries(
        st.tuples(names, st.dictionaries(label_names, label_values, max_size=3).map(lambda d: frozenset(d.items()))),
        st.tuples(numbers, ends),
        max_size=6,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_reads_back_what_was_written(
    page: dict[Series, tuple[float, str]],
    line_end: str,
    has_last_line_end: bool,  # noqa: FBT001  hypothesis gives it
) -> None:
    """Names, labels and values come back exactly; a second parse, from the cache, gives the same."""
    lines = ["# HELP x y", "# TYPE x counter"]
    for (name, labels), (value, end) in page.items():
        inside = ",".join(f'{key}="{escaped(text)}"' for key, text in sorted(labels))
        lines.append(f"{name}{'{' + inside + '}' if labels else ''} {value!r}{end}")
    text = line_end.join([*lines, "# EOF"]) + (line_end if has_last_line_end else "")
    parser = PageParser(everything)
    first, second = parser.parse(text), parser.parse(text)
    assert first.values == {key: value for key, (value, _) in page.items()}
    assert (first.malformed, first.duplicates, first.series) == (0, 0, len(page))
    assert second == first


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("utf-8", errors="replace")))
def test_never_raises_and_never_keeps_a_number_that_is_none(text: str) -> None:
    page = read(text)
    assert all(math.isfinite(value) for value in page.values.values())


@given(st.text(st.sampled_from('ab{}="\\, 1\n\r#_'), max_size=60))
def test_a_second_look_at_a_broken_page_says_the_same(text: str) -> None:
    """The cache must not turn a malformed line into a good one, or the other way round."""
    parser = PageParser(everything)
    assert parser.parse(text) == parser.parse(text)


@pytest.mark.parametrize(
    ("line", "meaning", "value"),
    [
        pytest.param("a 1", series("a"), 1.0, id="no labels"),
        pytest.param("a{} 1", series("a"), 1.0, id="empty labels"),
        pytest.param('a{b="c"} 1', series("a", b="c"), 1.0, id="one label"),
        pytest.param('a{b="c",} 1', series("a", b="c"), 1.0, id="a comma at the end"),
        pytest.param('a {b="c"} 1', series("a", b="c"), 1.0, id="a space before the brace"),
        pytest.param('a{ b = "c" , d="e" } 1', series("a", b="c", d="e"), 1.0, id="spaces between labels"),
        pytest.param('a{b="c"}1', series("a", b="c"), 1.0, id="no space before the value"),
        pytest.param('a{b="}"} 1', series("a", b="}"), 1.0, id="a brace in a label"),
        pytest.param('a{b="x # y"} 1', series("a", b="x # y"), 1.0, id="an exemplar's mark in a label"),
        pytest.param('a{b="\\\\"} 1', series("a", b="\\"), 1.0, id="an escaped backslash at the end"),
        pytest.param('a{b="\\\\n"} 1', series("a", b="\\n"), 1.0, id="a backslash and an n are no line feed"),
        pytest.param('a{b="\\n\\""} 1', series("a", b='\n"'), 1.0, id="line feed and quote"),
        pytest.param('a{b="\\d"} 1', series("a", b="\\d"), 1.0, id="an escape that is none stays"),
        pytest.param("a\t1", series("a"), 1.0, id="a tab"),
        pytest.param("  a 1", series("a"), 1.0, id="indented"),
        pytest.param("a 1.5e+06", series("a"), 1_500_000.0, id="exponent"),
        pytest.param("a -1", series("a"), -1.0, id="a sentinel is the reader's affair"),
        pytest.param("a 1 1700000000000", series("a"), 1.0, id="a time stamp"),
        pytest.param('a_bucket{le="1"} 3 # {t="x"} 0.5 1700000000', series("a_bucket", le="1"), 3.0, id="an exemplar"),
    ],
)
def test_reads_the_line(line: str, meaning: Series, value: float) -> None:
    parser = PageParser(everything)
    for _ in range(2):
        page = parser.parse(line + "\n")
        assert page.values == {meaning: value}
        assert page.malformed == 0


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("a", id="no value"),
        pytest.param("a one", id="a word for a value"),
        pytest.param("a 1_000", id="Python's way to write a number"),
        pytest.param("a 1 2 3", id="too many numbers"),
        pytest.param('a{b="c} 1', id="a label that does not end"),
        pytest.param('a{b="c" 1', id="labels that do not end"),
        pytest.param("a{b=c} 1", id="a label without quotes"),
        pytest.param('a{b= c="d"} 1', id="a label without a value"),
        pytest.param('a{="c"} 1', id="a label without a name"),
        pytest.param('{b="c"} 1', id="labels without a name"),
        pytest.param("9a 1", id="a name that is none"),
        pytest.param("a\0b 1", id="a NUL byte in a name"),
        pytest.param('a{b="' + "x" * (MAX_LABEL_BYTES + 1) + '"} 1', id="a label of 64 kB"),
    ],
)
def test_counts_what_cannot_be_read_and_reads_the_rest(line: str) -> None:
    parser = PageParser(everything)
    for _ in range(2):
        page = parser.parse(f"before 1\n{line}\nafter 2\n")
        assert page.values == {series("before"): 1.0, series("after"): 2.0}
        assert page.malformed == 1


@pytest.mark.parametrize("value", ["NaN", "nan", "+Inf", "-Inf", "1e999"])
def test_what_is_not_finite_is_unknown(value: str) -> None:
    page = read(f"a {value}\nb 1\n")
    assert page.values == {series("b"): 1.0}
    assert page.not_finite == 1


def test_of_a_series_given_twice_the_first_counts() -> None:
    page = read('a{b="c"} 1\na{b="c"} 2\n')
    assert page.values == {series("a", b="c"): 1.0}
    assert page.duplicates == 1


def test_blank_lines_and_comments_are_nothing() -> None:
    page = read("\r\n\n   \n# HELP a b\n  # indented\n#\n# EOF\n")
    assert page == PageValues()


def test_series_that_no_signal_needs_cost_no_value() -> None:
    parser: PageParser[str] = PageParser(lambda name, labels: name if name == "a" else None)
    page = parser.parse("a 1\nb 2\nb_bad NaN\n")
    assert (page.values, page.series, page.not_finite) == ({"a": 1.0}, 3, 0)


def test_names_that_no_signal_needs_are_counted_and_remembered_by_name_alone() -> None:
    """A million series of another program cost a name, not a million labels."""
    parser = PageParser(everything, needs=lambda name: name == "a")
    text = "a 1\n" + "".join(f'b{{c="{i}"}} 1\n' for i in range(1000)) + "b 1\nb 1 1700000000\n"
    for _ in range(2):
        page = parser.parse(text)
        assert (page.values, page.series, page.dropped_series) == ({series("a"): 1.0}, 1003, 0)
    assert (set(parser._known), parser._unneeded) == ({"a"}, {"b"})


def test_asks_for_the_meaning_once_a_series() -> None:
    asked: list[str] = []

    def resolve(name: str, labels: Mapping[str, str]) -> str:
        asked.append(name)
        return name

    parser: PageParser[str] = PageParser(resolve)
    for value in range(3):
        assert parser.parse(f"a {value}\n").values == {"a": float(value)}
    assert asked == ["a"]


def test_series_beyond_the_limit_are_counted_as_dropped_not_lost_in_silence() -> None:
    parser = PageParser(everything, max_series=3)
    page = parser.parse("".join(f'a{{b="{i}"}} {i}\n' for i in range(5)))
    assert len(page.values) == 3
    assert page.dropped_series == 2


def test_series_that_come_and_go_do_not_blind_the_reader() -> None:
    """A year of adapters and restarts fills any memory: the page of today must still be read whole."""
    parser = PageParser(everything, max_series=10)
    for generation in range(20):
        page = parser.parse("".join(f'a{{b="{generation}-{i}"}} {i}\n' for i in range(4)))
    assert len(page.values) == 4
    assert page.dropped_series == 0


def test_a_million_series_leave_no_more_than_the_limit_behind() -> None:
    parser: PageParser[str] = PageParser(lambda name, labels: None, max_series=200_000)
    page = parser.parse("".join(f'a{{b="{i}"}} 1\n' for i in range(1_000_000)))
    assert page.dropped_series == 800_000
    assert len(parser._known) == 200_000


def test_huge_labels_that_are_new_on_every_page_do_not_pile_up() -> None:
    """40 pages of 6 MB: far fewer series than the limit, and 240 MB if all of them stayed."""
    parser: PageParser[str] = PageParser(lambda name, labels: None)
    tracemalloc.start()
    try:
        for page in range(40):
            parser.parse("".join(f'a{{b="{page}-{i}-{"x" * 60_000}"}} 1\n' for i in range(100)))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 80_000_000
