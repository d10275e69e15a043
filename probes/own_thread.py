"""Calls that block and cannot be stopped, each in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


async def in_own_thread(call: Callable[[], Answer]) -> Answer:
    """What `call` returns, from a daemon thread: one that never returns keeps neither loop nor exit waiting."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def settle(value: Answer | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]  # no error: it is the answer

    def work() -> None:
        value: Answer | None = None
        failure: Exception | None = None
        try:
            value = call()
        except Exception as error:  # noqa: BLE001  handed on to whoever waits
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=work, name="blocking-call", daemon=True).start()
    return await answer
