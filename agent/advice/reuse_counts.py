"""The reuse curve from what pages count: hits of both caches, and how long blocks and chunks lay."""

from dataclasses import dataclass
from math import exp, expm1

from agent.advice.reuse import ReuseCurve
from agent.signals.sums import Sums
from agent.stats.buckets import Buckets
from agent.stats.truncated import Piece, truncated_exponential

LEAST_LIVES = 30.0  # evicted blocks, chunks or reuses
GIVEN_UP_SECONDS = 300.0  # LMCache counts a chunk that nobody missed there: only buckets below tell of misses
LATE, LATER = 0.5, 4.0  # the second half of what was seen tells how it goes on; for so many times as long
MOST_AGAIN_RATIO = 0.5  # facts/recommend.md 2: up to 50 % reuse in the traces of a large service


@dataclass(frozen=True, slots=True)
class Found:
    """Parts of the prompt tokens: found by the engines' own cache, and loaded from the tier. `tokens` are all."""

    tokens: float
    engine_ratio: float
    tier_ratio: float
    seconds: float


def found_of(sums: Sums) -> Found | None:
    """None where the pages do not count lookups, or nothing was asked."""
    asked, hits = sums.counter("prefix_cache_queried_tokens_total"), sums.counter("prefix_cache_hit_tokens_total")
    seconds = sums.covered_seconds("vllm")
    if not asked or hits is None or seconds <= 0:
        return None
    return Found(asked, hits / asked, (sums.counter("external_cache_hit_tokens_total") or 0.0) / asked, seconds)


def engine_memory_seconds(sums: Sums, kv_tokens: float, replicas: int) -> float | None:
    """How long an engine's own cache remembers: measured, or from its free room over what comes in."""
    idle = sums.histogram("kv_block_idle_before_evict_seconds")
    if idle is not None and idle.total is not None and idle.count >= LEAST_LIVES:
        return idle.total / idle.count
    usage, seconds = sums.level("kv_usage_ratio", as_mean=True), sums.covered_seconds("vllm")
    written = _written_tokens(sums)
    if usage is None or not written or seconds <= 0:
        return None
    return kv_tokens * (1 - usage.mean) * replicas / (written / seconds)


def curve_without_tier(sums: Sums, found: Found, remembered_seconds: float) -> ReuseCurve:
    """From the engines alone: beyond what they remember only --kv-cache-metrics tell, by the gaps between reuses."""
    seen = ((remembered_seconds, found.engine_ratio),)
    pieces = _engine_pieces(sums, found, remembered_seconds)
    if not pieces:
        return ReuseCurve(remembered_seconds, seen, None, 0.0, "hits of the engines' own cache")
    more, mean = _later(pieces, 1 - found.engine_ratio)
    return ReuseCurve(remembered_seconds, seen, more, mean, "gaps between reuses of the engines' blocks")


def curve_with_tier(
    sums: Sums, cache: Sums, found: Found, engine_seconds: float, held_seconds: float | None
) -> ReuseCurve | None:
    """With a tier behind them: its server's page tells how long it remembers, and what it has just forgotten.

    `held_seconds` is its size in seconds of what is asked; None: not known. None where neither tells.
    """
    total = found.engine_ratio + found.tier_ratio
    gaps, idle = cache.histogram("cache_reuse_gap_seconds"), cache.histogram("cache_idle_before_evict_seconds")
    is_full = idle is not None and idle.total is not None and idle.count >= LEAST_LIVES
    evicted = cache.counter("cache_evicted_chunks_total")
    if gaps is None or gaps.count < LEAST_LIVES or (evicted and not is_full):
        return _curve_by_size(sums, found, engine_seconds, held_seconds)
    longest = idle.total / idle.count if is_full and idle is not None and idle.total else _top(gaps)
    longest = max(longest, 1.01 * engine_seconds)
    pieces = _scaled(_pieces(gaps, engine_seconds, longest), found.tier_ratio)
    points = [(engine_seconds, found.engine_ratio)]
    for piece in pieces:
        points.append((piece.high, points[-1][1] + piece.share))
    if not is_full:
        told = "gaps between uses of the tier's chunks; nothing was evicted"
        return ReuseCurve(longest, tuple(points), 0.0, longest, told)
    missed = cache.histogram("cache_evict_reuse_gap_seconds")
    if idle is not None and missed is not None and missed.count >= LEAST_LIVES:
        later = _missed(missed, longest, (1 - total) / idle.count)
        for piece in later:
            points.append((piece.high, points[-1][1] + piece.share))
        pieces += later
    told = "gaps between uses of the tier's chunks, evicted ones too"
    more, mean = _later(pieces, 1 - points[-1][1])
    return ReuseCurve(longest, tuple(points), more, mean, told)


