"""What NVML would say about the GPU under an engine, with the keys of the recordings in data/h200."""

from dataclasses import dataclass

from agent.simulator.engine import Engine

IDLE_WATTS = 124.5  # data/h200/closed_loop_sweep, before the first request
ONE_STREAM_WATTS = 463.6  # same recording, mean over the stretch at concurrency 1
FULL_WATTS = 690.9  # same recording, mean at concurrency 32, near the 700 W cap
FULL_SEQUENCES = 32
USED_BYTES = 92_954_034_176  # same recording: vLLM holds its memory from the start
IDLE_CELSIUS, CELSIUS_PER_WATT = 41.0, (59.4 - 41.0) / (690.9 - 124.5)  # same recording, idle and concurrency 32
SM_MHZ, SM_MHZ_FULL = 1980, 1836  # same recording, idle and mean at concurrency 32


@dataclass(slots=True)
class GpuReadings:
    """Turns an engine's busy time into readings; each call covers the time since the one before."""

    engine: Engine
    at_seconds: float
    busy_seconds: float = 0.0
    energy_joules: float = 0.0
    is_throttled: bool = False

    def read(self, now_seconds: float) -> dict[str, int]:
        """Utilisation (percent), power (mW), energy (mJ, cumulative), SM clock, temperature (C), used bytes."""
        span = now_seconds - self.at_seconds
        busy = min(1.0, (self.engine.busy_seconds - self.busy_seconds) / span) if span > 0 else 0.0
        self.at_seconds, self.busy_seconds = now_seconds, self.engine.busy_seconds
        crowd = min(1.0, self.engine.requests_running / FULL_SEQUENCES)
        watts = IDLE_WATTS + busy * (ONE_STREAM_WATTS - IDLE_WATTS + crowd * (FULL_WATTS - ONE_STREAM_WATTS))
        self.energy_joules += watts * max(span, 0.0)
        clock = SM_MHZ + busy * crowd * (SM_MHZ_FULL - SM_MHZ)
        if self.engine.slowdown > 1:
            clock /= self.engine.slowdown
        return {
            "gpu": round(100 * busy),
            "mem": round(82 * busy),
            "power_mw": round(watts * 1000),
            "energy_mj": round(self.energy_joules * 1000),
            "sm_mhz": round(clock),
            "temp": round(IDLE_CELSIUS + CELSIUS_PER_WATT * (watts - IDLE_WATTS)),
            "used": USED_BYTES,
        }
