"""How much of what comes in is kept, read and waited for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpanLimits:
    """Bounds against a sender that is too fast or hostile; the defaults hold a vLLM batch (512 spans) 20 times.

    A vLLM span takes 0.6 kB, and an OTel Collector sends 8192 spans in one body where nothing else is set: 5 MB.
    """

    wire_bytes: int = 4 << 20  # one HTTP body as sent
    body_bytes: int = 8 << 20  # one body after decompression, and one gRPC message
    receive_seconds: float = 10.0  # from a request's head to the end of its body
    receiving_bodies: int = 8  # at once, each protocol
    waiting_bodies: int = 256  # between receiving and decoding
    waiting_bytes: int = 32 << 20
    retry_after_seconds: int = 1
    spans_per_body: int = 20_000
    span_bytes: int = 64 << 10  # one span or resource; a larger one is counted and left out
    attributes: int = 128  # read of one span or resource; the SDK's own default limit
    text_characters: int = 256
