"""Folders of the zoo's models, as transformers writes them and as the hub has them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from tiny_vlms._family import END, IMAGE, START, VIDEO, VOCABULARY, Family

SPECIAL = {0: "<pad>", 1: "<bos>", 2: "<eos>", 3: "<unk>"}
VISUAL = {IMAGE: "<image>", VIDEO: "<video>", START: "<start>", END: "<end>"}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %} {{ m['role'] }} "
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for p in m['content'] %}"
    "{% if p['type'] == 'image' %} <start> <image> <end> {% else %}{{ p['text'] }}{% endif %}"
    "{% endfor %}{% endif %} {{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %} assistant{% endif %}"
)


def words(size: int = VOCABULARY, shuffled: int | None = None) -> hf.PreTrainedTokenizerFast:
    """A word-level tokenizer: w4, w5, … beside the special tokens, and <extra100>, … .

    Args:
        size: number of tokens.
        shuffled: a seed; the plain words then stand in another order.
    """
    extra = {at: f"<extra{at}>" for at in range(VOCABULARY, size)}
    marks = {at: token for at, token in {**SPECIAL, **VISUAL, **extra}.items() if at < size}
    places = [at for at in range(size) if at not in marks]
    order = list(places)
    if shuffled is not None:
        draw = torch.Generator().manual_seed(shuffled)
        order = [places[i] for i in torch.randperm(len(places), generator=draw)]
    vocabulary = {f"w{word}": at for word, at in zip(places, order, strict=True)}
    vocabulary |= {token: at for at, token in marks.items()}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = hf.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=[token for at, token in VISUAL.items() if at < size],
        model_max_length=128,
    )
    fast.chat_template = TEMPLATE
    return fast


def write_state(folder: Path, state: dict[str, torch.Tensor], shards: int = 1) -> None:
    """Safetensors files with these tensors, in order, and an index where there are several."""
    names = list(state)
    own = {name: state[name].detach().clone().contiguous() for name in names}
    if shards == 1:
        save_file(own, folder / "model.safetensors", {"format": "pt"})
        return
    where = {}
    for shard in range(shards):
        part = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: own[name] for name in part}, folder / file, {"format": "pt"})
        where |= dict.fromkeys(part, file)
    total = sum(tensor.numel() * tensor.element_size() for tensor in own.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def write_model(
    folder: Path,
    model: hf.PreTrainedModel,
    tokenizer: hf.PreTrainedTokenizerFast | None = None,
    shards: int = 1,
) -> Path:
    """The folder as transformers 5 saves it, with a tokenizer."""
    model.save_pretrained(folder)
    if shards > 1:
        whole = folder / "model.safetensors"
        state = load_file(whole)
        whole.unlink()
        write_state(folder, state, shards)
    (tokenizer or words()).save_pretrained(folder)
    return folder


def write_vlm(
    folder: Path,
    family: Family,
    layout: str = "saved",
    shards: int = 1,
    *,
    tied: bool = False,
    seed: int = 0,
    vlm: hf.PreTrainedModel | None = None,
) -> Path:
    """The family's VLM as a folder.

    Its layout is that which transformers 5 has `saved`, that of repositories of the `hub`, or
    the `memory`'s own names. A family with one of these names for all has one layout.
    """
    vlm = family.make(tied, seed) if vlm is None else vlm
    tokenizer = words(vlm.get_input_embeddings().num_embeddings)
    if layout == "saved":
        return write_model(folder, vlm, tokenizer, shards)
    folder.mkdir(parents=True, exist_ok=True)
    config = {**vlm.config.to_dict(), "architectures": [type(vlm).__name__], "dtype": "float32"}
    if layout == "hub" and family.hub_config is not None:
        config = family.hub_config(config)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    tokenizer.save_pretrained(folder)
    state = vlm.state_dict()
    if vlm.config.tie_word_embeddings:
        state = {
            name: tensor for name, tensor in state.items() if not name.endswith("lm_head.weight")
        }
    hub = family.hub_layout(state) if layout == "hub" else None
    write_state(folder, state if hub is None else hub, shards)
    return folder


def write_reference(
    folder: Path,
    family: Family,
    shards: int = 1,
    *,
    tied: bool = False,
    seed: int = 1,
    vlm: hf.PreTrainedModel | None = None,
    tokenizer: hf.PreTrainedTokenizerFast | None = None,
) -> Path:
    """A random LM of the family's natural class, with the shapes of its VLM."""
    vlm = family.make(tied, 0) if vlm is None else vlm
    return write_model(folder, family.reference(vlm, seed), tokenizer, shards)
