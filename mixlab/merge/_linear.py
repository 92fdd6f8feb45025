"""The straight line between a reference and a tuned model."""

from __future__ import annotations

import torch

from mixlab.spec import MixlabError


def linear(reference: torch.Tensor, tuned: torch.Tensor, alpha: float) -> torch.Tensor:
    """theta = (1 - alpha) * reference + alpha * tuned: alpha weighs the tuned model.

    WiSE-FT (Wortsman et al. 2022, arXiv:2109.01903, eq. 1); mergekit's `linear` with weights
    1 - alpha and alpha. Half-precision inputs are mixed in float32 and rounded once.

    Args:
        reference, tuned: tensors of one shape, any floating dtypes, on one device. Integer and
            boolean tensors must be equal.
        alpha: from 0 (the reference) to 1 (the tuned model); both ends are exact bit for bit, and
            so is every element in which the two agree.

    Returns:
        A new tensor in the dtype of `tuned`.

    Raises:
        MixlabError: shapes differ, alpha is outside [0, 1], or integer tensors differ.
    """
    if reference.shape != tuned.shape:
        raise MixlabError(f"shapes differ: {list(reference.shape)}, tuned {list(tuned.shape)}")
    if not 0 <= alpha <= 1:
        raise MixlabError(f"alpha is {alpha}; expected 0 (the reference) to 1 (the tuned model)")
    if not tuned.is_floating_point() or not reference.is_floating_point():
        if reference.dtype != tuned.dtype or not torch.equal(reference, tuned):
            raise MixlabError(f"{reference.dtype} and {tuned.dtype} differ and cannot be averaged")
        return tuned.clone()
    if alpha == 0:
        return reference.to(tuned.dtype, copy=True)
    if alpha == 1:
        return tuned.clone()
    wide = torch.promote_types(torch.promote_types(reference.dtype, tuned.dtype), torch.float32)
    a, b = reference.to(wide), tuned.to(wide)
    theta = (1 - alpha) * a + alpha * b
    return torch.where(a == b, b, theta).to(tuned.dtype)
