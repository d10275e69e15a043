"""A server that writes exactly the bytes it is told to, and breaks off exactly where it is told to."""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

RESET: Final = "reset"  # RST instead of FIN
HANG: Final = "hang"  # say nothing more, keep the connection
UNREAD: Final = "unread"  # first: do not even read the request
FLOOD: Final = "flood"  # the bytes before it again and again, until the other side has had enough

# Bytes are sent, numbers are pauses in seconds, functions are called; at the end of a script the connection is closed.
Step = bytes | float | str | Callable[[], object]
Script = Sequence[Step]


@dataclass(slots=True)
class NastyServer:
    """Answers its connections with the scripts in turn, the last one for ever."""

    scripts: Sequence[Script]
    requests: list[bytes] = field(default_factory=list)
    sent_bytes: int = 0
    connections: int = 0
    port: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def body(self, number: int = -1) -> dict[str, Any]:
        """The JSON of a request that came."""
        return json.loads(self.requests[number].partition(b"\r\n\r\n")[2])

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        self.writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await self._play(script, reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _play(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if UNREAD not in script:
            self.requests.append(await _request(reader))
        last = b""
        for step in script:
            if isinstance(step, bytes):
                await self._send(writer, step)
                last = step
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            elif callable(step):
                step()
            elif step == FLOOD:
                while not writer.is_closing():
                    await self._send(writer, last)
            elif step == HANG:
                try:
                    await reader.read()
                finally:  # a client that goes with bytes unread resets the connection
                    self.hung_up.set()
            elif step == RESET:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        self.sent_bytes += len(data)
        await writer.drain()


@contextlib.asynccontextmanager
async def nasty_server(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[NastyServer]:
    """A server on a loopback port of its own; its connections are gone when the block ends."""
    server = NastyServer(scripts)
    handlers: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.get_running_loop().create_task(server.answer(reader, writer))
        handlers.add(handler)
        handler.add_done_callback(handlers.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for handler in list(handlers):
            handler.cancel()
        for writer in server.writers:
            writer.transport.abort()
        await asyncio.gather(*handlers, return_exceptions=True)
        await listener.wait_closed()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    return head + await reader.readexactly(int(length.partition(b":")[2]))


def head(status: str = "200 OK", content_type: str = "text/event-stream", *more: str) -> bytes:
    """A response head; the body ends with the connection unless `more` says otherwise."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Connection: close", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def reply(status: str, document: Any, *more: str) -> bytes:
    """A whole answer with a JSON body."""
    return head(status, "application/json", *more) + json.dumps(document).encode()


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def chunk(delta: Any, *, finish: str | None = None, used: int | None = None, **more: Any) -> bytes:
    """One chat chunk; `used` is the running count of completion tokens."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    usage = None if used is None else {"prompt_tokens": 9, "completion_tokens": used, "total_tokens": 9 + used}
    return event({"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": usage} | more)


def token(used: int | None, *, finish: str | None = None) -> bytes:
    return chunk({"content": f"word{used} "}, used=used, finish=finish)


def usage(completion: int | None) -> bytes:
    counts = None if completion is None else {"prompt_tokens": 9, "completion_tokens": completion}
    return event({"id": "chatcmpl-1", "model": "m", "choices": [], "usage": counts})


ROLE: Final = chunk({"role": "assistant", "content": ""}, used=0)
DONE: Final = b"data: [DONE]\n\n"
TOKENS: Final = (token(1), 0.004, token(2), 0.004, token(3), 0.004)
GOOD_BODY: Final = (ROLE, *TOKENS, token(4, finish="length"), usage(4), DONE)
GOOD: Final = (head(), *GOOD_BODY)
