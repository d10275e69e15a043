"""The address of a server, however it was written."""

from urllib.parse import urlsplit


def base_url(url: str) -> str | None:
    """The server's base without /v1; None for what is no http(s) URL with a host."""
    try:
        parts = urlsplit(url.strip())
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    return url.strip().rstrip("/").removesuffix("/v1") if is_usable else None
