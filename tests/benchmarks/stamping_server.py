"""A chat server in a process of its own that notes when it wrote each token: `python stamping_server.py`.

Prints its port. `GET /truth` is {request id: [time before and after each token's write]}, on CLOCK_MONOTONIC, which
all processes of a machine share.
"""

# ruff: noqa: T201 - the port is printed for whoever started it

import asyncio
import json
import random
import time

TOKENS = 24
GAP_SECONDS = 0.020
_TRUTH: dict[str, list[tuple[float, float]]] = {}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request: the truth, or a stream."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    if head.startswith("GET /truth "):
        body = json.dumps(_TRUTH).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body)
    elif head.startswith("GET "):  # a bench also looks for a metrics page
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    else:
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        await reader.readexactly(int(fields.get("content-length", 0)))
        await _stream(fields.get("x-request-id", ""), writer)
    await writer.drain()
    writer.close()


async def _stream(name: str, writer: asyncio.StreamWriter) -> None:
    stamps = _TRUTH.setdefault(name, [])
    writer.write(_HEAD)
    await asyncio.sleep(0.05 + random.random() * GAP_SECONDS)  # noqa: S311 - a phase, no secret
    for number in range(1, TOKENS + 1):
        finish = "length" if number == TOKENS else None
        choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": finish}
        usage = {"prompt_tokens": 9, "completion_tokens": number}
        chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [choice], "usage": usage}
        event = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        before = time.perf_counter()
        writer.write(event)
        stamps.append((before, time.perf_counter()))
        await asyncio.sleep(GAP_SECONDS)
    writer.write(b"data: [DONE]\n\n")


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
