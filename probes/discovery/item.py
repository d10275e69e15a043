"""The config items of discovery: where targets come from besides the config itself."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Tag, field_validator, model_validator
from pydantic import Discriminator as Told

from probes.address import http_url
from probes.books import System
from probes.units import Seconds

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where Kubernetes puts a pod's own


class DiscoveryItem(BaseModel):
    """One entry of `discovery`. Unknown keys are refused, values cannot change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileDiscovery(DiscoveryItem):
    """Targets from a file in Prometheus' file_sd format, read again when it changes."""

    kind: Literal["file"] = "file"
    path: Path = Field(description="JSON or YAML: a list of {targets: [host:port], labels: {...}}.")
    refresh_seconds: Seconds = Field(10, description="How often the file is looked at, seconds.")


class HttpDiscovery(DiscoveryItem):
    """Targets from an address that answers in Prometheus' http_sd format."""

    kind: Literal["http"] = "http"
    url: str = Field(description="Answers 200 with a JSON list of {targets: [host:port], labels: {...}}.")
    refresh_seconds: Seconds = Field(60, description="How often it is asked, seconds.")
    timeout_seconds: Seconds = Field(10, description="Longest wait for an answer, seconds.")
    bearer_token_file: Path | None = Field(None, description="File that holds a token for it; read at every use.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        return http_url(url)


class DnsDiscovery(DiscoveryItem):
    """Targets from a name: its addresses, such as a headless service's, or the servers of its SRV records."""

    kind: Literal["dns"] = "dns"
    name: str = Field(
        min_length=1, description="The name; for SRV the full one, such as _http._tcp.vllm.serving.svc.cluster.local."
    )
    port: int | None = Field(None, ge=1, le=65535, description="Port of every address; SRV records say their own.")
    family: Literal["A", "AAAA", "both", "SRV"] = Field(
        "A", description="Which records: A, AAAA or both by the system's resolver; SRV by the servers of resolv.conf."
    )
    target_kind: System = Field("vllm", description="What answers there.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels of every target, such as {role: decode}.")
    refresh_seconds: Seconds = Field(30, description="How often the name is resolved, seconds.")
    timeout_seconds: Seconds = Field(5, description="Longest wait for the resolver, seconds.")

    @model_validator(mode="after")
    def _one_port(self) -> Self:
        if (self.family == "SRV") == (self.port is not None):
            raise ValueError("expected a port, or family: SRV, whose records have their own; not both")
        return self


class KubernetesDiscovery(DiscoveryItem):
    """Targets from the pods of a Kubernetes cluster, listed from its API with this pod's service account."""

    kind: Literal["kubernetes"] = "kubernetes"
    namespace: str | None = Field(None, description="Namespace of the pods; default: this pod's own.")
    all_namespaces: bool = Field(default=False, description="Pods of all namespaces; needs a ClusterRole.")
    label_selector: str = Field("", description="Which pods, such as app=vllm or llm-d.ai/role in (prefill,decode).")
    node: str | None = Field(None, description="Only pods of this node; a node's agent writes its own here.")
    port: int | str | None = Field(
        None, description="Port, or a container port's name; default: prometheus.io/port, else the one port there is."
    )
    target_kind: System = Field("vllm", description="What answers there.")
    role_label: str = Field("llm-d.ai/role", description="Pod label that says prefill, decode or both.")
    model_label: str = Field("llm-d.ai/model", description="Pod label that names the served model.")
    refresh_seconds: Seconds = Field(10, description="How often pods are listed, seconds.")
    timeout_seconds: Seconds = Field(10, description="Longest wait for the API, seconds.")
    api_url: str | None = Field(None, description="Address of the API; default: what Kubernetes tells its pods.")
    token_file: Path = Field(SERVICE_ACCOUNT / "token", description="The service account's token; read at every use.")
    ca_file: Path = Field(SERVICE_ACCOUNT / "ca.crt", description="Certificates that the API's is checked against.")
    namespace_file: Path = Field(SERVICE_ACCOUNT / "namespace", description="Where this pod's namespace stands.")

    @field_validator("api_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else http_url(url)

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.namespace is not None and self.all_namespaces:
            raise ValueError("expected either namespace or all_namespaces, not both")
        return self


def _kind(item: object) -> str:
    """The kind an entry says; a file where it says none."""
    kind = item.get("kind", "file") if isinstance(item, dict) else getattr(item, "kind", "file")
    return str(kind)


Discovery = Annotated[
    Annotated[FileDiscovery, Tag("file")]
    | Annotated[HttpDiscovery, Tag("http")]
    | Annotated[DnsDiscovery, Tag("dns")]
    | Annotated[KubernetesDiscovery, Tag("kubernetes")],
    Told(_kind),
]
