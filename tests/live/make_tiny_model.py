"""Write a tiny Llama checkpoint folder (config and byte-level BPE tokenizer, no weights) for `--load-format dummy`.

Usage: make_tiny_model.py DIR [VOCABULARY]      needs the `tokenizers` package, which comes with vLLM
"""

import json
import sys
import sysconfig
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{m['role']}}\n{{m['content']}}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 16384,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "torch_dtype": "bfloat16",
    "attention_bias": False,
    "mlp_bias": False,
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<|endoftext|>",
    "pad_token": "<|endoftext|>",
    "model_max_length": 16384,
    "chat_template": CHAT_TEMPLATE,
}


def write_model(folder: Path, vocabulary: int) -> None:
    """The tokenizer is trained on the standard library's sources: text that every Python brings."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    texts = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:80]
    tokenizer.train([str(path) for path in texts], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in (
        ("tokenizer_config.json", TOKENIZER_CONFIG),
        ("config.json", CONFIG | {"vocab_size": vocabulary}),
        ("generation_config.json", {"eos_token_id": 0}),
    ):
        (folder / name).write_text(json.dumps(content))


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1024)
