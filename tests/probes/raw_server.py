"""A server that answers exactly the bytes a test wants, however wrong, on a free port of the loopback address."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class RawServer:
    """Where it listens, and what it was asked: the head of every request."""

    port: int
    asked: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def raw_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Listening for as long as the context lasts; afterwards its connections are gone too."""
    served = RawServer(0)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            served.asked.append(head.decode())
            served.in_flight += 1
            served.most_in_flight = max(served.most_in_flight, served.in_flight)
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            served.in_flight = max(0, served.in_flight - 1)
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def sends(*pieces: bytes, pause_seconds: float = 0.0) -> Answer:
    """Write the pieces, one after the other, then close."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if pause_seconds:
                await asyncio.sleep(pause_seconds)

    return answer


def page(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Answer:
    """A whole HTTP answer; `length` announces another length than the body has."""
    announced = len(body) if length is None else length
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {announced}", "Connection: close", *headers])
    return sends(f"{head}\r\n\r\n".encode(), body)


async def hangs(_writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await asyncio.sleep(3600)


async def drips(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        writer.write(b"#")
        await writer.drain()
        await asyncio.sleep(0.02)
