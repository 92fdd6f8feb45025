"""Spherical interpolation between two tensors."""

from __future__ import annotations

import math
from typing import Literal

import torch

from mixlab.merge._method import Context, Share, Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed
from mixlab.spec import MixlabError

# Beyond this cosine the arc is taken for a straight line; as in mergekit.
LINE = 0.9995
# A vector of no more than this norm has no direction; as in mergekit.
NO_DIRECTION = 1e-8
Antiparallel = Literal["error", "lerp"]


@merge_method(
    source="Shoemake 1985, Animating rotation with quaternion curves; mergekit `slerp`",
    base="required",
    models=(1, 1),
    identity=True,
)
def slerp(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    t: Share,
    antiparallel: Antiparallel = "error",
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """theta = (sin((1 - t) Omega) base + sin(t Omega) x) / sin(Omega), Omega the angle between.

    The whole tensor is one vector. Both ends are exact bit for bit. Nearly parallel vectors
    (cosine above 0.9995) are interpolated on the straight line, which the report counts as "handed
    to lerp". A vector without direction (norm of at most 1e-8) is taken to stand at a right angle,
    as in mergekit; if both have none, the line is used.

    Antiparallel vectors (cosine below -0.9995) have no single arc between them. mergekit draws the
    straight line through 0, which shrinks the weights to nothing; here that is an error unless
    `antiparallel: lerp` asks for it. Angles are computed in float64, mergekit's in float32.

    Args:
        tensors: the other tensor, alone in a sequence; any shape and floating dtype.
        base: where t = 0 is, of the same shape.
        t: from 0 (the base) to 1 (the other).
        antiparallel: `error`, or mergekit's `lerp`.

    Returns:
        A new tensor in the dtype of the other one, mixed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, t is outside [0, 1], or the two are antiparallel.
    """
    assert base is not None
    (other,) = tensors
    if t in (0, 1):
        return other if t == 1 else base
    a, b = base.double().flatten(), other.double().flatten()
    norm_a, norm_b = torch.linalg.vector_norm(a), torch.linalg.vector_norm(b)
    if norm_a <= NO_DIRECTION and norm_b <= NO_DIRECTION:
        cosine = torch.ones_like(norm_a)
    elif norm_a <= NO_DIRECTION or norm_b <= NO_DIRECTION:
        cosine = torch.zeros_like(norm_a)
    else:
        cosine = a @ b / (norm_a * norm_b)
    if is_line(float(cosine.detach()), antiparallel, context):
        return keep_agreed(torch.lerp(base, other, t), [base, other])
    omega = torch.acos(cosine)
    from_base = torch.sin((1 - t) * omega) / torch.sin(omega)
    from_other = torch.sin(t * omega) / torch.sin(omega)
    return from_base * base + from_other * other


def is_line(cosine: float, antiparallel: Antiparallel, context: Context) -> bool:
    """Whether the arc is to be taken for a line; notes it for the report.

    Raises:
        MixlabError: there is no single arc, and no line was asked for.
    """
    if cosine < -LINE and antiparallel == "error":
        where = f"{context.name}: " if context.name else ""
        raise MixlabError(
            f"{where}slerp: the two vectors point in opposite directions (cosine {cosine:.6f}) and "
            "have no single arc between them; use another method for this tensor, or set "
            "antiparallel: lerp for the straight line"
        )
    if abs(cosine) <= LINE or math.isnan(cosine):
        return False
    context.notes.append("handed to lerp")
    return True
