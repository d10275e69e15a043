"""A target's part in serving, from the labels it came with, and which label said so."""

from collections.abc import Mapping

# llm-d's words (llm-d.ai/role, disaggregatedset.x-k8s.io/role) and ours. `both` is llm-d's older word for what serves
# alone; an encoder's replica counts with what it does for requests.
ROLES: Mapping[str, str] = {
    "aggregated": "aggregated",
    "both": "aggregated",
    "prefill-decode": "aggregated",
    "encode-prefill-decode": "aggregated",
    "prefill": "prefill",
    "encode-prefill": "prefill",
    "decode": "decode",
}
LABELS = ("role", "llm-d.ai/role", "disaggregatedset.x-k8s.io/role", "__meta_kubernetes_pod_label_llm_d_ai_role")


def role_of(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """(role, evidence) by the first label that says one we know; None where none does: then it serves alone."""
    return next(
        ((ROLES[labels[label]], f"{label}={labels[label]}") for label in LABELS if labels.get(label) in ROLES), None
    )
