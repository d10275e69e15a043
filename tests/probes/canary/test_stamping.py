"""Stamps: what the kernel tells of bytes that came and went, on the clock of a canary, and what they may be off."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from probes.canary.arrival import Arrivals
from probes.canary.lag import LagMonitor
from probes.canary.stamping import QUIET_ERROR_REAL_SECONDS, Stamper, on_clock
from probes.clock import ScaledClock, SystemClock

SO_TIMESTAMPNS = 35  # Linux
EVENT = b"data: {}\n\n"


@dataclass
class HeldUp(SystemClock):
    """A clock whose readings are these, one after the other."""

    readings: list[float] = field(default_factory=list)

    def monotonic_seconds(self) -> float:
        return self.readings.pop(0)


def test_a_reader_of_two_clocks_that_is_held_up_between_them_looks_again() -> None:
    """Of three looks the first is held up for 4 ms and the last for 1 ms: the second one says what time it is."""
    clock = HeldUp([10.0, 10.004, 10.1, 10.100002, 10.2, 10.201])
    at_seconds, off = on_clock(clock, 3_000_000_000, lambda: 5_000_000_000)
    assert at_seconds == pytest.approx(8.100001)
    assert off == pytest.approx(1e-6)


def test_a_scaled_clock_has_its_own_seconds_and_real_errors() -> None:
    """Two real seconds ago are 40 seconds ago at twenty times the speed."""
    clock = ScaledClock(20.0, time.time())
    at_seconds, off = on_clock(clock, 3_000_000_000, lambda: 5_000_000_000)
    assert clock.monotonic_seconds() - at_seconds >= 40.0
    assert 0.0 <= off <= (clock.monotonic_seconds() - at_seconds - 40.0) / 20.0


@dataclass(frozen=True)
class Connection:
    """Both ends of one, ours with the kernel's stamps."""

    ours: socket.socket
    theirs: socket.socket
    arrivals: Arrivals


@pytest.fixture
def connection() -> Iterator[Connection]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arrivals = Arrivals()
        address = listener.getsockname()
        ours = arrivals.make_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", address))
        ours.setblocking(True)  # noqa: FBT003 - the name of the argument is its method's
        ours.connect(address)
        theirs, _ = listener.accept()
        with ours, theirs:
            yield Connection(ours, theirs, arrivals)


def write(connection: Connection, events: int, pause_seconds: float) -> list[int]:
    """So many events, one after the other; when each write began, unix nanoseconds."""
    begun = []
    for _ in range(events):
        begun.append(time.time_ns())
        connection.theirs.sendall(EVENT)
        time.sleep(pause_seconds)
    return begun


def test_what_is_sent_is_sent_within_the_call(connection: Connection) -> None:
    before = time.perf_counter_ns()
    connection.ours.send(b"GET / ")
    connection.ours.sendmsg([b"HTTP/1.1", b"\r\n\r\n"])
    assert connection.arrivals.written_bytes == 18
    assert connection.arrivals.sent_between_ns is not None
    begun, ended = connection.arrivals.sent_between_ns
    assert before < begun < ended < time.perf_counter_ns()


def test_events_that_are_read_in_time_have_their_own_stamps(connection: Connection) -> None:
    """Read late, but one at a time: as nothing was left in the socket before, the stamp is of that event alone."""
    stamper = Stamper(SystemClock(), LagMonitor(), connection.arrivals)
    for _ in range(3):
        sent_at = time.perf_counter()
        write(connection, 1, 0.0)
        taken_at = time.perf_counter()
        time.sleep(0.02)
        assert connection.ours.recv(4096) == EVENT
        assert sent_at <= stamper.stamp() + stamper.error_real_seconds
        assert stamper.stamp() - stamper.error_real_seconds <= taken_at + 0.02


def test_events_that_wait_together_have_a_bar_that_reaches_back_to_the_first(connection: Connection) -> None:
    """The kernel may give both the stamp of the last one; before the first the socket was seen empty."""
    stamper = Stamper(SystemClock(), LagMonitor(), connection.arrivals)
    write(connection, 1, 0.0)
    connection.ours.recv(4096)
    stamper.stamp()
    first_at_ns, last_at_ns = write(connection, 2, 0.02)
    assert connection.ours.recv(4096) == connection.ours.recv(4096) == EVENT
    stamper.stamp()
    stamper.share()
    assert stamper.error_real_seconds >= (last_at_ns - first_at_ns) / 1e9


def test_a_beat_of_the_loop_tells_that_nothing_waited(connection: Connection) -> None:
    """The socket was last read long ago, but the loop has looked since: nothing can have come before that."""
    connection.arrivals.lag = LagMonitor()
    stamper = Stamper(SystemClock(), connection.arrivals.lag, connection.arrivals)
    time.sleep(0.02)
    connection.arrivals.lag.read_until_ns = looked_at_ns = time.time_ns()
    write(connection, 2, 0.0)
    connection.ours.recv(4096)
    stamper.stamp()
    stamper.share()
    assert connection.arrivals.stamped_at_ns is not None
    assert stamper.error_real_seconds == pytest.approx((connection.arrivals.stamped_at_ns - looked_at_ns) / 1e9)


def test_what_is_left_over_came_no_later_than_what_was_read(connection: Connection) -> None:
    """A beat between two reads says nothing of what the first one left in the socket."""
    connection.arrivals.lag = LagMonitor()
    write(connection, 2, 0.0)
    connection.ours.recv(4096)
    after_ns = connection.arrivals.after_ns
    connection.arrivals.lag.read_until_ns = time.time_ns()
    connection.ours.recv(4096)
    assert connection.arrivals.after_ns == after_ns


def test_without_a_stamp_of_the_kernel_it_is_now_and_the_lag_is_the_error() -> None:
    stamper = Stamper(SystemClock(), LagMonitor(), Arrivals())
    before = time.perf_counter()
    assert before <= stamper.stamp() <= time.perf_counter()
    assert stamper.error_real_seconds == QUIET_ERROR_REAL_SECONDS


def test_what_the_kernel_did_not_stamp_has_not_the_stamp_of_what_came_before(connection: Connection) -> None:
    stamper = Stamper(SystemClock(), LagMonitor(), connection.arrivals)
    connection.arrivals.stamped_at_ns = time.time_ns()
    before = stamper.stamp()
    connection.ours.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 0)
    write(connection, 1, 0.0)
    connection.ours.recv(4096)
    assert connection.arrivals.stamped_at_ns is None
    assert stamper.stamp() > before
    assert stamper.error_real_seconds >= QUIET_ERROR_REAL_SECONDS


def test_the_end_of_the_stream_takes_no_stamp_away(connection: Connection) -> None:
    """Both may be read before the piece is looked at."""
    write(connection, 1, 0.0)
    connection.theirs.close()
    assert connection.ours.recv(4096) == EVENT
    stamped_at_ns = connection.arrivals.stamped_at_ns
    assert connection.ours.recv(4096) == b""
    assert connection.ours.recv_into(bytearray(8)) == 0
    assert connection.arrivals.stamped_at_ns == stamped_at_ns is not None


def test_a_wall_clock_that_was_set_is_not_believed() -> None:
    """The kernel's stamp lies an hour ahead of the time that it is now."""
    stamper = Stamper(SystemClock(), LagMonitor(), Arrivals(stamped_at_ns=time.time_ns() + 3_600_000_000_000))
    before = time.perf_counter()
    assert before <= stamper.stamp() <= time.perf_counter()
