"""Write a LoRA adapter of random weights for the model of make_tiny_model.py.

Usage: make_tiny_adapter.py DIR      needs `torch` and `safetensors`, which come with vLLM
"""

import json
import sys
from pathlib import Path

import torch
from make_tiny_model import CONFIG
from safetensors.torch import save_file

RANK = 8
LAYER = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"


def write_adapter(folder: Path) -> None:
    """Only the queries' projection is adapted: enough to be another model by name."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden, layers = CONFIG["hidden_size"], CONFIG["num_hidden_layers"]
    shapes = {"A": (RANK, hidden), "B": (hidden, RANK)}
    weights = {
        LAYER.format(layer, part): torch.randn(shape) * 0.01
        for layer in range(layers)
        for part, shape in shapes.items()
    }
    save_file(weights, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_adapter(Path(sys.argv[1]))
