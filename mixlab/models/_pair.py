"""Do a VLM's backbone and a reference LM fit together? All differences at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlab.models.backbone import (
    Difference,
    backbone_state,
    compare_configs,
    tied,
    vocabulary_names,
)
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from mixlab.models._loading import LoadedModel


# In what a VLM's class and its language model's differ however they were trained.
_BY_CLASS = ("mrope", "logit_scale", "final_logit_softcapping")


@dataclass(frozen=True)
class PairReport:
    """A pair that fits.

    Args:
        shared_rows: rows of the vocabulary that both have.
        vlm_only_rows: rows of the VLM alone.
        tensors: how many the backbone has.
        differences: in what the two compute other functions; the VLM's are kept in a merge.
    """

    shared_rows: int
    vlm_only_rows: int
    tensors: int
    differences: tuple[Difference, ...] = ()


def check_pair(
    vlm: LoadedModel | PreTrainedModel,
    reference: LoadedModel | PreTrainedModel,
    *,
    same_function: bool = False,
) -> PairReport:
    """Compare the backbone with the reference: tensors, config, and tokens where both are loaded.

    The VLM may have more rows in its vocabulary than the reference (image tokens, padding).

    Args:
        same_function: refuse differences in function too, but for those in which a VLM's class
            and its language model's differ however they were trained: a gap between models that
            compute other functions from equal weights is no loss.

    Raises:
        MixlabError: they can't be merged: names, shapes, depth, heads, activation, tied head or
            vocabulary differ. It lists these and every difference in function too.
    """
    ours, theirs = _model(vlm), _model(reference)
    differences = compare_configs(ours.config, theirs.config)
    found = [str(difference) for difference in differences if difference.kind == "size"]
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
    functions = tuple(d for d in differences if d.kind == "function")
    refused = [d for d in functions if d.field not in _BY_CLASS] if same_function else []
    if found or refused:
        found += [str(difference) for difference in (functions if found else refused)]
        raise MixlabError(
            f"the backbone of {_name(vlm)} and the reference {_name(reference)} do not match in "
            f"{len(found)} ways:\n  " + "\n  ".join(found) + "\n"
            "Choose the LM that this VLM was built on, or one of its architecture and size."
        )
    return PairReport(_rows(theirs), _rows(ours) - _rows(theirs), len(state), functions)


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
