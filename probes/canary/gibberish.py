"""Is a text what a language model says, or what a broken engine says?"""

import re
from collections import Counter
from typing import Final

_LEAST_CHARACTERS: Final = 12
_REPEATED_RATIO: Final = 0.8  # of a short answer, one word or one character; counting and lists stay far below
_ODD_RATIO: Final = 0.2
_REPLACEMENT: Final = "\ufffd"


def gibberish(text: str) -> str | None:
    """Why this text is no answer, in words; None when nothing is wrong with it. Short texts are not judged.

    The two ways engines are known to break: one token for ever ("!!!!"), and bytes that are no characters.
    """
    shown = "".join(text.split())
    if len(shown) < _LEAST_CHARACTERS:
        return None
    character, times = Counter(shown).most_common(1)[0]
    if times >= _REPEATED_RATIO * len(shown):
        return f"{times} of {len(shown)} characters are {character!r}"
    words = re.findall(r"\S+", text)
    if len(words) >= _LEAST_CHARACTERS:
        word, times = Counter(words).most_common(1)[0]
        if times >= _REPEATED_RATIO * len(words):
            return f"{times} of {len(words)} words are {word[:20]!r}"
    odd = sum(character == _REPLACEMENT or not character.isprintable() for character in shown)
    if odd >= _ODD_RATIO * len(shown):
        return f"{odd} of {len(shown)} characters cannot be read"
    return None
