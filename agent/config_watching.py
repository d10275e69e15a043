"""What is watched, how, and by whom of several agents."""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from agent.auth import Auth, HeaderName
from agent.config_base import LISTEN, Name, Section
from probes.address import http_url
from probes.books import System
from probes.engine_args import engine_args
from probes.units import Seconds


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
    engine_args: str = Field(
        "",
        description="Arguments of vllm serve that its page does not tell. Default: those of its pod, if known.",
    )
    labels: dict[str, str] = Field(default_factory=dict, description="Further labels for people; not in alerts.")
    auth: Auth | None = Field(None, description="Who we are to it, for the canaries and its metrics page.")

    _check_url = field_validator("url")(http_url)

    @field_validator("engine_args")
    @classmethod
    def _known_args(cls, text: str) -> str:
        """Only the known ones are kept: others may be secrets."""
        args, mistakes = engine_args(text)
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return str(args)

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
