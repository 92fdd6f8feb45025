"""What names, cards and configs say: support for what the weights show, never proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.checkpoint import text_part
from mixlab.probe._opening import Opened
from mixlab.probe._rows import Tokens

_LIMIT = 1_000_000
_FIELDS = (
    "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "rope_theta", "vocab_size",
    "max_position_embeddings", "sliding_window", "tie_word_embeddings",
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """What a folder says of itself.

    Args:
        names: what it may be called: its folder, and `_name_or_path` of its config.
        bases: `base_model` of its card.
        license: of its card.
        template: its chat template.
    """

    names: frozenset[str]
    bases: tuple[str, ...]
    license: str | None
    template: str | None


def read_card(folder: Path, config: Mapping[str, Any]) -> Card:
    """Card, config and chat template of a folder; what is missing or damaged says nothing."""
    about = _front_matter(folder / "README.md")
    given = about.get("base_model")
    listed = given if isinstance(given, list) else [given]
    bases = tuple(base for base in listed if isinstance(base, str))
    licence = about.get("license")
    own = [folder.resolve().name, config.get("_name_or_path"), *_snapshot(folder)]
    names = frozenset(_plain(n) for n in own if isinstance(n, str) and n)
    return Card(names, bases, licence if isinstance(licence, str) else None, _template(folder))


def names_as_base(child: Card, parent: Card) -> bool:
    """Whether a card names another model as its base."""
    return any(_plain(base) in parent.names for base in child.bases)


def describe(
    models: Opened, at: int, vlm: Card, reference: Card, tokens: Tokens | None
) -> list[str]:
    """Sentences about reference `at`."""
    told = []
    if vlm.bases:
        named = "it is" if names_as_base(vlm, reference) else "this is not"
        told.append(f"card: the VLM's names {', '.join(vlm.bases)} as base model; {named} the one")
    if names_as_base(reference, vlm):
        told.append("card: the reference's names the VLM as its base model")
    if vlm.license and reference.license:
        same = "the same" if vlm.license == reference.license else "others"
        told.append(f"license: {same} ({vlm.license}, {reference.license})")
    told.append(_tokens(tokens))
    if vlm.template and reference.template:
        same = "equal" if vlm.template == reference.template else "different"
        told.append(f"chat templates: {same}")
    a, b = (text_part(models.configs[i]) for i in (0, at + 1))
    both = [f for f in _FIELDS if f in a and f in b]
    differ = [f"{f} {a[f]} and {b[f]}" for f in both if a[f] != b[f]]
    told.append(
        f"configs: {len(both) - len(differ)} of {len(both)} fields agree"
        + (f"; {', '.join(differ)}" if differ else "")
    )
    return told


def _tokens(tokens: Tokens | None) -> str:
    if tokens is None:
        return "tokenizers: not compared, one of the folders has none"
    equal = tokens.shared == tokens.mine == tokens.its and not tokens.moved
    if equal:
        return f"tokenizers: equal, {tokens.mine} tokens"
    return (
        f"tokenizers: {tokens.shared} tokens shared of {tokens.mine} and {tokens.its}, "
        f"{tokens.moved} of them with another id"
    )


def _plain(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].lower()


def _snapshot(folder: Path) -> list[str]:
    """The model's name in the hub's cache: models--OWNER--NAME/snapshots/REVISION."""
    return [part.split("--")[-1] for part in folder.resolve().parts if part.startswith("models--")]


def _front_matter(path: Path) -> dict[str, Any]:
    import yaml

    try:
        if path.stat().st_size > _LIMIT:
            return {}
        text = path.read_text(encoding="utf-8")
        if not text.startswith("---"):
            return {}
        found = yaml.safe_load(text[3:].partition("\n---")[0])
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _template(folder: Path) -> str | None:
    try:
        plain = folder / "chat_template.jinja"
        if plain.is_file():
            return plain.read_text(encoding="utf-8")
        about = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        found = about.get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None
