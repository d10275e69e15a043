"""How fast the simulator is: an hour of traffic on eight replicas, in seconds of one core.

Run: python tests/benchmarks/simulator_speed.py. Aim: an hour at 6 requests/s on 8 replicas within a minute.
"""

# ruff: noqa: T201 - a benchmark prints

import time

from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.plant import Plant
from agent.simulator.router import LeastLoad
from agent.simulator.scenarios import CHAT
from agent.simulator.seeds import stream
from agent.simulator.topology import Topology
from agent.simulator.workload import OpenLoop

AIM_SECONDS = 60.0


def hour(rate_per_second: float, replicas: int) -> tuple[float, int, int]:
    """CPU seconds, requests and engine steps of one simulated hour."""
    ended: list[object] = []
    arrivals = Arrivals(Steps(((0.0, rate_per_second),)), stream(0, "arrivals"), 0.0)
    workload = OpenLoop(arrivals, lambda _: CHAT, stream(0, "prompts"))
    fleet = Topology(aggregated=replicas, router=LeastLoad).fleet(Plant(), workload, 0.0, on_end=ended.append)
    began = time.process_time()
    fleet.settle(3600.0)
    spent = time.process_time() - began
    return spent, len(ended), sum(replica.engine.telemetry.steps for replica in fleet.replicas)


def main() -> int:
    """Print one line per load; exit code 1 when the aim is missed."""
    good = True
    for rate, replicas in ((6.0, 8), (48.0, 8)):
        spent, requests, steps = hour(rate, replicas)
        print(
            f"1 h at {rate:.0f} requests/s on {replicas} replicas: {spent:.1f} s of one core, {requests} requests, "
            f"{steps} engine steps, {3600 / spent:.0f} times real time"
        )
        good = good and (rate > 6 or spent <= AIM_SECONDS)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
