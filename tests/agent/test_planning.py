"""From the config, and what was discovered, to the plan."""

import pytest

from agent.config import Config
from agent.config_file import parse_config
from agent.config_watching import Target
from agent.errors import ConfigError
from agent.planning import all_targets, canary_targets, config_hash, found_of, make_plan, page_target, probe_task
from probes.discovery.file import Found

TEXT = """
node: n1
targets:
  - {name: a, url: "http://a:8000/", gpus: 2, gpu_type: H200, service: chat}
  - {name: cache, url: "http://c:9090", kind: lmcache}
prices: {gpu_hour_dollars: {H200: 3.6}}
canaries: [{kind: chat, targets: ["*"]}]
slos:
  - {name: up, service: chat, sli: availability, objective_ratio: 0.999, threshold_seconds: 300}
burn: {min_bad_events: 5}
advice: {max_replicas: 9}
"""
CONFIG = parse_config(TEXT, "agent.yaml")


def test_the_plan_holds_what_the_config_says() -> None:
    plan = make_plan(CONFIG, all_targets(CONFIG, ()))
    (slo,) = plan.slos
    assert (slo.source, slo.min_bad_events, len(slo.pairs)) == ("engine", 5, 4)
    assert (plan.node, plan.advice.max_replicas, list(plan.targets)) == ("n1", 9, ["a", "cache"])
    assert plan.targets["a"].dollars_per_second == pytest.approx(0.002)
    assert plan.targets["cache"].dollars_per_second == 0, "a cache server costs what kv_tier_hour_dollars says"


def test_kv_tiers_come_with_their_price_and_in_bytes() -> None:
    """A tier whose price nobody gave has none, which is not 0."""
    text = """
prices: {kv_tier_gigabyte_hour_dollars: {cpu: 0.004}}
advice:
  kv_tiers:
    - {name: cpu, gigabytes_per_second: 20, gigabytes: [128, 64], in_use_gigabytes: 64}
    - {name: remote, gigabytes_per_second: 2, latency_seconds: 0.03, gigabytes: [256]}
  kv_bytes_per_token: {m: 131072}
"""
    advice = make_plan(parse_config(text, "agent.yaml"), ()).advice
    cpu, remote = advice.kv_tiers
    assert (cpu.bytes_per_second, cpu.gigabytes, cpu.in_use_gigabytes) == (20e9, (64.0, 128.0), 64.0)
    assert (cpu.gigabyte_hour_dollars, remote.gigabyte_hour_dollars, remote.in_use_gigabytes) == (0.004, None, None)
    assert advice.kv_bytes_per_token == {"m": 131_072}


@pytest.mark.parametrize(
    ("advice", "prices", "words"),
    [
        ("in_use_gigabytes: 8", "cpu: 1", "cpu and disk are in use at once"),
        ("latency_seconds: 0", "gpu: 1", "gpu"),
    ],
)
def test_two_tiers_in_use_and_a_price_of_none_are_told(advice: str, prices: str, words: str) -> None:
    text = f"""
prices: {{kv_tier_gigabyte_hour_dollars: {{{prices}}}}}
advice:
  kv_tiers:
    - {{name: cpu, gigabytes_per_second: 20, gigabytes: [8], in_use_gigabytes: 8}}
    - {{name: disk, gigabytes_per_second: 2, gigabytes: [8], {advice}}}
"""
    with pytest.raises(ConfigError) as told:
        parse_config(text, "agent.yaml")
    assert words in str(told.value)


def test_a_discovered_target_fills_its_fields_from_labels_and_keeps_the_rest() -> None:
    labels = {"name": "b", "role": "decode", "model": "m", "service": "chat", "zone": "eu", "__scheme__": "https"}
    target = all_targets(CONFIG, [Found("b:8000", labels)])[-1]
    assert (target.name, target.url, target.role, target.model) == ("b", "https://b:8000", "decode", "m")
    assert target.labels == {"zone": "eu"}


def test_a_discovered_role_in_llm_ds_words_keeps_its_evidence() -> None:
    target = all_targets(CONFIG, [Found("b:8000", {"llm-d.ai/role": "prefill", "gpus": "8"})])[-1]
    assert (target.role, target.gpus) == ("prefill", 8)
    assert target.labels == {"llm-d.ai/role": "prefill", "role_evidence": "llm-d.ai/role=prefill"}


@pytest.mark.parametrize("gpus", ["", "0", "many", "-1"])
def test_gpus_that_are_no_number_are_one(gpus: str) -> None:
    assert all_targets(CONFIG, [Found("b:8000", {"gpus": gpus})])[-1].gpus == 1


def test_of_two_with_one_name_the_configured_stays() -> None:
    targets = all_targets(CONFIG, [Found("elsewhere:1", {"name": "a"})])
    assert [(target.name, target.url) for target in targets] == [("a", "http://a:8000"), ("cache", "http://c:9090")]


def test_engine_args_keep_what_is_known_and_no_secret() -> None:
    target = Target(name="a", url="http://a:8000", engine_args="--api-key sk-1 --max-num-seqs 64")
    assert target.engine_args == "--max-num-seqs=64"
    assert make_plan(CONFIG, [target]).targets["a"].engine_args.count("max-num-seqs") == 64
    found = all_targets(CONFIG, [Found("b:8000", {"engine_args": "--max-num-seqs=8", "engine_args_evidence": "pod"})])
    assert (found[-1].engine_args, found[-1].labels) == ("--max-num-seqs=8", {"engine_args_evidence": "pod"})


def test_engine_args_that_cannot_be_understood_are_refused() -> None:
    with pytest.raises(ValueError, match="--max-num-seqs is 'many'; expected a whole number"):
        Target(name="a", url="http://a:8000", engine_args="--max-num-seqs many")


def test_canaries_go_to_engines_only() -> None:
    assert [t.name for t in canary_targets(CONFIG.canaries[0], all_targets(CONFIG, ()))] == ["a"]


def test_addresses_of_pages_and_canaries() -> None:
    target = CONFIG.targets[0]
    assert page_target(CONFIG, target).url == "http://a:8000/metrics"
    task = probe_task(CONFIG.canaries[0], target, "from-the-page", 5.0)
    assert (task.url, task.model, task.token, task.planned_at_seconds) == ("http://a:8000", "from-the-page", None, 5.0)


def test_the_hash_names_the_very_config() -> None:
    other = parse_config(TEXT.replace("0.999", "0.99"), "agent.yaml")
    assert config_hash(CONFIG) == config_hash(parse_config(TEXT, "b.yaml")) != config_hash(other)


def test_a_target_for_a_recording_comes_back_as_it_was() -> None:
    """But for its auth, which no recording holds."""
    target = Target.model_validate(
        {
            "name": "a", "url": "https://[fd00::7]:8000/base", "kind": "dynamo_worker", "metrics_path": "/m",
            "model": "m", "role": "prefill", "service": "chat", "gpus": 8, "gpu_type": "h200",
            "engine_args": "vllm serve m --max-num-seqs 64 --api-key sk-1",
            "labels": {"pod": "a-0", "node": "n"}, "auth": {"bearer_token_env": "A_TOKEN"},
        }
    )  # fmt: skip
    plain = Target(name="b", url="http://b:8000")
    assert all_targets(Config(), map(found_of, (target, plain))) == [target.model_copy(update={"auth": None}), plain]
