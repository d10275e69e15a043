"""A real Chromium, driven over its own debugging protocol: open a page, ask it questions, look at it."""

import asyncio
import base64
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession, ClientWebSocketResponse

START_SECONDS = 60.0
ANSWER_SECONDS = 60.0  # a loaded machine runs several browsers at once


def chromium() -> str | None:
    """Where Chromium is on this machine; None where it is not."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


@dataclass(slots=True)
class Page:
    """One tab. `complaints` collects console errors, uncaught exceptions and breaches of the security policy."""

    socket: ClientWebSocketResponse
    complaints: list[str] = field(default_factory=list)
    ids: itertools.count = field(default_factory=lambda: itertools.count(1))

    async def call(self, method: str, **params: object) -> dict:
        number = next(self.ids)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                said = await self.socket.receive_json()
                self._note(said)
                if said.get("id") == number:
                    assert "error" not in said, said
                    return said["result"]

    async def ask(self, expression: str) -> object:
        """The value of a JavaScript expression; promises are awaited."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until it is true."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not await self.ask(f"!!({expression})"):  # noqa: ASYNC110  the page has no event for us
                await asyncio.sleep(0.05)

    async def open(self, url: str, width: int = 1400, scheme: str = "light", height: int = 900) -> None:
        """Show the page at this width and wait for its first data."""
        await self.call("Runtime.enable")
        await self.call("Log.enable")
        await self.call("Page.enable")
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("Page.navigate", url=url)
        await self.until("document.body?.dataset.ready === 'yes'")

    async def text(self, selector: str) -> str:
        """What a person can read there; narrow blanks as blanks."""
        said = await self.ask(f"document.querySelector({selector!r}).innerText")
        return str(said).replace("\u202f", " ")

    async def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        shot = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(shot["data"]))

    def _note(self, said: dict) -> None:
        params = said.get("params", {})
        match said.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert", "warning"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(str(params["entry"]))


@contextlib.asynccontextmanager
async def started(binary: str, folder: Path) -> AsyncIterator[Page]:
    """Chromium with one empty tab; it is gone afterwards."""
    arguments = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")
    process = await asyncio.create_subprocess_exec(
        binary,
        *arguments,
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as listing:
                tab = next(tab for tab in await listing.json() if tab["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(START_SECONDS):
        while not (lines := await asyncio.to_thread(_lines, file)):  # noqa: ASYNC110  Chromium only writes a file
            await asyncio.sleep(0.05)
    return int(lines[0])


def _lines(file: Path) -> list[str]:
    text = file.read_text() if file.exists() else ""
    return text.splitlines() if "\n" in text else []
