"""Asking the real servers over HTTP, as a person with curl would."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

ANSWER_SECONDS = 20.0


def get_text(url: str, **query: str) -> str:
    """The body. Raises OSError (URLError, HTTPError, TimeoutError) when there is none."""
    address = f"{url}?{urlencode(query)}" if query else url
    with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:  # noqa: S310  our own servers
        return str(answer.read().decode())


def post(url: str) -> str:
    """What a POST of nothing is answered."""
    request = urllib.request.Request(url, data=b"", method="POST")  # noqa: S310  our own servers
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
        return str(answer.read().decode())


def get_json(url: str, **query: str) -> Any:
    """The body as JSON."""
    return json.loads(get_text(url, **query))


@contextmanager
def webhook() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A receiver for Alertmanager: its address, and the (alert name, status) pairs it was told, in order."""
    told: list[tuple[str, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.extend((alert["labels"]["alertname"], alert["status"]) for alert in body["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
