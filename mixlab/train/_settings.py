"""What decides how an arm is trained, apart from its data."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from mixlab.spec import Settings, register


class BatchSettings(Settings):
    """A batch is a number of supervised tokens; rows and total tokens follow from the data."""

    supervised_tokens: Annotated[int, Field(gt=0)] = 512


class ArmSettings(Settings):
    """Steps, optimizer and what is trained.

    Attributes:
        trainable: `language_model`, `projector`, `vision_tower`, or patterns (`*` is any text) on
            names of parameters. One that matches nothing is an error.
        warmup: share of the steps over which the learning rate rises in a line from 0.
        weight_decay: decoupled (AdamW), on matrices only, not on norms and biases.
        max_grad_norm: the gradient's norm is clipped to this; 0 turns clipping off.
        max_rows: most rows that go through the model at once; a larger batch is split, and its
            gradient summed. None: as many as the batch has.
        precision: `fp32`, or `bf16` for autocast with float32 weights and optimizer.
        checkpoint_every: steps between checkpoints; 0 writes none.
    """

    steps: Annotated[int, Field(gt=0)]
    batch: BatchSettings = BatchSettings()
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.03
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    trainable: tuple[str, ...] = ("language_model", "projector")
    max_rows: Annotated[int, Field(gt=0)] | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    checkpoint_every: Annotated[int, Field(ge=0)] = 100

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of `step` (from 0) out of `steps`: linear warm-up, then the schedule.

        Cosine falls to 0 after the last step (Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5).
        """
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        if self.schedule == "constant":
            return self.learning_rate
        done = (step - rising) / max(1, steps - rising)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


register("arm", ArmSettings)
