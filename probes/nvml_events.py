"""XID errors: events that the driver tells once, caught by a thread of their own.

An XID is an edge: whoever does not wait at that moment never learns of it, and a level (the last XID ever) cannot be
told from a new one. Not on vGPU guests, and some containers may not register.
"""

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

XID: Final = 8  # nvmlEventTypeXidCriticalError
TIMEOUT: Final = 10  # NVML_ERROR_TIMEOUT: nothing happened
WAIT_MILLISECONDS: Final = 1000  # so long a stop takes at most


@dataclass(slots=True)
class XidWatch:
    """Counts XID errors by GPU and code from its start on. `trouble` says why it cannot, "" when it can."""

    library: Any
    trouble: str = ""
    _counts: dict[int, Counter[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, count: int) -> None:
        """Watch this many GPUs. A library that was started anew needs this anew; counts go on."""
        self.stop()
        try:
            events = self.library.nvmlEventSetCreate()
            for index in range(count):
                self.library.nvmlDeviceRegisterEvents(self.library.nvmlDeviceGetHandleByIndex(index), XID, events)
        except self.library.NVMLError as error:
            self.trouble = f"XID errors are not seen: {error}"
            return
        self.trouble, self._stop = "", threading.Event()
        with self._lock:
            for index in range(count):
                self._counts.setdefault(index, Counter())
        self._thread = threading.Thread(target=self._watch, args=(events, self._stop), name="nvml-xid", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """At once for the caller: the thread ends by itself within a second."""
        self._stop.set()
        self._thread = None

    def counts(self, index: int) -> Counter[int] | None:
        """XID errors of that GPU by code since the start; None where they are not seen."""
        with self._lock:
            known = self._counts.get(index)
            return None if known is None or self.trouble else Counter(known)

    def _watch(self, events: Any, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                event = self.library.nvmlEventSetWait_v2(events, WAIT_MILLISECONDS)
                index = self.library.nvmlDeviceGetIndex(event.device)
            except self.library.NVMLError as error:
                if error.value == TIMEOUT:
                    continue
                if not stop.is_set():
                    self.trouble = f"XID errors are not seen any more: {error}"
                break
            if event.eventType == XID:
                with self._lock:
                    self._counts.setdefault(index, Counter())[int(event.eventData)] += 1
        with contextlib.suppress(self.library.NVMLError):
            self.library.nvmlEventSetFree(events)
