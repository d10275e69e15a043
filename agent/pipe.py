"""Reading a pipe that perhaps nobody writes into: told after a while, instead of waiting for ever."""

import os
import select
import time
from pathlib import Path

PATIENCE_SECONDS = 10.0
_PART_BYTES = 65_536


def read_pipe(path: Path, patience_seconds: float = PATIENCE_SECONDS) -> str:
    """All that is written into the pipe until its writers close it. Raises TimeoutError where for `patience_seconds`
    nothing comes; OSError and UnicodeDecodeError as reading a file does.
    """
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    parts: list[bytes] = []
    try:
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline:
            ready, _, _ = select.select([pipe], [], [], 0.1)
            if not ready:
                continue
            part = os.read(pipe, _PART_BYTES)
            if part:
                parts.append(part)
                deadline = time.monotonic() + patience_seconds
            elif parts:
                return b"".join(parts).decode("utf-8")
            else:
                time.sleep(0.05)  # no writer has opened it yet
        raise TimeoutError(f"nobody wrote into this pipe for {patience_seconds:g} s")
    finally:
        os.close(pipe)
