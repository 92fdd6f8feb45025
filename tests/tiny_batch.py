"""Batches for the tiny pair: a pure function of the step, some rows with an image."""

from __future__ import annotations

import torch

IMAGE = 5


def toy_batch(step: int, rows: int = 8) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(8, 20, (rows,), generator=generator).tolist()
    ids = torch.zeros(rows, max(lengths), dtype=torch.int32)
    labels = torch.full_like(ids, -100)
    images = 0
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(6, 262, (length,), generator=generator).int()
        if row % 2:
            ids[row, 1:5] = IMAGE
            images += 1
        learnt = slice(length - 1 - row % 3, length)
        labels[row, learnt] = ids[row, learnt]
    return {
        "input_ids": ids,
        "labels": labels,
        "attention_mask": (ids != 0).long(),
        "pixel_values": torch.randn(images, 3, 16, 16, generator=generator),
    }
