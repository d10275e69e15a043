"""Which share of the requests that ended have sent their span: what is exact about spans is exact about that share."""


def coverage(spans: int | None, finished: float | None) -> float | None:
    """Spans received over requests the server's own counters say it finished, of one stretch; None when unknown.

    Both hold the canaries, neither holds a request whose client hung up. Below 1 spans were lost (sampled out by a
    client's `traceparent`, overflown in the exporter, refused here) or are still on their way: an exporter sends
    every 5 s. Above 1 the two count different servers. Units: dimensionless.
    """
    if spans is None or finished is None or finished <= 0:
        return None
    return spans / finished
