"""Wall time of whole merges against `mergekit-yaml` and against copying, in one run.

    python -m tests.benchmarks.merge [--methods linear,ties] [--rounds 3] [--mergekit-rounds 3]
    python -m tests.benchmarks.merge --memory

Makes a synthetic Llama-shaped bfloat16 pair of 1.1B parameters in four shards (4.4 GB under
--folder, kept for the next run), then runs the same mergekit file through both programs from a
shell, start-up included, page cache warm, in rounds that alternate. Prints medians, the ratio of
each, and the peak resident memory of each process. `copy` reads both inputs and writes one output
(`cat` of one, `cp` of the other); `copy+sync` also flushes the output to disk, as a merge of ours
does. With --memory it compares `merge_state_dicts` of both on state dicts instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

LAYERS, WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 22, 2048, 5632, 32, 4, 32000
DENSE = {"density": 0.5, "weight": 0.7}
METHODS: dict[str, tuple[bool, dict[str, float]]] = {
    # name: (needs a base, settings of the tuned model)
    "linear": (False, {"weight": 0.7}),
    "task_arithmetic": (True, {"weight": 0.7}),
    "slerp": (True, {}),
    "dare_linear": (True, DENSE),
    "ties": (True, DENSE),
    "della": (True, DENSE),
    "breadcrumbs": (True, DENSE),
    "dare_ties": (True, DENSE),
    "della_linear": (True, DENSE),
    "breadcrumbs_ties": (True, DENSE),
}


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    head = WIDTH // HEADS
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {
            at + "input_layernorm.weight": (WIDTH,),
            at + "self_attn.q_proj.weight": (WIDTH, WIDTH),
            at + "self_attn.k_proj.weight": (KV_HEADS * head, WIDTH),
            at + "self_attn.v_proj.weight": (KV_HEADS * head, WIDTH),
            at + "self_attn.o_proj.weight": (WIDTH, WIDTH),
            at + "post_attention_layernorm.weight": (WIDTH,),
            at + "mlp.gate_proj.weight": (INNER, WIDTH),
            at + "mlp.up_proj.weight": (INNER, WIDTH),
            at + "mlp.down_proj.weight": (WIDTH, INNER),
        }
    return found | {"model.norm.weight": (WIDTH,), "lm_head.weight": (VOCABULARY, WIDTH)}


def write_pair(folder: Path, layers: int, shards: int = 4) -> tuple[Path, Path]:
    """A base and a model that moved a little from it, written once."""
    base, tuned = folder / "base", folder / "tuned"
    if (folder / "done").exists():
        return base, tuned
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(0)
    wanted = shapes(layers)
    groups: list[list[str]] = [[] for _ in range(shards)]
    total = sum(torch.Size(shape).numel() for shape in wanted.values())
    done = 0
    for name, shape in wanted.items():
        groups[min(done * shards // total, shards - 1)].append(name)
        done += torch.Size(shape).numel()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 2048, "hidden_act": "silu", "dtype": "bfloat16",
        "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    for path in (base, tuned):
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(config))
    weight_map = {}
    for index, group in enumerate(groups):
        name = f"model-{index + 1:05}-of-{shards:05}.safetensors"
        one = {n: torch.randn(wanted[n], generator=generator).mul_(0.02).bfloat16() for n in group}
        save_file(one, base / name, metadata={"format": "pt"})
        for tensor in one.values():
            moved = torch.randn(tensor.shape, generator=generator).mul_(0.002)
            tensor.copy_(moved.add_(tensor))
        save_file(one, tuned / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(group, name)
    index_file = {"metadata": {"total_size": 2 * total}, "weight_map": weight_map}
    for path in (base, tuned):
        (path / "model.safetensors.index.json").write_text(json.dumps(index_file))
    (folder / "done").touch()
    return base, tuned


def recipe(name: str, base: Path, tuned: Path) -> str:
    needs_base, settings = METHODS[name]
    if name == "slerp":
        return json.dumps(
            {"merge_method": "slerp", "base_model": str(base), "parameters": {"t": 0.3},
             "models": [{"model": str(base)}, {"model": str(tuned)}], "dtype": "bfloat16"}
        )  # fmt: skip
    models: list[dict[str, object]] = [{"model": str(tuned), "parameters": settings}]
    if not needs_base:
        models.insert(0, {"model": str(base), "parameters": {"weight": 0.3}})
    document: dict[str, object] = {"merge_method": name, "models": models, "dtype": "bfloat16"}
    if needs_base:
        document["base_model"] = str(base)
    return json.dumps(document)


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak resident GB of one process, run to its end."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{message.decode()[-2000:]}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1e6


def on_disk(args: argparse.Namespace) -> None:
    base, tuned = write_pair(args.folder / f"layers-{args.layers}", args.layers)
    out = args.folder / "out"
    binaries = Path(sys.executable).parent
    copy = f"cat {tuned}/*.safetensors > /dev/null && mkdir {out} && cp {base}/*.safetensors {out}"
    commands: dict[str, list[str]] = {
        "copy": ["sh", "-c", copy],
        "copy+sync": ["sh", "-c", f"{copy} && sync {out}/*"],
    }
    for name in args.methods.split(","):
        file = args.folder / f"{name}.yml"
        file.write_text(recipe(name, base, tuned))
        commands[f"{name} mixlab"] = [str(binaries / "mixlab"), "merge", str(file), str(out)]
        commands[f"{name} mergekit"] = [
            str(binaries / "mergekit-yaml"), str(file), str(out), "--no-copy-tokenizer",
        ]  # fmt: skip
    found: dict[str, list[tuple[float, float]]] = {key: [] for key in commands}
    for turn in range(-1, max(args.rounds, args.mergekit_rounds)):
        for key, command in commands.items():
            slow = key.endswith("mergekit")
            if turn >= (args.mergekit_rounds if slow else args.rounds) or (slow and turn < 0):
                continue
            shutil.rmtree(out, ignore_errors=True)
            os.sync()
            result = timed(command)
            if turn >= 0:  # the first turn only warms the page cache
                found[key].append(result)
                print(f"  {key}: {result[0]:.2f} s", file=sys.stderr, flush=True)
    shutil.rmtree(out, ignore_errors=True)
    seconds = {k: statistics.median(r[0] for r in rows) for k, rows in found.items() if rows}
    memory = {k: max(r[1] for r in rows) for k, rows in found.items() if rows}
    print(f"copy {seconds['copy']:.2f} s, copy+sync {seconds['copy+sync']:.2f} s")
    print("method           mixlab s   GB  mergekit s   GB  times less  times copy  copy+sync")
    for name in args.methods.split(","):
        ours, theirs = f"{name} mixlab", f"{name} mergekit"
        line = f"{name:16} {seconds[ours]:8.2f} {memory[ours]:4.2f}"
        if theirs in seconds:
            line += f"  {seconds[theirs]:10.2f} {memory[theirs]:4.2f}"
            line += f"  {seconds[theirs] / seconds[ours]:10.1f}"
        else:
            line += " " * 30
        line += f"  {seconds[ours] / seconds['copy']:10.2f}"
        print(f"{line}  {seconds[ours] / seconds['copy+sync']:9.2f}")


def in_memory(args: argparse.Namespace) -> None:
    import mergekit.merge_methods as theirs

    import mixlab.merge as ours

    generator = torch.Generator().manual_seed(0)
    base = {
        name: torch.randn(shape, generator=generator).mul_(0.02).bfloat16()
        for name, shape in shapes(args.layers).items()
    }
    tuned = {
        name: (tensor + 0.002 * torch.randn(tensor.shape, generator=generator)).bfloat16()
        for name, tensor in base.items()
    }
    weights = {"weight": 0.7, "density": 0.5}
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "linear": (
            lambda: ours.merge_state_dicts(
                "linear", [base, tuned], settings={"weight": [0.3, 0.7]}
            ),
            lambda: theirs.merge_state_dicts(
                [base, tuned], "linear", parameters={"weight": [0.3, 0.7]}
            ),
        ),
        "ties": (
            lambda: ours.merge_state_dicts("ties", [tuned], base=base, settings=weights),
            lambda: theirs.merge_state_dicts(
                {"base": base, "tuned": tuned}, "ties", parameters=weights, base="base"
            ),
        ),
    }
    count = sum(tensor.numel() for tensor in base.values())
    print(f"in memory, {count / 1e6:.0f}M parameters, bfloat16, {torch.get_num_threads()} threads")
    for name, both in pairs.items():
        times: list[list[float]] = [[], []]
        for _ in range(args.rounds):
            for side, run in enumerate(both):
                begin = time.perf_counter()
                run()
                times[side].append(time.perf_counter() - begin)
        mine, other = (statistics.median(side) for side in times)
        print(
            f"{name:8} mixlab {mine:.2f} s, mergekit {other:.2f} s, {other / mine:.1f} times less"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--methods", default=",".join(list(METHODS)[:7]))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mergekit-rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/mixlab-merge-benchmark"))
    parser.add_argument("--memory", action="store_true", help="state dicts instead of files")
    args = parser.parse_args()
    if args.layers is None:
        args.layers = 4 if args.memory else LAYERS
    with torch.no_grad():
        in_memory(args) if args.memory else on_disk(args)


if __name__ == "__main__":
    main()
