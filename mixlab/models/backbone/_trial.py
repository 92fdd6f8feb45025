"""Does the LM compute what the VLM computes? A few tokens through both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlab.models._anatomy import read_anatomy, text_config
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_TOKENS = 12


def compare_logits(vlm: PreTrainedModel, lm: PreTrainedModel) -> None:
    """Run both on the same text; of a VLM that takes no text alone, the decoder and the head.

    Raises:
        MixlabError: the logits differ by more than rounding, or the VLM can't be run.
    """
    import torch

    config = text_config(vlm.config)
    rows = min(config.vocab_size, _rows(lm))
    special = {v for k, v in vlm.config.to_dict().items() if "token" in k and isinstance(v, int)}
    ids = [i for i in range(rows // 3, rows) if i not in special][:_TOKENS]
    tokens = torch.tensor([ids], device=vlm.device)
    modes = vlm.training, lm.training
    vlm.eval()
    lm.eval()
    try:
        with torch.no_grad():
            theirs = _vlm_logits(vlm, tokens).float()
            ours = lm(input_ids=tokens).logits.float()
    finally:
        vlm.train(modes[0])
        lm.train(modes[1])
    ours, theirs = ours[..., :rows], theirs[..., :rows]
    apart = float((ours - theirs).abs().max())
    bound = float(theirs.abs().max()) * (1e-4 if vlm.dtype == torch.float32 else 5e-2)
    if not apart <= bound:
        raise MixlabError(
            f"the backbone of {type(vlm).__name__} as {type(lm).__name__} computes other logits "
            f"than the VLM: {apart:.3g} apart where {bound:.3g} is rounding. The class does not "
            "fit the VLM's language model; give a reference of another class, or none"
        )


def _vlm_logits(vlm: PreTrainedModel, tokens: torch.Tensor) -> torch.Tensor:
    try:
        return vlm(input_ids=tokens).logits
    except (TypeError, ValueError, AttributeError):
        pass  # it wants pixels
    anatomy = read_anatomy(vlm)
    try:
        root = (anatomy.head or "").rpartition(".")[0]
        if root and anatomy.decoder.startswith(f"{root}."):
            return vlm.get_submodule(root)(input_ids=tokens).logits
        hidden = vlm.get_submodule(anatomy.decoder)(input_ids=tokens).last_hidden_state
        return vlm.get_submodule(anatomy.head or "")(hidden)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise MixlabError(
            f"{type(vlm).__name__} can't be run on text alone, so nothing shows that the LM taken "
            f"out of it computes the same: {type(error).__name__}: {error}"
        ) from error


def _rows(lm: PreTrainedModel) -> int:
    head: Any = lm.get_output_embeddings()
    return int(head.weight.shape[0])
