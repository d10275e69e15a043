"""Repeatable randomness: one independent stream per purpose, so that one more draw here moves nothing there."""

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """The random stream of that seed for that purpose."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - a simulation must be repeatable, not secret
