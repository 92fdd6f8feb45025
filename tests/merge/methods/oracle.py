"""What the tests of methods share: drawn models, mergekit's answer, and bits."""

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st

SHAPES = st.sampled_from([(), (1,), (7,), (3, 5), (4, 1), (2, 3, 4)])
KINDS = st.sampled_from(["random", "random", "random", "zero", "base", "opposite", "parallel"])


@st.composite
def models(
    draw: st.DrawFn, count: int, kinds: st.SearchStrategy[str] = KINDS
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """`count` float32 tensors and a base: random, zero, equal, opposite or parallel to it."""
    shape = draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    base = torch.randn(shape, generator=generator)
    made = {
        "zero": torch.zeros_like(base),
        "base": base,
        "opposite": -base,
        "parallel": 2 * base,
    }
    drawn = [draw(kinds) for _ in range(count)]
    return [made.get(kind, torch.randn(shape, generator=generator)) for kind in drawn], base


def theirs(
    name: str,
    tensors: Sequence[torch.Tensor],
    base: torch.Tensor | None = None,
    each: dict[str, Sequence[float]] | None = None,
    **parameters: Any,
) -> torch.Tensor:
    """mergekit's result; `each` holds the settings that every model has its own value of."""
    from mergekit.merge_methods import merge_tensors

    ids = [f"model {index}" for index in range(len(tensors))]
    for key, values in (each or {}).items():
        parameters[key] = dict(zip(ids, values, strict=True))
    inputs = [tensor.clone() for tensor in tensors]
    if base is None:
        return merge_tensors(inputs, name, ids=ids, parameters=parameters)
    return merge_tensors(
        [base.clone(), *inputs], name, ids=["base", *ids], base_index=0, parameters=parameters
    )


def bits(tensor: torch.Tensor) -> bytes:
    """All bytes of a tensor: -0.0 and 0.0 differ."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
