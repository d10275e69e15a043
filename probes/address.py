"""Addresses that people write into a config."""

from urllib.parse import urlsplit


def http_url(url: str) -> str:
    """The address without a slash at its end, for a pydantic validator. Raises ValueError where it is none of HTTP, or
    holds a user or a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address such as http://vllm-0:8000")
    if parts.username or parts.password:
        raise ValueError("no user or password in an address: put the secret into a file and name it in auth")
    return url.rstrip("/")
