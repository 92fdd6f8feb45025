"""Do tensors fit a model, by name and shape? All misfits at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch

_SHOWN = 40


def check_fit(
    have: Mapping[str, torch.Size], want: Mapping[str, torch.Size], source: str, target: str
) -> None:
    """Raise a MixlabError that lists every name and shape in which the two differ."""
    wrong = [f"{n}: not in {target}" for n in sorted(have.keys() - want.keys())]
    wrong += [f"{n}: not in {source}" for n in sorted(want.keys() - have.keys())]
    wrong += [
        f"{n}: {list(have[n])} in {source}, {list(want[n])} in {target}"
        for n in sorted(have.keys() & want.keys())
        if have[n] != want[n]
    ]
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN} more" * (len(wrong) > _SHOWN)
        listed = "\n  ".join(wrong[:_SHOWN]) + more
        raise MixlabError(f"{source} does not fit {target}; nothing was written:\n  {listed}")


def first_rows(shape: torch.Size, rows: torch.Size) -> torch.Size:
    """The shape with as many rows as the other, where they differ in nothing else."""
    import torch

    if len(shape) == len(rows) and shape[1:] == rows[1:] and shape[0] > rows[0]:
        return torch.Size(rows)
    return shape
