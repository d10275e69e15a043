"""Named plants: the measured one, others of its kind on other GPUs, and those that advice does not assume.

Only `llama8b_h200` is measured. The other GPUs scale it by their memory bandwidth and FLOPs (facts/recommend.md 7: H100
989 TF bf16 and 3.35 TB/s, H200 the same FLOPs and 4.8 TB/s), which is a rule of thumb; prices are the list prices of
facts/recommend.md 5g. The mismatched laws are made up, each in a proportion that its docstring in step_time.py tells.
"""

from dataclasses import replace

from agent.simulator.engine import EngineConfig
from agent.simulator.plant import Plant
from agent.simulator.seeds import stream
from agent.simulator.step_accounts import Speculation
from agent.simulator.step_time import (
    DECODE_SECONDS_PER_KV_TOKEN,
    PREFILL_SECONDS_PER_TOKEN,
    STEP_OVERHEAD_SECONDS,
    HybridStepTime,
    JitteredStepTime,
    LinearStepTime,
    MoeStepTime,
    QuadraticStepTime,
    TensorParallelStepTime,
)

H100_READ_RATIO = 4.8 / 3.35  # a step that reads weights and KV takes so much longer on an H100
LLAMA8B_H200 = Plant()
_H100 = LinearStepTime(
    STEP_OVERHEAD_SECONDS * H100_READ_RATIO, PREFILL_SECONDS_PER_TOKEN, DECODE_SECONDS_PER_KV_TOKEN * H100_READ_RATIO
)
_LLAMA70B_TP4 = LinearStepTime(12.8e-3, 60e-6, DECODE_SECONDS_PER_KV_TOKEN * 320 / 128 / 4)

PLANTS: dict[str, Plant] = {
    "llama8b_h200": LLAMA8B_H200,
    "llama8b_h100": replace(
        LLAMA8B_H200,
        config=EngineConfig(num_gpu_blocks=19_000),
        law=lambda _: _H100,
        gpu_type="H100",
        dollars_per_hour=4.5,
    ),
    "llama70b_h200_tp4": replace(  # facts/recommend.md 7, reckoner: 12.8 ms a step, 60 us a prefill token, 320 KiB KV
        LLAMA8B_H200,
        config=EngineConfig(model="llama70b", num_gpu_blocks=60_000),
        law=lambda _: _LLAMA70B_TP4,
        gpu_type="4xH200",
        dollars_per_hour=4 * 5.75,
        kv_bytes_per_token=320 * 1024,
    ),
    "quadratic": replace(LLAMA8B_H200, config=EngineConfig(max_model_len=131_072), law=lambda _: QuadraticStepTime()),
    "moe": replace(LLAMA8B_H200, law=lambda _: MoeStepTime()),
    "tensor_parallel": replace(
        LLAMA8B_H200, law=lambda _: TensorParallelStepTime(), gpu_type="2xH200", dollars_per_hour=2 * 5.75
    ),
    "jitter": replace(LLAMA8B_H200, law=lambda index: JitteredStepTime(LinearStepTime(), stream(index, "jitter"))),
    "speculative": replace(LLAMA8B_H200, config=EngineConfig(speculation=Speculation())),
    "hybrid": replace(LLAMA8B_H200, law=lambda _: HybridStepTime()),
}
