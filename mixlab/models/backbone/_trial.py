"""Does the LM compute what the VLM computes? A few tokens through both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlab.models._anatomy import text_config
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TOKENS = 12


def compare_logits(vlm: PreTrainedModel, lm: PreTrainedModel) -> None:
    """Run both on the same text.

    Raises:
        MixlabError: the logits differ by more than rounding, relative to the largest.
    """
    import torch

    config = text_config(vlm.config)
    rows = min(config.vocab_size, _rows(lm))
    special = {v for k, v in vlm.config.to_dict().items() if "token" in k and isinstance(v, int)}
    ids = [i for i in range(rows // 3, rows) if i not in special][:_TOKENS]
    tokens = torch.tensor([ids], device=vlm.device)
    modes = vlm.training, lm.training
    vlm.eval(), lm.eval()
    try:
        with torch.no_grad():
            theirs = vlm(input_ids=tokens).logits.float()
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


def _rows(lm: PreTrainedModel) -> int:
    head: Any = lm.get_output_embeddings()
    return int(head.weight.shape[0])
