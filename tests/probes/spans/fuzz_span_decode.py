"""Coverage-guided fuzzing of the span decoder, for as long as one likes; not part of the test suite.

Usage: pip install atheris, then: python tests/probes/spans/fuzz_span_decode.py -max_total_time=600 -rss_limit_mb=400
"""

import contextlib
import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found]

sys.path[:0] = [str(Path(__file__).parent)]

with atheris.instrument_imports(include=["probes.spans"]):
    from span_bodies import export, span
    from test_span_fuzz import check

    from probes.spans.wire import WireError, check_export


def one_body(body: bytes) -> None:
    """Whatever comes is decoded and checked; the first look may say no to it."""
    with contextlib.suppress(WireError):
        check_export(body)
    check(body)


def seeds(folder: Path) -> Path:
    """A few real bodies to begin with."""
    folder.mkdir(parents=True, exist_ok=True)
    for count in (0, 1, 3):
        (folder / f"{count}.pb").write_bytes(export([span() for _ in range(count)], service__name="chat"))
    return folder


if __name__ == "__main__":
    corpus = seeds(Path(".cache") / "fuzz-spans")
    atheris.Setup([*sys.argv, str(corpus)], one_body)
    atheris.Fuzz()
