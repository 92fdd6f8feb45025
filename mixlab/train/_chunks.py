"""A batch cut into pieces whose token losses add up to the batch's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from mixlab.spec import MixlabError

# What a further pass through the model costs, in tokens. CPU: measured on a 1M-parameter model on
# one core, where anything from 16 to 128 is within noise. On a GPU a pass is latency.
PASS_COST = {"cpu": 64, "cuda": 2048}


@dataclass(frozen=True)
class Chunk:
    """Rows of like length, right-padded to the longest.

    input_ids int64 [B, T]; rows and columns int64 [N] where a supervised token is predicted;
    targets int64 [N]; pixel_values float32 [I, C, H, W] of the rows with an image, or None.
    """

    input_ids: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor
    pixel_values: torch.Tensor | None

    def to(self, device: torch.device) -> Chunk:
        """The chunk on another device."""
        pixels = self.pixel_values
        return Chunk(
            self.input_ids.to(device),
            self.rows.to(device),
            self.columns.to(device),
            self.targets.to(device),
            None if pixels is None else pixels.to(device),
        )


def chunks(
    batch: Mapping[str, torch.Tensor],
    *,
    image_token_id: int | None,
    max_rows: int | None,
    pass_cost: int = PASS_COST["cpu"],
) -> Iterator[Chunk]:
    """Cut a right-padded batch into chunks by length, the longest rows first.

    A token's hidden state depends on nothing to its right, so right padding needs no mask, and
    what stands after a row's last supervised token is cut off.

    Args:
        batch: input_ids [B, T], labels [B, T] (-100 where nothing is learnt, not shifted),
            attention_mask [B, T], and pixel_values [I, C, H, W] in the order of the rows that hold
            image tokens.
        max_rows: most rows of a chunk.
        pass_cost: what a further chunk costs, in tokens; more padding is saved if it is low.

    Raises:
        MixlabError: a row is padded on the left, nothing is supervised, or images and rows with
            image tokens differ in number.
    """
    ids, labels = batch["input_ids"].long(), batch["labels"].long()
    mask = batch.get("attention_mask")
    if mask is not None and bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise MixlabError("the batch is padded on the left; pad it on the right")
    learnt = labels[:, 1:] != -100
    # Position t predicts token t + 1, so the last position needed is the last learnt one.
    places = torch.arange(1, learnt.shape[1] + 1)
    lengths = (learnt * places).amax(dim=1)
    if not bool((lengths > 0).all()):
        row = int((lengths == 0).nonzero()[0])
        raise MixlabError(f"row {row} of the batch has no supervised token after its first token")
    image_of = _images(ids, batch.get("pixel_values"), image_token_id)
    order = torch.argsort(lengths, descending=True, stable=True).tolist()
    for members in _groups(order, lengths.tolist(), max_rows, pass_cost):
        picked = torch.tensor(members)
        width = int(lengths[picked].max())
        rows, columns = learnt[picked, :width].nonzero(as_tuple=True)
        images = [image_of[row] for row in members if row in image_of]
        yield Chunk(
            ids[picked, :width],
            rows,
            columns,
            labels[picked][rows, columns + 1],
            batch["pixel_values"][images] if images else None,
        )


def _images(ids: torch.Tensor, pixels: torch.Tensor | None, token: int | None) -> dict[int, int]:
    rows = [] if token is None else (ids == token).any(dim=1).nonzero().flatten().tolist()
    count = 0 if pixels is None else len(pixels)
    if len(rows) != count:
        raise MixlabError(f"{len(rows)} rows hold image tokens, but the batch has {count} images")
    return {row: i for i, row in enumerate(rows)}


def _groups(
    order: list[int], lengths: list[int], max_rows: int | None, pass_cost: int
) -> list[list[int]]:
    """Cut rows, sorted by falling length, where padded tokens plus passes cost least."""
    limit = max_rows or len(order)
    best = [0.0] + [float("inf")] * len(order)
    cut = [0] * (len(order) + 1)
    for stop in range(1, len(order) + 1):
        for start in range(max(0, stop - limit), stop):
            cost = best[start] + lengths[order[start]] * (stop - start) + pass_cost
            if cost < best[stop]:
                best[stop], cut[stop] = cost, start
    groups, stop = [], len(order)
    while stop:
        groups.append(order[cut[stop] : stop])
        stop = cut[stop]
    return groups[::-1]
