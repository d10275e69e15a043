"""Targets from pods, against a stand-in of Kubernetes' API built from its documented shapes (no real cluster)."""

import os
import shutil
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fake_kubernetes import FakeKubernetes, kubernetes, pod

from probes.discovery.file import Found
from probes.discovery.item import KubernetesDiscovery
from probes.discovery.kubernetes import KubernetesTargets


def source(fake: FakeKubernetes, folder: Path, **given: Any) -> KubernetesTargets:
    """A source with a service account's files in that folder."""
    for name, text in (("token", "secret-token\n"), ("namespace", "serving\n")):
        file = folder / name
        if not file.exists():
            file.write_text(text)
    files = {"token_file": folder / "token", "namespace_file": folder / "namespace", "ca_file": folder / "ca.crt"}
    return KubernetesTargets(KubernetesDiscovery(api_url=fake.url, **files, **given))


async def found(targets: KubernetesTargets) -> dict[str, Found]:
    async with aiohttp.ClientSession() as session:
        await targets.refresh(session)
    return {endpoint.labels["name"]: endpoint for endpoint in targets.look()}


async def test_what_a_pod_starts_its_engine_with_is_known_and_its_secrets_are_not(tmp_path: Path) -> None:
    args = ["serve", "m", "--api-key", "sk-1", "--max-num-seqs", "64", "--pipeline-parallel-size=2"]
    async with kubernetes(pod("a", args=args)) as fake:
        labels = (await found(source(fake, tmp_path)))["a"].labels
    assert labels["engine_args"] == "--max-num-seqs=64 --pipeline-parallel-size=2"
    assert labels["engine_args_evidence"] == "pod"
    assert "sk-1" not in str(labels)


async def test_a_pod_becomes_a_target_with_what_it_says_of_itself(tmp_path: Path) -> None:
    labels = {"llm-d.ai/role": "decode", "llm-d.ai/model": "llama"}
    async with kubernetes(pod("decode-0", "10.0.0.7", labels=labels, gpus=8)) as fake:
        targets = source(fake, tmp_path, label_selector="app=vllm")
        assert await found(targets) == {
            "decode-0": Found(
                "10.0.0.7:8000",
                {
                    "name": "decode-0",
                    "kind": "vllm",
                    "namespace": "serving",
                    "pod": "decode-0",
                    "node": "gpu-1",
                    "pod_uid": "uid-decode-0",
                    "role": "decode",
                    "role_evidence": "llm-d.ai/role=decode",
                    "model": "llama",
                    "gpus": "8",
                },
            )
        }
    assert targets.trouble == ""
    assert fake.asked == [("/api/v1/namespaces/serving/pods", {"limit": "500", "labelSelector": "app=vllm"})]


@pytest.mark.parametrize(
    ("said", "role"),
    [
        ("prefill", "prefill"),
        ("decode", "decode"),
        ("both", "aggregated"),
        ("prefill-decode", "aggregated"),
        ("encode-prefill", "prefill"),
        ("something-new", None),
        ("", None),
    ],
)
async def test_roles_in_llm_ds_words(tmp_path: Path, said: str, role: str | None) -> None:
    """What says no role we know is no evidence: such a target serves alone until it shows otherwise."""
    async with kubernetes(pod("a", labels={"llm-d.ai/role": said} if said else {})) as fake:
        endpoint = (await found(source(fake, tmp_path)))["a"]
    assert endpoint.labels.get("role") == role
    assert ("role_evidence" in endpoint.labels) == (role is not None)


async def test_a_role_label_of_ones_own_is_named_as_evidence(tmp_path: Path) -> None:
    async with kubernetes(pod("a", labels={"example.com/part": "prefill", "llm-d.ai/role": "decode"})) as fake:
        endpoint = (await found(source(fake, tmp_path, role_label="example.com/part")))["a"]
    assert (endpoint.labels["role"], endpoint.labels["role_evidence"]) == ("prefill", "example.com/part=prefill")


