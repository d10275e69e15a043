"""The arithmetic of one stream: first token, time per output token, gaps, and what is left unsaid."""

import pytest

from probes.canary.figures import stream_figures
from probes.stream import ChatStream, TokenEvent

SENT_AT = 100.0


def stream(*events: tuple[float, int | None], completion: int | None = None, finish: str = "length") -> ChatStream:
    """Token events at so many seconds after the request, with the server's running count."""
    counts = [count for _, count in events if count is not None]
    return ChatStream(
        token_events=[TokenEvent(SENT_AT + at_seconds, count) for at_seconds, count in events],
        completion_tokens=completion if completion is not None else (counts[-1] if counts else None),
        finish_reason=finish,
    )


def test_one_token_an_event() -> None:
    """TPOT = (2.0 - 0.5) / (4 - 1) = 0.5; gaps 0.5, 0.7, 0.3."""
    figures = stream_figures(stream((0.5, 1), (1.0, 2), (1.7, 3), (2.0, 4)), SENT_AT, 1.0)
    assert figures.ttft_seconds == pytest.approx(0.5)
    assert figures.e2e_seconds == pytest.approx(2.0)
    assert figures.tpot_seconds == pytest.approx(0.5)
    assert figures.itl_gaps_seconds == pytest.approx((0.5, 0.7, 0.3))
    assert figures.output_tokens == 4
    assert figures.flags == ()


def test_tokens_of_the_first_event_cost_no_decode_time() -> None:
    """3 tokens in the first event, 7 in all: TPOT = (1.3 - 0.5) / (7 - 3) = 0.2, not 0.8 / 6."""
    figures = stream_figures(stream((0.5, 3), (0.9, 5), (1.3, 7)), SENT_AT, 1.0)
    assert figures.tpot_seconds == pytest.approx(0.2)
    assert figures.flags == ("multi_token_events",)


def test_events_of_one_piece_are_one_arrival() -> None:
    """Tokens 2 and 3 share a stamp: no gap of 0 between them; TPOT = (1.4 - 0.5) / 3 all the same."""
    figures = stream_figures(stream((0.5, 1), (1.1, 2), (1.1, 3), (1.4, 4)), SENT_AT, 1.0)
    assert figures.itl_gaps_seconds == pytest.approx((0.6, 0.3))
    assert figures.tpot_seconds == pytest.approx(0.3)
    assert "coalesced" in figures.flags


def test_a_first_piece_of_several_events_is_left_out_of_tpot() -> None:
    """Two events arrive first, at once; then one: TPOT = (0.9 - 0.5) / (3 - 2) = 0.4."""
    figures = stream_figures(stream((0.5, 1), (0.5, 2), (0.9, 3)), SENT_AT, 1.0)
    assert figures.tpot_seconds == pytest.approx(0.4)


@pytest.mark.parametrize("spread_seconds", [0.0, 20e-6])
def test_a_buffered_stream_has_no_time_per_token(spread_seconds: float) -> None:
    """All in one piece, or in two segments of it 20 us apart: no engine is that fast."""
    figures = stream_figures(stream((2.0, 1), (2.0, 15), (2.0 + spread_seconds, 16)), SENT_AT, 1.0)
    assert "buffered_stream" in figures.flags
    assert figures.tpot_seconds is None
    assert figures.itl_gaps_seconds == ()
    assert figures.ttft_seconds == pytest.approx(2.0)


def test_speed_of_a_scaled_clock_is_no_buffering() -> None:
    """At 20 times the speed, 20 us of the machine are 0.4 ms of the clock: buffered; 2 ms are not."""
    fast = stream_figures(stream((2.0, 1), (2.0004, 16)), SENT_AT, 1 / 20)
    slow = stream_figures(stream((2.0, 1), (2.0 + 0.002 * 15, 16)), SENT_AT, 1 / 20)
    assert "buffered_stream" in fast.flags
    assert "buffered_stream" not in slow.flags


def test_one_token_is_not_buffered() -> None:
    figures = stream_figures(stream((0.5, 1)), SENT_AT, 1.0)
    assert (figures.tpot_seconds, figures.itl_gaps_seconds, figures.flags) == (None, (), ())


def test_a_final_count_that_equals_the_events_weighs_them() -> None:
    figures = stream_figures(stream((0.5, None), (1.0, None), (1.5, None), completion=3), SENT_AT, 1.0)
    assert figures.tpot_seconds == pytest.approx(0.5)
    assert figures.output_tokens == 3


def test_the_end_of_text_token_has_no_event() -> None:
    """Three events, four tokens, finish "stop": the fourth is the end of text, which shows nothing."""
    stopped = stream((0.5, None), (1.0, None), (1.5, None), completion=4, finish="stop")
    assert stream_figures(stopped, SENT_AT, 1.0).tpot_seconds == pytest.approx(0.5)


def test_no_figure_per_token_when_the_weights_are_unknown() -> None:
    """Three events, nine tokens: where the other six are, nobody said."""
    figures = stream_figures(stream((0.5, None), (1.0, None), (1.5, None), completion=9), SENT_AT, 1.0)
    assert (figures.tpot_seconds, figures.itl_gaps_seconds) == (None, ())
    assert figures.e2e_seconds == pytest.approx(1.5)
    assert figures.output_tokens == 9
    assert figures.flags == ("token_weights_unknown",)


def test_no_count_at_all() -> None:
    figures = stream_figures(stream((0.5, None), (1.0, None)), SENT_AT, 1.0)
    assert (figures.tpot_seconds, figures.itl_gaps_seconds, figures.output_tokens) == (None, (), None)
    assert figures.flags == ("usage_missing",)


def test_a_parsers_last_words_do_not_spoil_the_count() -> None:
    """Text held back comes out at the end with no new token: 3 tokens over 4 events."""
    figures = stream_figures(stream((0.5, 1), (1.0, 2), (1.5, 3), (1.5, 3)), SENT_AT, 1.0)
    assert figures.output_tokens == 3
    assert figures.tpot_seconds == pytest.approx(0.5)


def test_no_tokens_no_figures() -> None:
    figures = stream_figures(ChatStream(), SENT_AT, 1.0)
    assert figures.ttft_seconds is None
    assert figures.e2e_seconds is None
