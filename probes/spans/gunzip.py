"""gzip, with a limit on what comes out: 4 MB of zeros can become 4 GB."""

import zlib
from typing import Final

_GZIP_WINDOW: Final = 31  # zlib's word for "with a gzip header"


class GunzipError(ValueError):
    """Not gzip'd, or cut off."""


class TooLargeError(ValueError):
    """More comes out than is allowed."""


def gunzip(packed: bytes, most_bytes: int) -> bytes:
    """What was packed, at most `most_bytes` of it ever in memory.

    Raises GunzipError for anything but one whole gzip member, TooLargeError beyond `most_bytes`.
    """
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = unpacker.decompress(packed, most_bytes + 1)
    except zlib.error as error:
        raise GunzipError("the body is not gzip'd as its Content-Encoding says") from error
    if len(body) > most_bytes:
        raise TooLargeError
    if not unpacker.eof or unpacker.unused_data:
        raise GunzipError("the gzip'd body is cut off, or something follows it")
    return body
