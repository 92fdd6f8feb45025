"""Do a VLM's backbone and a reference LM fit together? All differences at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlab.models._backbone import ROPE_OF_IMAGES, backbone_state, tied, vocabulary_names
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from mixlab.models._loading import LoadedModel

# What changes the function that a decoder computes, under the names of transformers' configs.
_FIELDS = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "hidden_activation", "rms_norm_eps",
    "layer_norm_eps", "sliding_window", "layer_types", "attention_bias", "mlp_bias",
    "final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar",
    "embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling",
    "num_experts", "num_local_experts", "num_experts_per_tok",
)  # fmt: skip


@dataclass(frozen=True)
class PairReport:
    """A pair that fits: rows of the vocabulary that both have, and those of the VLM alone."""

    shared_rows: int
    vlm_only_rows: int
    tensors: int


def check_pair(
    vlm: LoadedModel | PreTrainedModel, reference: LoadedModel | PreTrainedModel
) -> PairReport:
    """Compare the backbone with the reference: tensors, config, and tokens where both are loaded.

    The VLM may have more rows in its vocabulary than the reference (image tokens, padding).

    Raises:
        MixlabError: listing every difference in names, shapes, depth, heads, rope, activation,
            norm eps, tied head and vocabulary.
    """
    ours, theirs = _model(vlm), _model(reference)
    found = _configs(ours.config.get_text_config(decoder=True), theirs.config)
    state, other = backbone_state(ours), backbone_state(theirs)
    rows = vocabulary_names(ours)
    found += [f"tensor {n}: only the backbone has it" for n in sorted(state.keys() - other.keys())]
    found += [f"tensor {n}: only the reference has it" for n in sorted(other.keys() - state.keys())]
    for name in sorted(state.keys() & other.keys()):
        mine, its = state[name].shape, other[name].shape
        fits = name in rows and mine[1:] == its[1:] and mine[0] >= its[0]
        if mine != its and not fits:
            found.append(f"tensor {name}: backbone {list(mine)}, reference {list(its)}")
    if tied(ours) != tied(theirs):
        words = {True: "tied to the embedding", False: "separate"}
        found.append(f"lm_head: backbone {words[tied(ours)]}, reference {words[tied(theirs)]}")
    encoders = getattr(vlm, "encoder", None), getattr(reference, "encoder", None)
    if all(encoders):
        found += _tokens(*encoders, _rows(theirs))
    if found:
        raise MixlabError(
            f"the backbone of {_name(vlm)} and the reference {_name(reference)} do not match in "
            f"{len(found)} ways:\n  " + "\n  ".join(found) + "\n"
            "Choose the LM that this VLM was built on, or one of its architecture and size."
        )
    return PairReport(_rows(theirs), _rows(ours) - _rows(theirs), len(state))


def _configs(ours: PretrainedConfig, theirs: PretrainedConfig) -> list[str]:
    found = []
    for field in _FIELDS:
        mine, its = getattr(ours, field, None), getattr(theirs, field, None)
        # A field that one family's config does not have is no difference by itself.
        if mine is not None and its is not None and mine != its:
            found.append(f"{field}: backbone {mine}, reference {its}")
    mine, its = _rope(ours), _rope(theirs)
    if mine != its:
        found.append(f"rope: backbone {mine}, reference {its}")
    return found


def _rope(config: PretrainedConfig) -> dict[str, Any]:
    rope = dict(getattr(config, "rope_parameters", None) or {})
    kept = {k: v for k, v in rope.items() if k not in ROPE_OF_IMAGES and v is not None}
    if kept.get("rope_type") == "mrope":
        kept["rope_type"] = "default"
    return kept


def _tokens(vlm: Any, reference: Any, rows: int) -> list[str]:
    mine, its = vlm.tokenizer.get_vocab(), reference.tokenizer.get_vocab()
    moved = [t for t, i in its.items() if i < rows and mine.get(t) != i]
    if not moved:
        return []
    first = min(moved, key=lambda token: its[token])
    return [
        f"vocabulary: {len(moved)} of the reference's {len(its)} tokens have another id or are "
        f"missing, first {first!r} (backbone {mine.get(first)}, reference {its[first]})"
    ]


def _rows(model: PreTrainedModel) -> int:
    table: Any = model.get_input_embeddings()
    return table.weight.shape[0]


def _model(model: LoadedModel | PreTrainedModel) -> PreTrainedModel:
    # Not by the attribute `model`: a causal LM has one too, its decoder.
    return model.model if hasattr(model, "encoder") else model  # type: ignore[return-value]


def _name(model: LoadedModel | PreTrainedModel) -> str:
    return str(getattr(model, "folder", None) or type(model).__name__)
