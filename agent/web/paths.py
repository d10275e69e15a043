"""Every address of the server with what it is for: the index at /api/v1 and the words of a 404 come from here."""

PATHS = {
    "/": "the page for people",
    "/metrics": "the agent's own metrics, for Prometheus",
    "/api/v1": "this list",
    "/api/v1/status": "the verdict in words",
    "/api/v1/slos": "state, budget and burn rates of every SLO",
    "/api/v1/alerts": "alerts that fire and that ended lately",
    "/api/v1/recommendations": "advice with its evidence",
    "/api/v1/capacity": "what engines have shown of their step time",
    "/api/v1/targets": "what is watched, and how it stands",
    "/api/v1/gpus": "whose processes hold the memory of each GPU, by pod",
    "/api/v1/signals": "latencies, rates and levels; window_seconds=60, 300 or 3600",
    "/api/v1/probes": "the latest canary results",
    "/api/v1/history": "the last hour of the page's sparklines",
    "/api/v1/outcomes": "what the codes of scrapes and canaries mean",
    "/probe": "one canary now, as Prometheus text; target=URL",
    "/-/healthy": "200 while the agent lives",
    "/-/ready": "200 once something has been evaluated",
    "/-/reload": "POST: read the config file again",
}