PORTS = [{"name": "http", "containerPort": 8000}, {"name": "metrics", "containerPort": 9400}]


@pytest.mark.parametrize(
    ("given", "annotations", "port"),
    [
        pytest.param({"port": 8200}, {}, 8200, id="a number"),
        pytest.param({"port": "metrics"}, {}, 9400, id="a port's name"),
        pytest.param({}, {"prometheus.io/port": "9400"}, 9400, id="the annotation"),
        pytest.param({"port": 8200}, {"prometheus.io/port": "9400"}, 8200, id="the config before the annotation"),
    ],
)
async def test_which_port(tmp_path: Path, given: dict[str, Any], annotations: dict[str, str], port: int) -> None:
    async with kubernetes(pod("a", ports=PORTS, annotations=annotations)) as fake:
        assert (await found(source(fake, tmp_path, **given)))["a"].address == f"10.0.0.1:{port}"


@pytest.mark.parametrize(
    ("given", "ports", "words"),
    [
        ({"port": "grpc"}, PORTS, "pod a has no port named 'grpc'"),
        ({}, PORTS, "pod a has 2 ports; write port:"),
        ({}, [], "pod a has no ports; write port:"),
        ({}, [{"containerPort": 8000, "protocol": "UDP"}], "pod a has no ports; write port:"),
    ],
)
async def test_a_pod_without_a_port_is_told_and_the_others_are_kept(
    tmp_path: Path, given: dict[str, Any], ports: list[dict[str, Any]], words: str
) -> None:
    other = pod("b", ports=[{"name": "grpc", "containerPort": 5}])
    async with kubernetes(pod("a", ports=ports), other) as fake:
        targets = source(fake, tmp_path, **given)
        assert list(await found(targets)) == ["b"]
    assert words in targets.trouble


async def test_scheme_and_path_come_from_annotations(tmp_path: Path) -> None:
    noted = {"prometheus.io/scheme": "https", "prometheus.io/path": "/m"}
    async with kubernetes(pod("a", "fd00::7", annotations=noted)) as fake:
        endpoint = (await found(source(fake, tmp_path)))["a"]
    assert endpoint.address == "[fd00::7]:8000"
    assert (endpoint.labels["__scheme__"], endpoint.labels["__metrics_path__"]) == ("https", "/m")


async def test_a_pod_counts_from_its_first_readiness_until_it_ends(tmp_path: Path) -> None:
    """Loading weights is not down; not ready any more is what is to be seen; a new pod of that name begins anew."""
    async with kubernetes() as fake:
        targets = source(fake, tmp_path)
        seen = []
        for state in (
            pod("a", ready=False),
            pod("a", ready=True),
            pod("a", ready=False),
            pod("a", ready=False, deleted=True),
            pod("a", ready=False, uid="another"),
            pod("a", ready=True, uid="another", phase="Succeeded"),
            pod("a", ip=""),
        ):
            fake.pods = [state]
            seen.append(list(await found(targets)))
    assert seen == [[], ["a"], ["a"], [], [], [], []]


async def test_lists_page_by_page(tmp_path: Path) -> None:
    async with kubernetes(*(pod(f"p{n}", f"10.0.0.{n}") for n in range(7))) as fake:
        fake.page = 3
        assert len(await found(source(fake, tmp_path))) == 7
    assert [query.get("continue") for _, query in fake.asked] == [None, "3", "6"]


async def test_a_nodes_agent_asks_for_its_own_pods_only(tmp_path: Path) -> None:
    async with kubernetes(pod("here", node="gpu-1"), pod("there", node="gpu-2")) as fake:
        assert list(await found(source(fake, tmp_path, node="gpu-1"))) == ["here"]
    assert fake.asked[0][1]["fieldSelector"] == "spec.nodeName=gpu-1"


