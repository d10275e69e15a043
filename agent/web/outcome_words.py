"""What the codes of scrapes and canaries mean, in words for people; the code stands beside them for machines."""

import re

from probes.canary.outcomes import OUTCOMES

SCRAPES = {
    "timeout": "no answer in time",
    "tls_error": "no trusted TLS connection",
    "bad_address": "the address is no valid URL",
    "disconnected": "the connection was closed without an answer",
    "not_http": "what answers there does not speak HTTP",
    "bad_encoding": "the page cannot be decompressed",
    "protocol_error": "the answer cannot be read",
    "html": "a web page, not metrics",
    "not_vllm": "a metrics page, but not vLLM's",
    "not_lmcache": "a metrics page, but not LMCache's",
    "not_mooncake": "a metrics page, but not a Mooncake store's",
    "not_dynamo_frontend": "a metrics page, but not that of Dynamo's front end",
    "not_dynamo_worker": "a metrics page, but not a Dynamo worker's",
    "not_llm_d_epp": "a metrics page, but not that of llm-d's endpoint picker",
    "not_vllm_router": "a metrics page, but not vllm-router's",
    "not_production_stack_router": "a metrics page, but not that of production-stack's router",
    "not_dcgm": "a metrics page, but not the DCGM exporter's",
    "nvml_error": "the GPU driver gives no figures",
    "scrape_timeout": "the asker's time was over",
}
WORDS = {**{code: one.meaning for code, one in OUTCOMES.items()}, **SCRAPES, "ok": "ok"}
STATUS = re.compile(r"status_(\d{3})")


def meaning(code: str) -> str | None:
    """The words for a code; None where there are none, as for a code of a newer probe."""
    if code in WORDS:
        return WORDS[code]
    status = STATUS.fullmatch(code)
    return f"HTTP {status[1]}" if status else None


def spoken(code: str) -> str:
    """Words with the code behind them: "nothing listens there (connect_refused)"."""
    words = meaning(code)
    return f"{words} ({code})" if words else code
