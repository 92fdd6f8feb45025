"""Models whose lineage is known: trained from one base, merged, frozen, permuted, or strangers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tiny_checkpoints import LAYOUTS, write_folder

from tests.probe.language import VOCABULARY, Language, State, config, train, train_adapter

UNKNOWN, PERMUTED = "related, direction unknown", "related, neurons permuted"
# Steps and learning rate of a tuning.
BRIEF, MIDDLE, LONG = (40, 3e-4), (100, 1e-3), (250, 3e-3)


@dataclass
class World:
    """Trained models of one seed.

    Args:
        models: name -> weights in float32. `base`; `v-*` and `s-*` tuned from it on two other
            languages, `t-middle` on a third; `chain` tuned from `s-middle`; `start` trained from
            the base's own random weights on another language; `adapter-v` and `adapter-s` hold the
            changes alone of adapters trained on the base; `stranger` and `twin` from other
            random weights, the twin on the base's language.
    """

    seed: int
    models: dict[str, State] = field(default_factory=dict)


def grow(seed: int) -> World:
    """Train a world of thirteen models, a second or two each."""
    first, second, third, fourth, fifth = (Language(100 * seed + at) for at in range(5))
    base = train(None, first, steps=250, rate=3e-3, seed=10 * seed)
    models = {"base": base}
    for name, (steps, rate) in {"brief": BRIEF, "middle": MIDDLE, "long": LONG}.items():
        for side, language in (("v", second), ("s", third)):
            about = {"steps": steps, "rate": rate, "seed": 1000 * seed + ord(side) + steps}
            models[f"{side}-{name}"] = train(base, language, **about)
    steps, rate = MIDDLE
    models["t-middle"] = train(base, fourth, steps=steps, rate=rate, seed=seed + 7)
    models["chain"] = train(models["s-middle"], second, steps=steps, rate=rate, seed=seed + 8)
    models["start"] = train(None, fifth, steps=250, rate=3e-3, seed=10 * seed)
    models["stranger"] = train(None, fifth, steps=250, rate=3e-3, seed=10 * seed + 1)
    models["twin"] = train(None, first, steps=250, rate=3e-3, seed=10 * seed + 2)
    for name, language, rank in (("adapter-v", second, 4), ("adapter-s", third, 2)):
        models[name] = train_adapter(base, language, rank=rank, steps=30, rate=2e-3, seed=seed + 9)
    return World(seed, models)


def to(state: State, dtype: torch.dtype) -> State:
    return {name: tensor.to(dtype) for name, tensor in state.items()}


def merged(base: State, tuned: State, rank: int) -> State:
    """What merging an adapter writes: the strongest directions of a real update, rounded once."""
    out = {}
    for name, tensor in base.items():
        out[name] = tensor
        if tensor.dim() == 2 and "layers" in name:
            left, values, right = torch.linalg.svd(tuned[name].double() - tensor.double())
            change = (left[:, :rank] * values[:rank]) @ right[:rank]
            out[name] = (tensor.double() + change).to(tensor.dtype)
    return out


def permuted(state: State, seed: int, *, all_of_it: bool) -> State:
    """The same function, with neurons in another order; heads and residual stream too if all."""
    generator = torch.Generator().manual_seed(seed)
    about = config()
    width, heads, groups = about.hidden_size, about.num_attention_heads, about.num_key_value_heads
    stream = torch.arange(width)
    if all_of_it:
        stream = torch.randperm(width, generator=generator)
    out = {n: t[..., stream] if t.dim() == 2 else t[stream] for n, t in state.items()}
    size, each = width // heads, heads // groups
    for layer in range(about.num_hidden_layers):
        path = f"model.layers.{layer}."
        neurons = torch.randperm(about.intermediate_size, generator=generator)
        for name in ("gate_proj", "up_proj"):
            key = f"{path}mlp.{name}.weight"
            out[key] = out[key][neurons]
        key = f"{path}mlp.down_proj.weight"
        out[key] = state[key][stream][:, neurons]
        order = torch.randperm(groups, generator=generator) if all_of_it else torch.arange(groups)
        keys = (order[:, None] * size + torch.arange(size)).flatten()
        queries = (order[:, None] * (each * size) + torch.arange(each * size)).flatten()
        for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            key = f"{path}self_attn.{name}.weight"
            out[key] = out[key][rows]
        key = f"{path}self_attn.o_proj.weight"
        out[key] = state[key][stream][:, queries]
    return {name: tensor.contiguous() for name, tensor in out.items()}


def write_lm(folder: Path, state: State, **about: object) -> Path:
    """A folder of a text model."""
    values = json.loads(config(state["model.embed_tokens.weight"].shape[0]).to_json_string())
    return write_folder(folder, state, {**values, "architectures": ["LlamaForCausalLM"]}, **about)


def write_vlm(folder: Path, state: State, layout: str, **about: object) -> Path:
    """A folder of a VLM with this backbone, and random weights that see."""
    body, _, vision = LAYOUTS[layout]
    dtype = state["model.norm.weight"].dtype
    out = {body + name.removeprefix("model."): tensor for name, tensor in state.items()}
    generator = torch.Generator().manual_seed(5)
    for name in (f"{vision}blocks.0.mlp.fc1.weight", "multi_modal_projector.weight"):
        out[name] = torch.randn((16, 16), generator=generator).to(dtype)
    values = json.loads(config(state["model.embed_tokens.weight"].shape[0]).to_json_string())
    whole = {"model_type": "llava", "text_config": values, "vision_config": {"hidden_size": 16}}
    return write_folder(folder, out, whole, **about)


@dataclass(frozen=True)
class Question:
    """A VLM, its references, and what each is.

    Args:
        kind: of planting, for the confusion table.
        vlm: its folder.
        references: folder -> the verdicts that the evidence allows, the best first.
    """

    kind: str
    vlm: Path
    references: dict[Path, tuple[str, ...]]


def ask(world: World, root: Path) -> Iterator[Question]:
    """Write the world's folders and yield every question that is asked about it."""
    models, seed = world.models, world.seed
    half = (torch.float32, torch.bfloat16, torch.float16)[seed % 3]
    layouts = ("llava", "qwen2_vl", "qwen3_vl")

    def lm(name: str, state: State, **about: object) -> Path:
        return write_lm(root / name, state, **about)

    def vlm(name: str, state: State, at: int = 0, **about: object) -> Path:
        return write_vlm(root / f"{name}-vlm", state, layouts[(seed + at) % 3], **about)

    stored = {n: to(state, half) for n, state in models.items() if "adapter" not in n}
    folder = {name: lm(name, state) for name, state in stored.items()}
    sees = {name: vlm(name, state, at) for at, (name, state) in enumerate(stored.items())}
    base = folder["base"]
    unknown, ancestor, sibling = (UNKNOWN,), ("ancestor",), ("sibling",)

    for name in ("brief", "middle", "long"):
        v, s = sees[f"v-{name}"], folder[f"s-{name}"]
        yield Question(f"tuned {name}, alone", v, {base: unknown})
        yield Question(f"sibling {name}, alone", v, {s: unknown})
        allowed = (*sibling, UNKNOWN) if name == "brief" else sibling
        yield Question(f"tuned {name}, with sibling", v, {base: ancestor, s: allowed})
    yield Question(
        "two siblings, no base", sees["v-middle"],
        {folder["s-middle"]: unknown, folder["t-middle"]: unknown},
    )  # fmt: skip
    yield Question(
        "base, two siblings, stranger", sees["v-middle"],
        {
            folder["s-middle"]: sibling, base: ancestor, folder["stranger"]: ("stranger",),
            folder["t-middle"]: sibling,
        },
    )  # fmt: skip
    yield Question(
        "chain", sees["chain"],
        {base: ("earlier ancestor", UNKNOWN), folder["s-middle"]: ancestor},
    )  # fmt: skip
    for other in ("stranger", "twin", "start"):
        for name in ("base", "v-long"):
            yield Question(f"{other}, {name}", sees[name], {folder[other]: ("stranger",)})
    yield Question(
        "only strangers", sees["v-middle"],
        {folder[n]: ("stranger",) for n in ("stranger", "twin", "start")},
    )  # fmt: skip
    yield from _merges(world, stored, root, lm, vlm, base)
    yield from _copies(world, stored, lm, vlm, base)
    yield from _orders(world, stored, lm, vlm, base)