def _curve_by_size(sums: Sums, found: Found, engine_seconds: float, held_seconds: float | None) -> ReuseCurve | None:
    """Two points only: what the engines remember, and what the tier does by its size."""
    if held_seconds is None:
        return None
    engine, total = found.engine_ratio, found.engine_ratio + found.tier_ratio
    held_by_engine = engine_seconds * (1 - engine / 2)
    longer = max(0.0, held_seconds - held_by_engine) / max(1e-9, 1 - (engine + total) / 2)
    seen = ((engine_seconds, engine), (engine_seconds + max(longer, 1e-9), total))
    mean = truncated_exponential(_engine_pieces(sums, found, engine_seconds))
    if mean is None or found.tier_ratio <= 0:
        told = "hits of the engines' own cache and of the tier, by its size"
        return ReuseCurve(seen[-1][0], seen, None, 0.0, told)
    more = found.tier_ratio * exp(-longer / mean) / -expm1(-longer / mean)
    told = "hits of the tier, and gaps between reuses of the engines' blocks"
    return ReuseCurve(seen[-1][0], seen, more, mean, told)


def _later(pieces: list[Piece], missed_ratio: float) -> tuple[float, float]:
    """What comes again later than was seen, and how much later on average: an exponential law that goes on as these
    pieces end. At most half of what is not found now ever comes again: more was not seen in traces.

    What is asked for by many comes again at once, what few ask for late: the law of the late ones is the slower, so its
    mean is not taken to be shorter than a few times what was seen.
    """
    span = pieces[-1].high - pieces[0].low
    last = [piece for piece in pieces if piece.high > pieces[0].low + LATE * span]
    now = sum(piece.share for piece in last) / (last[-1].high - last[0].low)
    mean = max(truncated_exponential(pieces) or 0.0, LATER * span)
    more = min(MOST_AGAIN_RATIO * max(0.0, missed_ratio), now * mean)
    return more, max(more / now, 1e-3) if now > 0 else span


def _engine_pieces(sums: Sums, found: Found, remembered_seconds: float) -> list[Piece]:
    """Reuses of blocks that were evicted in the end, as parts of the prompt tokens; empty where too few were told.

    A block's life less its idle end is the time in which it was reused: over the mean gap, so many times.
    """
    life, idle, gaps = (
        sums.histogram(f"kv_block_{what}_seconds") for what in ("lifetime", "idle_before_evict", "reuse_gap")
    )
    if life is None or idle is None or gaps is None or not gaps.total or gaps.count < LEAST_LIVES:
        return []
    written = _written_tokens(sums)
    if life.total is None or idle.total is None or not life.count or written is None:
        return []
    reuses = (life.total - idle.total) / life.count / (gaps.total / gaps.count)
    share = min(found.engine_ratio, reuses * written / found.tokens)
    return _scaled(_pieces(gaps, 0.0, remembered_seconds), share)


def _written_tokens(sums: Sums) -> float | None:
    """Tokens whose KV was newly held by the engines: computed, loaded or made; None where a page does not tell."""
    names = ("prompt_tokens_total", "prefix_cache_hit_tokens_total", "generation_tokens_total")
    prompt, hits, made = (sums.counter(name) for name in names)
    return None if prompt is None or hits is None or made is None else max(0.0, prompt - hits) + made


def _top(gaps: Buckets) -> float:
    """The upper edge of the last bucket that holds any."""
    return max(edge for edge, count in zip(gaps.edges, gaps.counts, strict=True) if count > 0 and edge < float("inf"))


def _pieces(gaps: Buckets, low: float, high: float) -> list[Piece]:
    """The buckets between the two, those cut by an end in proportion; what lies above the end counts to the last."""
    found: list[Piece] = []
    before = 0.0
    for edge, count in zip(gaps.edges, gaps.counts, strict=True):
        a, b = max(before, low), min(edge, high)
        if b > a:
            width = (edge if edge < float("inf") else high) - before
            found.append(Piece(a, b, count * min(1.0, (b - a) / width) if a > before else count))
        before = edge
    return found


def _missed(missed: Buckets, since: float, each: float) -> list[Piece]:
    """What was asked for again after it was evicted, as pieces that follow each other."""
    found, before = [], 0.0
    for edge, count in zip(missed.edges, missed.counts, strict=True):
        if edge < GIVEN_UP_SECONDS:
            found.append(Piece(since + before, since + edge, count * each))
            before = edge
    return found


def _scaled(pieces: list[Piece], total: float) -> list[Piece]:
    whole = sum(piece.share for piece in pieces)
    return [Piece(low, high, total * share / whole if whole else 0.0) for low, high, share in pieces]
