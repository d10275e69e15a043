"""One JSON answer over HTTP, bounded in bytes."""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

MAX_BYTES = 64_000_000  # a list of 10,000 pods is about 50 MB; no list of targets is larger


async def get_json(
    session: aiohttp.ClientSession,
    url: str,
    *,
    params: Mapping[str, str] | None = None,
    token_file: Path | None = None,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """The answer's JSON. The token is read anew, since Kubernetes replaces it; time is the caller's to bound.

    Raises OSError, ValueError or aiohttp.ClientError; the words are ours, never the server's.
    """
    headers = {"Accept": "application/json"}
    if token_file is not None:
        headers["Authorization"] = f"Bearer {_token(token_file)}"
    async with session.get(
        url, headers=headers, params=params, allow_redirects=False, ssl=True if tls is None else tls
    ) as answer:
        if answer.status != 200:
            raise ValueError(f"HTTP {answer.status}{_hint(answer.status)}")
        body = bytearray()
        async for part in answer.content.iter_any():
            body += part
            if len(body) > MAX_BYTES:
                raise ValueError(f"the answer is larger than {MAX_BYTES} bytes")
    return json.loads(bytes(body))


def _token(file: Path) -> str:
    """A few bytes from a local file: quicker read than handed to a thread."""
    return file.read_text(encoding="utf-8").strip()


def _hint(status: int) -> str:
    if status == 401:
        return ": the token is missing, expired or not known there"
    if status == 403:
        return ": the token may not read this; for pods it needs the verb list on pods (deploy/kubernetes/rbac.yaml)"
    if 300 <= status < 400:
        return ": a redirect is not followed; write the address it leads to"
    return ""
