"""Arguments of vllm serve: what is known is kept, what is not is nobody's business, and what is unclear is unknown."""

import pytest

from probes.engine_args import args_of, engine_args


def test_what_is_known_is_kept_and_secrets_are_not() -> None:
    text = "vllm serve m --api-key sk-secret --max-num-seqs 64 --max_num_batched_tokens=8K --enable-lora -pp 2 --seed 7"
    args, mistakes = engine_args(text)
    assert mistakes == []
    assert str(args) == "--max-num-seqs=64 --max-num-batched-tokens=8K --enable-lora --pipeline-parallel-size=2"
    assert (args.count("max-num-seqs"), args.count("max-num-batched-tokens")) == (64, 8192)
    assert args.has("enable-lora")
    assert engine_args(str(args)) == (args, []), "its own form is read back the same"


def test_what_was_not_said_is_unknown() -> None:
    args, _ = engine_args("vllm serve m")
    assert (args.count("max-num-seqs"), args.ratio("gpu-memory-utilization"), args.word("kv-cache-dtype")) == (
        None, None, None,
    )  # fmt: skip
    assert not args.has("enable-lora")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sh", "-c", "exec vllm serve m --max-num-seqs 64 && true"], "--max-num-seqs=64"),
        (["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'], "--speculative-config"),
        (["--enable-expert-parallel", "--no-enable-expert-parallel"], ""),
        (["--enable-lora=false"], ""),
        (["--max-num-seqs", "64", "--max-num-seqs", "128"], "--max-num-seqs=128"),
        (["--gpu-memory-utilization", "0.85", "--kv-cache-dtype", "fp8_e4m3"], None),
        (["--other", "it's {not} a command"], ""),
    ],
)
def test_forms(words: list[str], said: str | None) -> None:
    args, mistakes = args_of(words)
    assert mistakes == []
    assert str(args) == ("--gpu-memory-utilization=0.85 --kv-cache-dtype=fp8_e4m3" if said is None else said)


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (["--max-num-seqs", "$(SEQS)"], "expected a whole number"),
        (["--max-num-seqs"], "expected a whole number"),
        (["--gpu-memory-utilization", "90"], "expected a ratio between 0 and 1"),
        (["--kv-cache-dtype", "$(X)"], "expected a word"),
    ],
)
def test_what_cannot_be_understood_is_unknown_and_told(words: list[str], mistake: str) -> None:
    """An earlier value does not count either: what is meant is another one."""
    args, mistakes = args_of([words[0], "0.5" if "ratio" in mistake else "7", *words])
    assert str(args) == ""
    assert mistake in mistakes[-1]


@pytest.mark.parametrize(("word", "tokens"), [("2k", 2000), ("2K", 2048), ("1.5k", 1500), ("8192", 8192)])
def test_numbers_as_vllm_reads_them(word: str, tokens: int) -> None:
    assert engine_args(f"--max-num-batched-tokens {word}")[0].count("max-num-batched-tokens") == tokens
