"""Taking the language model out of a VLM on disk: wall time against `cp`, and peak memory.

    python -m tests.benchmarks.backbone [--layers 28] [--rounds 3] [--folder DIR]

Makes a synthetic Qwen2-VL-shaped bfloat16 VLM of about 2B parameters in the hub's layout, of random
bytes, under --folder (the system's folder for temporary files), and removes it in the end. Each
round runs `mixlab backbone extract` from a shell, start-up included, then `cp` of the same number
of bytes: the VLM's language model alone, as a file. Page cache warm, medians printed, and the ratio
of both, in one run; `cp+sync` also flushes to disk, as an extraction does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from safetensors.torch import save_file

WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 1536, 8960, 12, 2, 151936
VISION, DEPTH = 1280, 32


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Tensors of a Qwen2-VL of 2B parameters, as its repository names them."""
    head = WIDTH // HEADS
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {
            at + "input_layernorm.weight": (WIDTH,),
            at + "self_attn.q_proj.weight": (WIDTH, WIDTH),
            at + "self_attn.q_proj.bias": (WIDTH,),
            at + "self_attn.k_proj.weight": (KV_HEADS * head, WIDTH),
            at + "self_attn.k_proj.bias": (KV_HEADS * head,),
            at + "self_attn.v_proj.weight": (KV_HEADS * head, WIDTH),
            at + "self_attn.v_proj.bias": (KV_HEADS * head,),
            at + "self_attn.o_proj.weight": (WIDTH, WIDTH),
            at + "post_attention_layernorm.weight": (WIDTH,),
            at + "mlp.gate_proj.weight": (INNER, WIDTH),
            at + "mlp.up_proj.weight": (INNER, WIDTH),
            at + "mlp.down_proj.weight": (WIDTH, INNER),
        }
    found["model.norm.weight"] = (WIDTH,)
    found["visual.patch_embed.proj.weight"] = (VISION, 3, 2, 14, 14)
    for block in range(DEPTH):
        at = f"visual.blocks.{block}."
        for norm in ("norm1", "norm2"):
            found |= {f"{at}{norm}.{leaf}": (VISION,) for leaf in ("weight", "bias")}
        for name, out, into in (
            ("attn.qkv", 3 * VISION, VISION), ("attn.proj", VISION, VISION),
            ("mlp.fc1", 4 * VISION, VISION), ("mlp.fc2", VISION, 4 * VISION),
        ):  # fmt: skip
            found |= {f"{at}{name}.weight": (out, into), f"{at}{name}.bias": (out,)}
    merged = 4 * VISION
    return found | {
        "visual.merger.ln_q.weight": (VISION,), "visual.merger.ln_q.bias": (VISION,),
        "visual.merger.mlp.0.weight": (merged, merged), "visual.merger.mlp.0.bias": (merged,),
        "visual.merger.mlp.2.weight": (WIDTH, merged), "visual.merger.mlp.2.bias": (WIDTH,),
    }  # fmt: skip


def write_vlm(folder: Path, layers: int) -> int:
    """The VLM in two files; returns the bytes of its language model."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
        "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu", "torch_dtype": "bfloat16",
        "tie_word_embeddings": True, "max_position_embeddings": 32768,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {"depth": DEPTH, "embed_dim": VISION, "hidden_size": WIDTH,
                          "num_heads": 16, "patch_size": 14, "mlp_ratio": 4,
                          "in_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    generator, where, language = torch.Generator().manual_seed(0), {}, 0
    wanted = shapes(layers)
    names = list(wanted)
    for part, half in enumerate((names[: len(names) // 4], names[len(names) // 4 :]), 1):
        file = f"model-{part:05}-of-00002.safetensors"
        state = {}
        for name in half:
            # Random bits with a small exponent: finite, and nothing that a disk could compress.
            bits = torch.randint(0, 1 << 14, wanted[name], generator=generator, dtype=torch.int16)
            state[name] = bits.view(torch.bfloat16)
            language += bits.nbytes * (not name.startswith("visual."))
        save_file(state, folder / file, metadata={"format": "pt"})
        where |= dict.fromkeys(half, file)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return language


def timed(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident megabytes of a process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {status}")
    return time.perf_counter() - began, usage.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mixlab-backbone-", dir=given.folder))
    try:
        run(folder, given.layers, given.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, layers: int, rounds: int) -> None:
    # In a process of its own: the memory of this one counts among its children's, until they start.
    with ProcessPoolExecutor(1) as pool:
        language = pool.submit(write_vlm, folder / "vlm", layers).result()
    mixlab = str(Path(sys.executable).parent / "mixlab")
    seconds: dict[str, list[float]] = {"extract": [], "cp": [], "cp+sync": []}
    peak = 0.0
    plain = folder / "plain"
    for _ in range(rounds):
        shutil.rmtree(folder / "lm", ignore_errors=True)
        command = [mixlab, "backbone", "extract", str(folder / "vlm"), str(folder / "lm")]
        took, used = timed(command)
        seconds["extract"].append(took)
        peak = max(peak, used)
        if not plain.exists():
            shutil.copytree(folder / "lm", plain)
        for name in ("cp", "cp+sync"):
            flush = " && sync" if name == "cp+sync" else ""
            took, _ = timed(["sh", "-c", f"cp -r --reflink=never {plain} {folder}/copy{flush}"])
            seconds[name].append(took)
            shutil.rmtree(folder / "copy")
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    parameters = sum(torch.Size(shape).numel() for shape in shapes(layers).values())
    print(f"VLM of {parameters / 1e9:.2f}B parameters, {language / 1e9:.2f} GB of language model")
    for name, value in middle.items():
        print(f"{name:8} {value:6.2f} s   ({', '.join(f'{s:.2f}' for s in seconds[name])})")
    for name in ("cp", "cp+sync"):
        print(f"extract / {name}: {middle['extract'] / middle[name]:.2f}")
    print(f"peak memory of extract: {peak:.0f} MB")


if __name__ == "__main__":
    main()
