"""Words of a server made fit for a result: no secret, one line, short."""

import json
import re
from collections.abc import Iterable

REDACTED = "[redacted]"
_CREDENTIALS = re.compile(
    r"(?i)bearer\s+[^\s\"',;]+"  # what an Authorization header holds
    r"|\b(?:sk|hf|pat|ghp|xox[abp])[-_][A-Za-z0-9_\-]{6,}"  # the usual prefixes of keys
    r"|//[^/@\s]+:[^/@\s]*@"  # user and password of a URL
)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")


def redact(text: str, secrets: Iterable[str | None], limit_characters: int = 200) -> str:
    """The text without the secrets, anything that looks like a credential and control characters, cut to the limit.

    A server may echo a secret as it came or as a JSON string; both go. Redacts before it cuts, so no half is left.
    """
    for secret in sorted({secret for secret in secrets if secret}, key=len, reverse=True):
        for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(form, REDACTED)
    text = _CREDENTIALS.sub(REDACTED, text)
    return _UNPRINTABLE.sub(" ", text).strip()[:limit_characters]
