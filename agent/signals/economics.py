"""What the work costs: dollars an hour, what a dollar buys, and how fast each user is served for it."""

from dataclasses import dataclass, replace

from agent.model import Figure, Latency
from agent.signals.model import Economics

JOULES_A_KWH = 3_600_000.0


@dataclass(frozen=True, slots=True)
class Energy:
    """The price of electricity, where it is not in the GPU's price already: dollars a kWh, times what cooling adds."""

    kwh_dollars: float
    pue: float


def economics(
    dollars_per_second: float | None,
    energy: Energy | None,
    watts: float | None,
    goodput_per_second: Figure | None,
    tpot: Latency | None,
) -> Economics:
    """Everything that has a price. Unknown where a price, or the power that is paid for, is not known."""
    cost = cost_per_second(dollars_per_second, energy, watts)
    speed = _inverted(tpot.p50 if tpot else None)
    return Economics(
        dollars_per_hour=None if cost is None else 3_600 * cost,
        goodput_per_dollar=_scaled(goodput_per_second, cost),
        tokens_per_second_per_user=speed,
        tokens_per_second_of_slowest_users=_inverted(tpot.p95 if tpot else None),
        tokens_per_user_per_dollar=_scaled(speed, cost),
    )


def cost_per_second(dollars_per_second: float | None, energy: Energy | None, watts: float | None) -> float | None:
    """Dollars a second, electricity included where it is paid for apart; None where a price or the power is unknown."""
    if dollars_per_second is None or energy is None:
        return dollars_per_second
    return None if watts is None else dollars_per_second + watts * energy.pue * energy.kwh_dollars / JOULES_A_KWH


def _inverted(figure: Figure | None) -> Figure | None:
    """Tokens a second from seconds a token: the bounds change places. A time of 0 is no bound on speed."""
    if figure is None:
        return None
    value, low, high = (1 / x if x else None for x in (figure.value, figure.high, figure.low))
    ci_low, ci_high = (1 / x if x else None for x in (figure.ci_high, figure.ci_low))
    return Figure(value, low, high, figure.count, ci_low, ci_high)


def _scaled(figure: Figure | None, dollars_per_second: float | None) -> Figure | None:
    if figure is None or not dollars_per_second:
        return None
    value, low, high = (None if x is None else x / dollars_per_second for x in (figure.value, figure.low, figure.high))
    return replace(figure, value=value, low=low, high=high, ci_low=None, ci_high=None)
