"""The one config tree. Frozen, strict, every field described with its unit; docs/config.md is generated from it."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from agent.config_base import Name, Section
from agent.config_burn import BurnPolicy
from agent.config_outputs import Alertmanager, Outputs, Server
from agent.config_slo import Exclusion, Slo
from agent.config_watching import Fleet, Gpu, PrometheusServer, Scrape, Spans, Target
from agent.presets import with_preset
from probes.canary.limits import CanaryLimits
from probes.catalogue import Canary, default_canaries
from probes.discovery.item import Discovery
from probes.units import Seconds

GPU_HOUR_DOLLARS = {"A100": 3.5, "H100": 4.5, "H200": 5.75, "B200": 7.25}  # llm-d-planner's catalogue, November 2026
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Section):
    """What things cost. The GPU prices that are there from the start are list prices of November 2026."""

    gpu_hour_dollars: dict[str, Dollars] = Field(
        default_factory=lambda: dict(GPU_HOUR_DOLLARS),
        description="Dollars per GPU hour by gpu_type; what is written is added to the list prices, or replaces one.",
    )
    node_hour_dollars: Dollars = Field(
        0.0, description="Dollars per hour of what an engine needs beside its GPUs: processors, memory, network."
    )
    kv_tier_hour_dollars: Dollars = Field(
        0.0, description="Dollars per hour of each cache server (targets of kind lmcache or mooncake)."
    )
    kv_tier_gigabyte_hour_dollars: dict[str, Dollars] = Field(
        default_factory=dict,
        description="Dollars per hour of a gigabyte (1e9 bytes) of KV tier, by advice.kv_tiers' name.",
    )
    kwh_dollars: Dollars | None = Field(
        None, description="Dollars per kWh, where electricity is paid beside the GPUs; default: it is in their price."
    )
    pue: float = Field(
        1.56,
        ge=1,
        le=5,
        allow_inf_nan=False,
        description="Power of the whole site over that of the machines; 1.56 is the mean of Uptime's survey of 2024.",
    )

    @field_validator("gpu_hour_dollars")
    @classmethod
    def _with_list_prices(cls, written: dict[str, float]) -> dict[str, float]:
        return {**GPU_HOUR_DOLLARS, **written}


class Goodput(Section):
    """What a request keeps to be good throughput: both. The defaults are those of a chat service."""

    ttft_seconds: Seconds = Field(2.5, description="Longest TTFT of a good request, seconds.")
    tpot_seconds: Seconds = Field(0.05, description="Longest TPOT of a good request, seconds.")


class KvTier(Section):
    """A KV tier behind the engines: CPU memory, a disk, or a remote store. Sizes are those of one replica's share."""

    name: Name = Field(description="How advice and prices.kv_tier_gigabyte_hour_dollars call it, such as cpu.")
    gigabytes_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="What one replica loads from it; where vLLM's own offloading tells, what was measured counts."
    )
    latency_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="What a load takes beside its bytes, the lookup included. Seconds."
    )
    gigabytes: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        min_length=1, description="Sizes that it could have, in 1e9 bytes a replica."
    )
    in_use_gigabytes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="What a replica has of it now, 1e9 bytes; of one tier at most. Default: it is not in use."
    )


class Advice(Section):
    """What recommendations may assume."""

    slos: list[str] = Field(
        default_factory=list, description="SLOs that drive scaling; empty: all of ttft, itl, tpot, goodput."
    )
    cold_start_seconds: Seconds = Field(120, description="From asking for a replica until it serves, seconds.")
    min_replicas: int = Field(1, ge=0, description="No advice goes below it, also without any traffic.")
    max_replicas: int = Field(64, ge=1, description="No advice goes beyond it.")
    kv_tiers: list[KvTier] = Field(
        default_factory=list, description="KV tiers that replicas have or could have; empty: none is advised on."
    )
    kv_bytes_per_token: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default_factory=dict,
        description="KV bytes of a token by served model: 2 x layers x KV heads x head size x bytes of a number.",
    )

    @model_validator(mode="after")
    def _one_is_in_use(self) -> Self:
        used = [tier.name for tier in self.kv_tiers if tier.in_use_gigabytes is not None]
        if len(used) > 1:
            raise ValueError(f"kv_tiers {' and '.join(used)} are in use at once; give in_use_gigabytes to one of them")
        return self


class State(Section):
    """The file in which counts, budgets and firing alerts survive a restart."""

    path: Path = Field(description="SQLite file; made where it is not there. One agent a file.")
    save_seconds: Seconds = Field(15, description="Time between two saves, seconds; alerts are saved at once.")
    rehydrate: bool = Field(
        default=False,
        description="Where the file is not there or is damaged: read the engines' events from prometheus.",
    )


class Config(Section):
    """The whole of it."""

    node: str | None = Field(
        default_factory=lambda: os.environ.get("NODE_NAME") or None,
        description="This node's name, in every alert of a node agent. Default: $NODE_NAME; none for a fleet's agent.",
    )
    tick_seconds: Seconds = Field(5, description="Time between two evaluations, seconds.")
    targets: list[Target] = Field(default_factory=list, description="What is watched.")
    discovery: list[Discovery] = Field(default_factory=list, description="Where further targets come from.")
    scrape: Scrape = Field(default_factory=Scrape, description="How pages are read.")
    gpu: Gpu = Field(default_factory=Gpu, description="GPU readings.")
    canaries: list[Canary] = Field(
        default_factory=default_canaries,
        description="Synthetic requests; default: chat and models. An empty list sends none.",
    )
    canary_limits: CanaryLimits = Field(default_factory=CanaryLimits, description="What canaries may take.")
    fleet: Fleet = Field(default_factory=Fleet, description="Which of several agents sends canaries to a target.")
    subtract_canaries: bool = Field(
        default=True,
        description="Take our own canaries out of what engines count, so that SLOs and signals are the users'.",
    )
    spans: Spans = Field(default_factory=Spans, description="Where request spans come in.")
    preset: Literal["chat", "agent", "rag", "batch"] | None = Field(
        None, description="SLOs of this kind of service beside `slos`: rules/presets.yaml. Default: none."
    )
    slos: list[Slo] = Field(default_factory=list, description="The promises.")
    exclusions: list[Exclusion] = Field(
        default_factory=list, description="Time that counts for no SLO: maintenance, and incidents agreed not to count."
    )
    burn: BurnPolicy = Field(default_factory=BurnPolicy, description="When a burning budget alerts.")
    prices: Prices = Field(default_factory=Prices, description="What things cost.")
    goodput: Goodput = Field(default_factory=Goodput, description="What a good request keeps.")
    advice: Advice = Field(default_factory=Advice, description="What recommendations may assume.")
    alertmanager: Alertmanager = Field(default_factory=Alertmanager, description="Who is told of alerts.")
    outputs: Outputs = Field(default_factory=Outputs, description="Where figures go.")
    prometheus: PrometheusServer = Field(
        default_factory=PrometheusServer, description="Whose history replays and a lost state can be read from."
    )
    state: State | None = Field(None, description="Where the memory is kept; absent: a restart begins anew.")
    server: Server = Field(default_factory=Server, description="The agent's own HTTP server.")

    @model_validator(mode="before")
    @classmethod
    def _add_preset(cls, tree: object) -> object:
        return with_preset(tree) if isinstance(tree, dict) else tree