def _merges(world, stored, root, lm, vlm, base) -> Iterator[Question]:  # type: ignore[no-untyped-def]
    start = stored["base"]
    added = {
        side: {n: t + world.models[f"adapter-{side}"][n].to(t.dtype) if n in
               world.models[f"adapter-{side}"] else t for n, t in start.items()}
        for side in ("v", "s")
    }  # fmt: skip
    mine, its = vlm("trained-adapter", added["v"]), lm("other-trained-adapter", added["s"])
    yield Question("adapter trained, merged", mine, {base: ("ancestor",)})
    yield Question("two trained adapters", mine, {its: ("sibling",)})
    yield Question("trained adapters and base", mine, {its: ("sibling",), base: ("ancestor",)})
    # The base in float16, the VLM in bfloat16: a reference's own rounding would not show.
    fine = to(world.models["base"], torch.float16)
    coarse = to(merged(fine, world.models["v-middle"], 4), torch.bfloat16)
    apart = lm("fine-adapter", merged(fine, world.models["s-middle"], 4))
    for its in (lm("fine", fine), apart):
        yield Question("adapters, finer reference", vlm("coarse", coarse), {its: (UNKNOWN,)})
    for rank in (1, 4):
        step = merged(start, world.models["s-middle"], rank)
        change = {n: t - world.models["base"][n] for n, t in world.models["v-middle"].items()}
        two = merged(step, {n: t.float() + change[n] for n, t in step.items()}, rank)
        row = vlm(f"two-in-a-row-{rank}", two)
        yield Question("two merges in a row", row, {base: ("earlier ancestor",)})
        yield Question(
            "two merges in a row, both", row,
            {base: ("earlier ancestor",), lm(f"step-{rank}", step): ("ancestor",)},
        )  # fmt: skip
        mine = vlm(f"adapter-{rank}", merged(start, world.models["v-middle"], rank), rank)
        its = lm(f"other-adapter-{rank}", merged(start, world.models["s-middle"], rank))
        yield Question("adapter merged", mine, {base: ("ancestor",)})
        yield Question("two adapters on one base", mine, {its: ("sibling",)})
        yield Question("two adapters and base", mine, {base: ("ancestor",), its: ("sibling",)})
        frozen = vlm(f"frozen-{rank}", start, rank)
        yield Question("reference is a merge", frozen, {its: ("sibling",)})
        yield Question("text models, merged onto", its, {base: ("ancestor",)})
        yield Question("text models, merge", base, {its: ("descendant",)})


