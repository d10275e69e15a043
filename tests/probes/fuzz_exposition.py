"""Coverage-guided fuzzing of the page parser, for as long as one likes; not part of the test suite.

Usage: pip install atheris, then: python tests/probes/fuzz_exposition.py -max_total_time=600 -max_len=3000
"""

import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found]

HERE = Path(__file__).parent
LINES = 12  # of a real page make one seed: short ones are tried often
sys.path[:0] = [str(HERE)]

with atheris.instrument_imports(include=["probes.exposition", "probes.page", "probes.assembly", "probes.place"]):
    from exposition_checks import check


def one_page(body: bytes) -> None:
    """Whatever comes is read as a page of every system and checked."""
    check(body.decode("utf-8", errors="replace"))


def seeds(folder: Path) -> Path:
    """Real pages, and those that once were trouble."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in [*(HERE.parent / "fixtures" / "pages").glob("*"), *(HERE / "exposition_corpus").glob("*")]:
        lines = [line for line in page.read_bytes().splitlines(keepends=True) if not line.startswith(b"#")]
        for start in range(0, min(len(lines), 400), LINES):
            (folder / f"{page.name}-{start}").write_bytes(b"".join(lines[start : start + LINES]))
    return folder


if __name__ == "__main__":
    atheris.Setup([*sys.argv, str(seeds(Path(".cache") / "fuzz-exposition"))], one_page)
    atheris.Fuzz()
