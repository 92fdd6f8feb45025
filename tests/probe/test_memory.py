"""Memory of a comparison does not grow with the models, only with their largest matrix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

WIDTH, INNER, LAYERS, ROWS = 2048, 5632, 20, 32000
_LIMIT = 1.0e9
_CODE = """
import re, sys, torch
from mixlab.probe import find_lineage
torch.set_num_threads(1)
print(find_lineage(sys.argv[1], sys.argv[2:]).verdicts[0].verdict)
# Not ru_maxrss, which holds the peak of the process that started this one too.
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))
"""


def _write(folder: Path, prefix: str, seed: int, step: float) -> None:
    """A Llama of 1.03B parameters in bfloat16: a base, and a step of its own."""
    about = {
        "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "vision_config": {},
    }  # fmt: skip
    shapes = {"embed_tokens.weight": (ROWS, WIDTH), "norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        for name, shape in {
            "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (WIDTH // 4, WIDTH),
            "self_attn.v_proj": (WIDTH // 4, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
            "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
            "mlp.down_proj": (WIDTH, INNER),
        }.items():  # fmt: skip
            shapes[f"layers.{layer}.{name}.weight"] = shape
    base, own = (torch.Generator().manual_seed(s) for s in (0, seed))
    state = {}
    for name, shape in shapes.items():
        tensor = 0.02 * torch.randn(shape, generator=base)
        if step:
            tensor += step * torch.randn(shape, generator=own)
        state[prefix + name] = tensor.to(torch.bfloat16)
    if prefix != "model.":
        state["vision_tower.proj.weight"] = torch.ones(16, 16)
    folder.mkdir()
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(about))


@pytest.mark.slow
def test_a_billion_parameters_in_a_gigabyte(tmp_path: Path) -> None:
    _write(tmp_path / "vlm", "language_model.model.", 1, 1e-3)
    _write(tmp_path / "base", "model.", 2, 0)
    _write(tmp_path / "sibling", "model.", 3, 1e-3)
    models = [str(tmp_path / name) for name in ("vlm", "base", "sibling")]
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *models], check=True, capture_output=True, text=True
    )
    verdict, peak = done.stdout.split()
    assert verdict == "ancestor"
    print(f"peak {int(peak) / 1e9:.2f} GB")
    assert int(peak) < _LIMIT