def _copies(world, stored, lm, vlm, base) -> Iterator[Question]:  # type: ignore[no-untyped-def]
    start, table = stored["base"], "model.embed_tokens.weight"
    for at in range(3):
        yield Question("frozen", vlm(f"frozen-at-{at}", start, at), {base: ("ancestor",)})
    more = {**start, table: torch.cat([start[table], start[table][:8] + 1])}
    yield Question("frozen, more rows", vlm("frozen-rows", more), {base: ("ancestor",)})
    yield Question("copy", lm("copy", start), {base: ("same",)})
    halves = [
        lm(f"copy-{dtype}".replace("torch.", ""), to(world.models["base"], dtype))
        for dtype in (torch.float16, torch.bfloat16, torch.float32)
    ]
    for mine, its in ((0, 1), (1, 0), (2, 1), (1, 2)):
        yield Question("copy of another dtype", halves[mine], {halves[its]: ("same",)})
    seeing = vlm("frozen-bf16", to(world.models["base"], torch.bfloat16))
    yield Question("frozen, another dtype", seeing, {halves[0]: ("ancestor",)})
    coarse = to(world.models["base"], torch.bfloat16)
    generator = torch.Generator().manual_seed(world.seed)
    near = {
        n: t.float() * (1 + 2e-4 * torch.randn(t.shape, generator=generator))
        for n, t in coarse.items()
    }
    yield Question("hardly tuned, in float32", vlm("near", near), {halves[1]: ("ancestor",)})


def _orders(world, stored, lm, vlm, base) -> Iterator[Question]:  # type: ignore[no-untyped-def]
    seed = world.seed
    for whole in (False, True):
        for name in ("base", "v-middle", "v-long"):
            mine = permuted(stored[name], seed + 1, all_of_it=whole)
            kind = f"permuted {'wholly' if whole else 'MLPs'}, {name}"
            yield Question(kind, vlm(f"order-{name}-{whole}", mine, 1), {base: (PERMUTED,)})
    mine = permuted(stored["stranger"], seed + 2, all_of_it=True)
    yield Question("stranger, permuted", vlm("order-stranger", mine), {base: ("stranger",)})
    table = "model.embed_tokens.weight"
    order = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))
    words = {f"w{row}": row for row in range(VOCABULARY)}
    moved = {f"w{int(row)}": at for at, row in enumerate(order)}
    its = lm("words", stored["base"], tokenizer=words)
    for name, expected in (("base", "ancestor"), ("v-middle", UNKNOWN), ("stranger", "stranger")):
        state = {**stored[name], table: stored[name][table][order]}
        mine = vlm(f"words-{name}", state, tokenizer=moved)
        yield Question(f"other order of tokens, {name}", mine, {its: (expected,)})
    fewer = {**stored["stranger"], table: stored["stranger"][table][:100]}
    yield Question("stranger, fewer rows", vlm("fewer", fewer), {base: ("stranger",)})
