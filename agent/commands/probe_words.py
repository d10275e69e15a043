"""What a canary noticed, in words: the flags of a probe result."""

from probes.canary.flags import FLAGS


def flag_words(flag: str) -> str:
    """The sentence for a flag, with the flag itself; the flag alone where there is none."""
    return f"{flag}: {FLAGS[flag]}" if flag in FLAGS else flag
