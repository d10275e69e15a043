"""Where alerts, figures and recommendations go, and who may ask for them."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from agent.config_base import LISTEN, Section
from probes.address import http_url
from probes.discovery.item import SERVICE_ACCOUNT
from probes.units import Seconds


class WebhookOutput(Section):
    """Recommendations and their verdicts as CloudEvents."""

    url: str = Field(description="Where each is posted to.")
    secret_file: Path | None = Field(
        None, description="File with the secret that bodies are signed with (HMAC-SHA256), read at every use."
    )
    timeout_seconds: Seconds = Field(5, description="Longest wait for one post, seconds.")

    _check_url = field_validator("url")(http_url)

    def secret(self) -> str:
        """The secret now; "" without one. Raises OSError where its file cannot be read."""
        return "" if self.secret_file is None else self.secret_file.read_text(encoding="utf-8").strip()


class Workload(Section):
    """One workload and whom its pods serve."""

    name: str = Field(min_length=1, description="Its name in Kubernetes.")
    kind: Literal["Deployment", "StatefulSet"] = Field("Deployment", description="Deployment or StatefulSet.")
    model: str | None = Field(None, description="The served model that it runs; default: any.")
    role: Literal["aggregated", "prefill", "decode"] = Field("aggregated", description="The part that its pods take.")


class KubernetesOutput(Section):
    """Recommendations as Events on the workload they are about; deploy/kubernetes/rbac-advice.yaml has the rights."""

    workloads: list[Workload] = Field(min_length=1, description="Whom advice is about.")
    namespace: str | None = Field(None, description="Namespace of the workloads; default: this pod's own.")
    annotate: bool = Field(
        default=False, description="Write the newest one into the annotation slo-agent/recommendation, too."
    )
    timeout_seconds: Seconds = Field(10, description="Longest wait for the API, seconds.")
    api_url: str | None = Field(None, description="Address of the API; default: what Kubernetes tells its pods.")
    token_file: Path = Field(SERVICE_ACCOUNT / "token", description="The service account's token; read at every use.")
    ca_file: Path = Field(SERVICE_ACCOUNT / "ca.crt", description="Certificates that the API's is checked against.")
    namespace_file: Path = Field(SERVICE_ACCOUNT / "namespace", description="Where this pod's namespace stands.")

    @field_validator("api_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)


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


class Server(Section):
    """The agent's own HTTP server."""

    listen: str = Field("127.0.0.1:9470", pattern=LISTEN, description="host:port.")

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])
