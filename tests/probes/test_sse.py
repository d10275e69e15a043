"""The event stream parser: bytes in any pieces, the same events out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.sse import SseEvent, SseLimits, SseParser

SMALL = SseLimits(event_bytes=24, total_bytes=160, lines=12)


def events_of(*pieces: bytes, limits: SseLimits | None = None) -> list[SseEvent]:
    parser = SseParser(limits or SseLimits())
    return [event for piece in pieces for event in parser.feed(piece)] + parser.finish()


def data_of(*pieces: bytes) -> list[bytes]:
    return [event.data for event in events_of(*pieces)]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="LF"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"], id="mixed line ends"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space"),
        pytest.param(b"data:  a \n\n", [b" a "], id="one leading space goes, no more"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="several data lines are one event"),
        pytest.param(b"data\n\n", [b""], id="a field without a colon is empty"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="a byte order mark at the start"),
        pytest.param(b": keep-alive\n\n: keep-alive\n\ndata: a\n\n", [b"a"], id="comments are no events"),
        pytest.param(b"id: 7\nretry: 10\nevent: x\ndata: a\n\n", [b"a"], id="other fields"),
        pytest.param(b"event: x\n\ndata: a\n\n", [b"a"], id="an event without data is none"),
        pytest.param("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()], id="U+2028 is no line end"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_reads(stream: bytes, data: list[bytes]) -> None:
    assert data_of(stream) == data


def test_keeps_a_last_event_without_blank_line_and_says_so() -> None:
    assert events_of(b"data: a\n\ndata: b") == [SseEvent(b"a"), SseEvent(b"b", is_truncated=True)]


def test_names_the_event_it_belongs_to_and_no_other() -> None:
    assert [event.name for event in events_of(b"event: error\ndata: a\n\ndata: b\n\n")] == ["error", ""]


def test_does_not_wait_for_the_line_feed_after_a_carriage_return() -> None:
    """An event that ends in CR is there at once: waiting would move its time stamp."""
    parser = SseParser()
    assert [event.data for event in parser.feed(b"data: a\r\n\r")] == [b"a"]
    assert [event.data for event in parser.feed(b"\ndata: b\r\n\r\n")] == [b"b"]


def test_gives_up_on_a_line_without_end() -> None:
    parser = SseParser(SseLimits(event_bytes=1000))
    fed = 0
    while not parser.is_oversize and fed < 10_000:
        parser.feed(b"x" * 100)
        fed += 100
    assert fed == 1100


def test_gives_up_on_an_event_of_many_lines() -> None:
    parser = SseParser(SseLimits(event_bytes=1000))
    parser.feed(b"data: " + b"x" * 90 + b"\n")
    parser.feed((b"data: " + b"x" * 90 + b"\n") * 12)
    assert parser.is_oversize


def test_events_before_the_limit_are_kept() -> None:
    """The fifth line is one too many; two events came before it."""
    parser = SseParser(SseLimits(lines=4))
    assert len(parser.feed(b"data: a\n\n" * 5)) == 2
    assert parser.is_oversize


@given(
    lines=st.lists(
        st.sampled_from(
            [b"data: a", b"data:bb", b"", b"", b": c", b"event: e", b"\xef\xbb\xbfdata: x", b"y" * 30, b"data"]
        ),
        max_size=30,
    ),
    ends=st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=30, max_size=30),
    cuts=st.lists(st.integers(0, 400), max_size=40),
    limits=st.sampled_from([SMALL, SseLimits()]),
)
def test_any_split_gives_the_same_events(
    lines: list[bytes], ends: list[bytes], cuts: list[int], limits: SseLimits
) -> None:
    """Whole, byte by byte, or cut anywhere: the events and the verdict on size are those of the whole."""
    stream = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    whole = events_of(stream, limits=limits)
    assert events_of(*pieces, limits=limits) == whole
    assert events_of(*(stream[at : at + 1] for at in range(len(stream))), limits=limits) == whole


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_survived(stream: bytes, step: int) -> None:
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert events_of(*pieces, limits=SMALL) == events_of(stream, limits=SMALL)
