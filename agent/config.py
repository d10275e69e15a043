"""The one config tree. Frozen, strict, every field described with its unit; docs/config.md is generated from it."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from agent.auth import Auth, HeaderName
from agent.config_base import DAY_SECONDS, LISTEN, LONGEST_SECONDS, Name, Section, http_url
from agent.config_outputs import KubernetesOutput, WebhookOutput
from agent.config_slo import Exclusion, Slo
from agent.model import Severity, Tier
from agent.presets import with_preset
from probes.books import System
from probes.canary.limits import CanaryLimits
from probes.catalogue import Canary, default_canaries
from probes.discovery.item import Discovery
from probes.units import Seconds

GPU_HOUR_DOLLARS = {"A100": 3.5, "H100": 4.5, "H200": 5.75, "B200": 7.25}  # llm-d-planner's catalogue, November 2026
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Target(Section):
    """One endpoint that is watched."""

    name: Name = Field(description="How alerts, pages and metrics call it.")
    url: str = Field(description="Base address, such as http://vllm-0:8000.")
    kind: System = Field("vllm", description="What answers there; see docs/neighbours.md.")
    metrics_path: str = Field("/metrics", pattern=r"^/", description="Where its metrics page is.")
    metrics_url: str | None = Field(
        None, description="Base address of its metrics page, where that has another port (vllm-router). Default: url."
    )
    model: str | None = Field(None, description="Served model name; default: what the page or /v1/models says.")
    role: Literal["aggregated", "prefill", "decode"] | None = Field(
        None, description="Its part in serving; default: what its page, its router's or its own work shows."
    )
    service: Name | None = Field(None, description="The service it belongs to; default: any SLO's service.")
    gpus: int = Field(1, ge=1, description="GPUs this endpoint occupies, for cost.")
    gpu_type: str | None = Field(None, description="Key into prices.gpu_hour_dollars.")
    labels: dict[str, str] = Field(default_factory=dict, description="Further labels for people; not in alerts.")
    auth: Auth | None = Field(None, description="Who we are to it, for the canaries and its metrics page.")

    _check_url = field_validator("url")(http_url)

    @field_validator("metrics_url")
    @classmethod
    def _check_metrics_url(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)

    @property
    def page_url(self) -> str:
        """Where its metrics page is."""
        return (self.metrics_url or self.url) + self.metrics_path


class Scrape(Section):
    """How metrics pages are read."""

    interval_seconds: Seconds = Field(
        10, description="Time between two reads of a page; below 5 an engine's ITL p99 can show it (README). Seconds."
    )
    timeout_seconds: Seconds = Field(5, description="Longest wait for one page, seconds.")
    max_bytes: int = Field(16_000_000, ge=10_000, description="Larger pages are cut there, and that is told. Bytes.")
    down_after_seconds: Seconds = Field(30, description="Without a page for so long a target is down, seconds.")
    stuck_after_seconds: Seconds = Field(
        30, description="With requests inside and no step for so long an engine is stuck; above any step. Seconds."
    )


class Gpu(Section):
    """NVIDIA GPUs of this node, through NVML."""

    enabled: Literal["auto", "yes", "no"] = Field("auto", description="auto: where the driver's library is there.")
    interval_seconds: Seconds = Field(10, description="Time between two readings, seconds.")
    proc_path: Path = Field(
        Path("/proc"), description="The host's /proc, for the pods of processes on GPUs; in a pod it takes hostPID."
    )

    @field_validator("enabled", mode="before")
    @classmethod
    def _yaml_words(cls, value: object) -> object:
        """YAML 1.1 reads a plain yes or no as true or false."""
        return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


class BurnWindow(Section):
    """One burn-rate pair of your own."""

    severity: Severity = Field(description="page or ticket.")
    tier: Tier = Field(description="fast, slow or trend; with severity it is the alert's identity.")
    short_seconds: Seconds = Field(description="Short window, seconds: ends the alert soon after recovery.")
    long_seconds: Seconds = Field(le=LONGEST_SECONDS, description="Long window, seconds: keeps a blip from paging.")
    factor: float = Field(
        ge=1,
        allow_inf_nan=False,
        description="Burn rate above which both windows must be; 1 spends the budget exactly.",
    )

    @model_validator(mode="after")
    def _short_is_shorter(self) -> Self:
        if self.short_seconds >= self.long_seconds:
            raise ValueError("short_seconds must be smaller than long_seconds")
        return self


class BurnPolicy(Section):
    """When a burning budget alerts."""

    windows: list[BurnWindow] = Field(
        default_factory=list,
        description="Own pairs; empty: the standard ones, derived anew for loose objectives (docs/slo.md).",
    )
    min_bad_events: int = Field(3, ge=1, description="A pair needs at least so many bad events in its long window.")
    volume_gate: bool = Field(
        default=True,
        description="Below half of the period's mean traffic a pair waits until half its share of the budget is spent.",
    )
    calm_windows: float = Field(
        3.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="An alert that comes back within its long window ends after so many calm short windows; 0: none.",
    )
    hold_seconds: Seconds = Field(
        DAY_SECONDS, description="An alert survives so long after the last event that was counted. Seconds."
    )


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


class Advice(Section):
    """What recommendations may assume."""

    slos: list[str] = Field(
        default_factory=list, description="SLOs that drive scaling; empty: all of ttft, itl, tpot, goodput."
    )
    cold_start_seconds: Seconds = Field(120, description="From asking for a replica until it serves, seconds.")
    min_replicas: int = Field(1, ge=0, description="No advice goes below it, also without any traffic.")
    max_replicas: int = Field(64, ge=1, description="No advice goes beyond it.")


class Alertmanager(Section):
    """Who is told about alerts. Every peer gets every post: a load balancer in between loses alerts."""

    urls: list[str] = Field(default_factory=list, description="Base addresses of all peers.")
    resend_seconds: Seconds = Field(30, description="Firing alerts are posted again so often, seconds.")
    timeout_seconds: Seconds = Field(5, description="Longest wait for one post, seconds.")
    watchdog: bool = Field(default=True, description="Keep an always-firing Watchdog alert up, for a dead-man switch.")

    @field_validator("urls")
    @classmethod
    def _check_urls(cls, urls: list[str]) -> list[str]:
        return [http_url(url) for url in urls]


class OtlpOutput(Section):
    """OpenTelemetry metrics, pushed over OTLP/HTTP."""

    endpoint: str = Field(description="Full address, such as http://collector:4318/v1/metrics.")
    interval_seconds: Seconds = Field(30, description="Time between two exports, seconds.")
    timeout_seconds: Seconds = Field(5, description="Longest wait for one export, seconds.")

    _check_url = field_validator("endpoint")(http_url)


class Outputs(Section):
    """Where figures go besides /metrics and the page."""

    otlp: OtlpOutput | None = Field(None, description="OTLP metrics export; absent: none.")
    jsonl: Path | None = Field(None, description="File that alerts and recommendations are appended to, JSON lines.")
    webhook: WebhookOutput | None = Field(None, description="Recommendations as CloudEvents; absent: none.")
    kubernetes: KubernetesOutput | None = Field(
        None, description="Recommendations as Kubernetes Events on the workload; absent: none."
    )
    aliases: bool = Field(
        default=False, description="Tell the replicas to have under the names of llm-d and AIBrix as well."
    )
    page_url: str = Field("", description="Address under which people reach this agent's page; stands in alerts.")
    dashboard_url: str = Field("", description="Address of the Grafana dashboard; stands in alerts.")


class SpanForward(Section):
    """The user's own collector, which gets every span on; vLLM itself has one address for them."""

    url: str = Field(description="OTLP/HTTP address for traces, such as http://collector:4318/v1/traces.")
    bearer_token_file: Path | None = Field(None, description="File that holds its token; read at the start.")
    timeout_seconds: Seconds = Field(5, description="Longest wait for one post, seconds.")

    _check_url = field_validator("url")(http_url)

    def headers(self) -> dict[str, str]:
        """What the collector wants to see; without the token where its file cannot be read, and it answers 401."""
        if self.bearer_token_file is None:
            return {}
        token = Auth(bearer_token_file=self.bearer_token_file, bearer_token_env=None).token()
        return {"Authorization": f"Bearer {token}"} if token else {}


