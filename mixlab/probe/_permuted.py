"""Are the neurons of two models the same ones in another order?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import torch

from mixlab.checkpoint import TensorSource, tensor_place
from mixlab.probe._opening import Opened, Tensor
from mixlab.probe._reading import read_matrix

_QUERIES, _BLOCKS, _ROWS = 512, 2, 2048


@dataclass(frozen=True)
class Neurons:
    """Counterparts of the MLP's neurons.

    Args:
        agreement: share of the neurons asked for whose counterpart by `gate_proj` and by `up_proj`
            is the same one. Independent models agree at 1 / neurons.
        moved: share of the agreed ones that stand in another place.
        asked, neurons: how many were asked for, of how many.
    """

    agreement: float
    moved: float
    asked: int
    neurons: int


def match_neurons(models: Opened, at: int) -> Neurons | None:
    """Match the neurons of a few blocks twice, from weights that say nothing of each other.

    After Zhu et al. 2025 (Independence tests for language models, arXiv:2502.12292): under
    independent training the two matchings are independent, whatever order the neurons are in. Where
    the order of the residual stream differs too, it is first found from the embeddings. Pairs must
    be each other's nearest, so that a neuron near to all counts once.

    Args:
        at: the reference's index among the references.

    Returns:
        None where no block has gate_proj and up_proj.
    """
    columns = _columns(models, at)
    asked = agreed = moved = size = 0
    for gate, up in _mlps(models.tensors)[:_BLOCKS]:
        size = gate.shape[0]
        generator = torch.Generator().manual_seed(crc32(gate.name.encode()))
        queries = torch.randperm(size, generator=generator)[:_QUERIES]
        one, two = (_nearest(models, tensor, at, queries, columns) for tensor in (gate, up))
        same = (one == two) & (one >= 0)
        asked += len(queries)
        agreed += int(same.sum())
        moved += int((same & (one != queries)).sum())
    if not asked:
        return None
    return Neurons(agreed / asked, moved / max(agreed, 1), asked, size)


def _mlps(tensors: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    by_name = {t.name: t for t in tensors if t.matrix and len(t.shape) == 2}
    pairs = []
    for name, tensor in by_name.items():
        other = by_name.get(name.replace("gate_proj", "up_proj"))
        if "gate_proj" in name and other is not None:
            pairs.append((tensor, other))
    return pairs


def _nearest(
    models: Opened, tensor: Tensor, at: int, queries: torch.Tensor, columns: torch.Tensor | None
) -> torch.Tensor:
    """For each row asked for, the reference's row where each is the other's nearest; or -1."""
    mine, its = _both(models, tensor, at)
    if columns is not None:
        its = its[:, columns]
    mine, its = (torch.nn.functional.normalize(m) for m in (mine, its))
    found = (mine[queries] @ its.T).argmax(1)
    back = (its[found] @ mine.T).argmax(1)
    return torch.where(back == queries, found, -1)


def _columns(models: Opened, at: int) -> torch.Tensor | None:
    """For each coordinate of the VLM's residual stream the reference's; None: the same order."""
    table = next((t for t in models.tensors if tensor_place(t.name).module == "embeddings"), None)
    if table is None or len(table.shape) != 2:
        return None
    rows = min(_ROWS, table.shape[0])
    mine, its = (m - m.mean(0) for m in _both(models, table, at, rows))
    mine, its = (torch.nn.functional.normalize(m, dim=0) for m in (mine, its))
    likeness = mine.T @ its
    found, back = likeness.argmax(1), likeness.argmax(0)
    own = torch.arange(len(found))
    mutual = back[found] == own
    # An order is believed where it is one to one; strangers have no such order.
    whole = bool(mutual.float().mean() > 0.9)
    if not whole or bool((found == own).float().mean() > 0.5):
        return None
    return found


def _both(
    models: Opened, tensor: Tensor, at: int, rows: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    name = tensor.names[at]
    assert name is not None
    shape = (rows or tensor.shape[0], tensor.shape[1])
    pair: list[tuple[TensorSource, str]] = [
        (models.sources[0], tensor.name), (models.sources[at + 1], name)
    ]  # fmt: skip
    mine, its = (read_matrix(source, n, shape, torch.float32) for source, n in pair)
    return mine, its
