"""Workers that their router takes to be ill."""

from agent.windows import Windows


def ill_workers(windows: Windows, router: str) -> list[str]:
    """Their addresses, by the newest page of this router."""
    return sorted(
        label
        for key, raw in windows.raw.items()
        if key.target == router
        for (signal, label), value in raw.gauges.items()
        if signal == "router_worker_health_state" and value == 0
    )