class Spans(Section):
    """Where vLLM's OpenTelemetry request spans come in; absent: nowhere. See docs/spans.md."""

    grpc: str | None = Field(None, pattern=LISTEN, description="host:port for OTLP/gRPC, such as 127.0.0.1:4317.")
    http: str | None = Field(None, pattern=LISTEN, description="host:port for OTLP/HTTP, such as 127.0.0.1:4318.")
    forward: SpanForward | None = Field(None, description="A collector that gets every span on; absent: none.")


class Server(Section):
    """The agent's own HTTP server."""

    listen: str = Field("127.0.0.1:9470", pattern=LISTEN, description="host:port.")

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class PrometheusServer(Section):
    """A Prometheus, Thanos, Mimir or VictoriaMetrics that scrapes the same vLLM servers."""

    url: str | None = Field(None, description="Base address, such as http://prometheus:9090, without /api/v1.")
    match: str = Field("", description='Further matchers for every selector, such as job="vllm".')
    timeout_seconds: Seconds = Field(60, description="Longest wait for one answer, seconds.")
    bearer_token_file: Path | None = Field(None, description="File that holds its token; sent to this url alone.")
    headers_files: dict[HeaderName, Path] = Field(
        default_factory=dict, description="Further headers, each with the file that holds its value."
    )
    ca_file: Path | None = Field(None, description="PEM file of the authorities to trust instead of the system's.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)

    def headers(self) -> dict[str, str]:
        """What it wants to see, with the secrets of now; without those whose file is not there."""
        if self.bearer_token_file is None and not self.headers_files:
            return {}
        auth = Auth(
            bearer_token_file=self.bearer_token_file, bearer_token_env=None, headers_files=self.headers_files
        )  # fmt: skip
        token = auth.token()
        return auth.headers() | ({"Authorization": f"Bearer {token}"} if token else {})


class State(Section):
    """The file in which counts, budgets and firing alerts survive a restart."""

    path: Path = Field(description="SQLite file; made where it is not there. One agent a file.")
    save_seconds: Seconds = Field(15, description="Time between two saves, seconds; alerts are saved at once.")
    rehydrate: bool = Field(
        default=False,
        description="Where the file is not there or is damaged: read the engines' events from prometheus.",
    )


class Fleet(Section):
    """Several agents that watch the same targets, of which one each sends the canaries. Each names them all alike."""

    member: str | None = Field(
        default_factory=lambda: os.environ.get("POD_NAME") or None,
        description="This agent's name among them. Default: $POD_NAME.",
    )
    members: list[str] = Field(
        default_factory=list,
        description="Everybody's names; each target has one owner among them. Empty: this agent probes all.",
    )

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.members and self.member not in self.members:
            raise ValueError(f"member is {self.member!r}, which is not among members: nobody would probe its targets")
        return self


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
