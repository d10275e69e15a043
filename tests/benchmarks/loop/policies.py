"""The autoscalers of others, as their documents describe them (facts/recommend.md 1 and 6), with their defaults."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, inf

from loop.seen import Look, Looks, Stabilised
from loop.services import Service
from loop.world import STEP_SECONDS, World

from agent.simulator.step_time import LinearStepTime


@dataclass(slots=True)
class Static:
    """Always the same."""

    count: int

    def decide(self, world: World, now_seconds: float) -> int | None:
        return self.count


@dataclass(slots=True)
class Periodic:
    """Something that looks at the fleet all the time and decides every `every_seconds`, through an HPA."""

    wish: Callable[[Look, Looks, World], int | None]
    every_seconds: float
    hpa: Stabilised
    looks: Looks = field(default_factory=Looks)

    def decide(self, world: World, now_seconds: float) -> int | None:
        look = self.looks.take(world, now_seconds)
        if now_seconds % self.every_seconds >= STEP_SECONDS:
            return None
        wish = self.wish(look, self.looks, world)
        return None if wish is None else max(1, self.hpa.settle(wish, world.wanted, now_seconds))


def _average(total: float, target: float, current: int) -> int:
    """HPA's AverageValue: ceil(total / target), unless within 10 % of what there is."""
    if current and abs(total / (current * target) - 1) <= 0.1:
        return current
    return ceil(total / target)


def hpa_waiting(target: float = 5.0) -> Periodic:
    """HPA on vllm:num_requests_waiting (production-stack: threshold 5, every 15 s)."""
    return Periodic(lambda look, _, world: _average(sum(look.waiting), target, world.wanted), 15.0, Stabilised())


def keda(kv: float = 0.7, queue: float = 2.0) -> Periodic:
    """KEDA with two triggers, KV usage and queue, polled every 30 s; the larger wins."""

    def wish(look: Look, _: Looks, world: World) -> int:
        by_kv, by_queue = sum(look.kv_usage), sum(look.waiting)
        return max(_average(by_kv, kv, world.wanted), _average(by_queue, queue, world.wanted))

    return Periodic(wish, 30.0, Stabilised())


def kpa(concurrency: float = 70.0) -> Periodic:
    """Knative's autoscaler on requests in flight, as AIBrix has it: stable 180 s, panic 60 s at twice, down 300 s.

    The default is Knative's: 100 requests at 70 %.
    """

    def mean(looks: list[Look]) -> float:
        return sum(sum(look.waiting) + sum(look.running) for look in looks) / max(1, len(looks))

    def wish(_: Look, looks: Looks, world: World) -> int:
        stable, panic = mean(looks.over(180.0)), mean(looks.over(60.0))
        level = max(stable, panic) if panic > 2 * stable or panic / concurrency > 2 * world.wanted else stable
        wanted = _average(level, concurrency, world.wanted)
        return max(ceil(world.wanted / 2), min(wanted, 2 * world.wanted))

    return Periodic(wish, 10.0, Stabilised())


def wva_v1(spare_kv: float = 0.1, spare_queue: float = 3.0, hold_seconds: float = 240.0) -> Periodic:
    """llm-d's saturation rule: one more when little is spare, one fewer when the others could take it; 30 s."""

    def wish(look: Look, _: Looks, world: World) -> int:
        ready = len(look.waiting)
        if ready == 0 or look.starting:
            return world.wanted
        open_ones = [(k, w) for k, w in zip(look.kv_usage, look.waiting, strict=True) if k < 0.8 and w < 5]
        if not open_ones:
            return world.wanted + 1
        kv = sum(0.8 - k for k, _ in open_ones) / len(open_ones)
        queue = sum(5 - w for _, w in open_ones) / len(open_ones)
        if kv < spare_kv or queue < spare_queue:
            return world.wanted + 1
        if ready > 1:
            fewer_kv, fewer_queue = sum(look.kv_usage) / (ready - 1), sum(look.waiting) / (ready - 1)
            if 0.8 - fewer_kv >= spare_kv and 5 - fewer_queue >= spare_queue:
                return world.wanted - 1
        return world.wanted

    return Periodic(wish, 30.0, Stabilised(hold_seconds, 0.0))


def closed_form_rate(law: LinearStepTime, service: Service, inputs: float, outputs: float, slack: float) -> float:
    """The largest rate of one replica whose mean TTFT and ITL keep `slack` times the thresholds (WVA's QMA)."""
    context = inputs + outputs / 2
    per_token = law.decode_seconds_per_sequence + law.decode_seconds_per_kv_token * context
    prefill = law.prefill_seconds_per_token * inputs
    low, high = 0.0, 1 / (prefill + outputs * per_token)
    for _ in range(40):
        rate = (low + high) / 2
        step = law.overhead_seconds / (1 - rate * (prefill + outputs * per_token))
        ttft, itl = step + prefill + inputs * per_token, step + prefill / max(1.0, outputs) + per_token
        if ttft <= slack * service.ttft_seconds and itl <= slack * service.tpot_seconds:
            low = rate
        else:
            high = rate
    return low


def wva_closed_form(law: LinearStepTime, service: Service, slack: float = 1.0, hold_seconds: float = 240.0) -> Periodic:
    """WVA's queueing model with the true parameters: ceil(rate / what one replica sustains on average); 30 s."""

    def wish(_: Look, looks: Looks, world: World) -> int:
        rate, inputs, outputs = looks.rate(60.0)
        one = closed_form_rate(law, service, inputs, outputs, slack)
        return ceil(rate / one) if one > 0 else world.wanted + 1

    return Periodic(wish, 30.0, Stabilised(hold_seconds, hold_seconds if hold_seconds == 240.0 else 0.0))


@dataclass(slots=True)
class DynamoLike:
    """NVIDIA Dynamo's planner: a floor from the last rate every `floor_seconds`, and one up or down by load every 5 s.

    Up when all engines would break the TTFT target with what they have queued; down when all stay under 80 % of it
    with one engine fewer; nothing while something is in flight.
    """

    law: LinearStepTime
    service: Service
    slack: float = 1.0
    floor_seconds: float = 180.0
    looks: Looks = field(default_factory=Looks)
    floor: int = 1

    def decide(self, world: World, now_seconds: float) -> int | None:
        look = self.looks.take(world, now_seconds)
        rate, inputs, outputs = self.looks.rate(self.floor_seconds)
        if now_seconds % self.floor_seconds < STEP_SECONDS:
            one = closed_form_rate(self.law, self.service, inputs, outputs, self.slack)
            self.floor = ceil(rate / one) if one > 0 else world.wanted
        if look.starting or not look.waiting:
            return max(self.floor, world.wanted) if world.wanted < self.floor else None
        if world.wanted < self.floor:
            return self.floor
        target = self.slack * self.service.ttft_seconds
        estimates = [
            self._ttft(queued, running, inputs) for queued, running in zip(look.prefilling, look.running, strict=True)
        ]
        if all(each > target for each in estimates):
            return world.wanted + 1
        more = len(estimates) / (len(estimates) - 1) if len(estimates) > 1 else inf
        if world.wanted > self.floor and all(each * more < 0.8 * target for each in estimates):
            return max(self.floor, world.wanted - 1)
        return None

    def _ttft(self, queued_tokens: int, running: int, inputs: float) -> float:
        step = self.law.overhead_seconds + running * (
            self.law.decode_seconds_per_sequence + self.law.decode_seconds_per_kv_token * inputs
        )
        tokens = queued_tokens + inputs
        return step * ceil(tokens / 2048) + self.law.prefill_seconds_per_token * tokens
