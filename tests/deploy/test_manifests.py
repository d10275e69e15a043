"""Manifests and units: valid, harmless to the servers beside them, and with a config that loads."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from agent.config_file import load_config, parse_config

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = ("daemonset.yaml", "sidecar.yaml")
ALL_FILES = (*FILES, "rbac.yaml")


def documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text(encoding="utf-8")))


def pod(file: str) -> dict[str, Any]:
    (workload,) = [one for one in documents(file) if one["kind"] in ("DaemonSet", "Deployment")]
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def agent_container(file: str) -> dict[str, Any]:
    (container,) = [one for one in pod(file)["containers"] if one["name"] == "slo-agent"]
    return dict(container)


@pytest.mark.parametrize("file", ALL_FILES)
def test_kubernetes_would_take_it(file: str) -> None:
    """Against the schema of the newest Kubernetes the validator knows; unknown keys are refused."""
    for document in documents(file):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("file", FILES)
def test_its_config_loads_and_is_reachable_in_the_pod(file: str) -> None:
    """The ConfigMap's text is a config; it listens on all addresses, or no probe and no Prometheus would reach it."""
    (config_map,) = [one for one in documents(file) if one["kind"] == "ConfigMap"]
    config = parse_config(config_map["data"]["agent.yaml"], file)
    assert config.server.listen == "0.0.0.0:9470"
    assert [slo.name for slo in config.slos] == ["chat-availability", "chat-canary-availability", "chat-ttft"]
    assert len(config.alertmanager.urls) == 2, "every peer of Alertmanager, not a load balancer"


@pytest.mark.parametrize("file", FILES)
def test_the_agent_has_no_rights(file: str) -> None:
    """No root, no capabilities, nothing to write but /tmp, no token of the cluster, and no GPU taken from the model."""
    container, spec = agent_container(file), pod(file)
    security = {**spec.get("securityContext", {}), **container["securityContext"]}
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 65532
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    assert {*container["resources"]["requests"], *container["resources"]["limits"]} == {"cpu", "memory"}
    assert "cpu" not in container["resources"]["limits"], "a throttled agent measures its own throttling"


@pytest.mark.parametrize(("file", "field"), [("daemonset.yaml", "spec.nodeName"), ("sidecar.yaml", "metadata.name")])
def test_alerts_of_two_agents_never_have_the_same_labels(file: str, field: str) -> None:
    """NODE_NAME tells them apart: per node for the DaemonSet, per pod for the sidecar."""
    (node,) = [one for one in agent_container(file)["env"] if one["name"] == "NODE_NAME"]
    assert node["valueFrom"]["fieldRef"]["fieldPath"] == field


def test_the_daemon_is_probed_and_the_sidecar_never_takes_the_model_out_of_service() -> None:
    """A pod is ready when all of its containers are, so the sidecar is not asked whether it is."""
    daemon, sidecar = agent_container("daemonset.yaml"), agent_container("sidecar.yaml")
    assert daemon["livenessProbe"]["httpGet"]["path"] == sidecar["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert daemon["readinessProbe"]["httpGet"]["path"] == "/-/ready"
    assert "readinessProbe" not in sidecar


def test_the_containers_own_config_loads() -> None:
    """An image that is started without any config answers its probes, from outside."""
    config = load_config(DEPLOY / "container.yaml")
    assert config.server.listen == "0.0.0.0:9470"
    assert config.targets == []


def test_discovery_may_list_pods_of_one_namespace_and_nothing_else() -> None:
    rules = [one["rules"] for one in documents("rbac.yaml") if one["kind"] == "Role"]
    assert rules == [[{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]]
    assert "ClusterRole" not in [one["kind"] for one in documents("rbac.yaml")]