async def test_names_of_all_namespaces_do_not_collide(tmp_path: Path) -> None:
    pods = pod("a", namespace="x"), pod("a", "10.0.0.2", namespace="y", uid="2"), pod("n" * 80, namespace="x")
    async with kubernetes(*pods) as fake:
        names = await found(source(fake, tmp_path, all_namespaces=True))
    assert list(names) == ["x.a", "n" * 63, "y.a"]
    assert fake.asked[0][0] == "/api/v1/pods"


async def test_a_token_that_was_replaced_is_used(tmp_path: Path) -> None:
    """Kubernetes replaces it every hour or so; the old one then answers 401, and the last good list stays."""
    async with kubernetes(pod("a")) as fake:
        targets = source(fake, tmp_path)
        await found(targets)
        fake.token = "another"
        assert list(await found(targets)) == ["a"]
        assert "HTTP 401: the token is missing, expired or not known there" in targets.trouble
        assert "last good list (1 targets) stays" in targets.trouble
        (tmp_path / "token").write_text("another")
        assert list(await found(targets)) == ["a"]
        assert targets.trouble == ""
    assert "secret" not in targets.trouble


@pytest.mark.parametrize("body", [[], {}, {"items": 7}, {"items": [7]}, {"items": [{}]}, "no"])
async def test_an_answer_that_is_no_list_of_pods_keeps_the_last_list(tmp_path: Path, body: object) -> None:
    async with kubernetes(pod("a")) as fake:
        targets = source(fake, tmp_path)
        await found(targets)
        fake.body = body
        assert list(await found(targets)) == ["a"]
    assert "no list of pods" in targets.trouble


async def test_outside_of_a_cluster_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    targets = KubernetesTargets(KubernetesDiscovery(namespace="x"))
    assert await found(targets) == {}
    assert "this is no pod: KUBERNETES_SERVICE_HOST is not set; write api_url" in targets.trouble


async def test_without_a_service_account_the_missing_file_is_named(tmp_path: Path) -> None:
    async with kubernetes(pod("a")) as fake:
        item = KubernetesDiscovery(api_url=fake.url, namespace="x", token_file=tmp_path / "none")
        targets = KubernetesTargets(item)
        assert await found(targets) == {}
    assert f"{tmp_path / 'none'}: No such file or directory" in targets.trouble


CERTS = Path(__file__).parent / "canary/certs"  # made for these tests; their keys guard nothing


def over_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "good.pem")
    return context


async def test_over_tls_the_api_is_checked_against_the_clusters_own_authority(tmp_path: Path) -> None:
    """And against nothing else: the token is not sent to whoever answers with another certificate."""
    shutil.copy(CERTS / "ca.pem", tmp_path / "ca.crt")
    async with kubernetes(pod("a"), tls=over_tls()) as fake:
        assert fake.url.startswith("https://")
        targets = source(fake, tmp_path)
        assert list(await found(targets)) == ["a"]
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        shutil.copy(CERTS / "other_host.pem", stranger / "ca.crt")
        refusing = source(fake, stranger)
        assert await found(refusing) == {}
    assert targets.trouble == ""
    assert f"the API's certificate is not among those of {stranger / 'ca.crt'}" in refusing.trouble
    assert len(fake.asked) == 1


async def test_an_authority_that_is_replaced_is_taken_over_without_a_restart(tmp_path: Path) -> None:
    """Missing, damaged, then right, as while Kubernetes changes it; what was found stays meanwhile."""
    file, troubles = tmp_path / "ca.crt", []
    shutil.copy(CERTS / "ca.pem", file)
    async with kubernetes(pod("a"), tls=over_tls()) as fake:
        targets = source(fake, tmp_path)
        await found(targets)
        changes = (file.unlink, lambda: file.write_text("no certificate"), lambda: shutil.copy(CERTS / "ca.pem", file))
        for number, change in enumerate(changes):
            change()
            if file.exists():
                os.utime(file, (number, number))
            assert list(await found(targets)) == ["a"]
            troubles.append(targets.trouble)
    assert "ca.crt: No such file or directory" in troubles[0]
    assert "the API's certificate is not among those of" in troubles[1]
    assert troubles[2] == ""
