"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mixlab.spec import MixlabError
from mixlab.train._checkpoint import Checkpoints, last_good
from mixlab.train._chunks import PASS_COST, chunks
from mixlab.train._diverged import Diverged
from mixlab.train._loss import TokenLosses
from mixlab.train._settings import ArmSettings
from mixlab.train._trainable import choose_trainable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Progress = Callable[[int, int, float], None]


def fit(
    model: PreTrainedModel,
    batch: Callable[[int], Mapping[str, torch.Tensor]],
    settings: ArmSettings,
    folder: str | Path,
    *,
    steps: int,
    seed: int,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Train `model` in place on batch(0) ... batch(steps - 1).

    The loss of a step is the sum of its token losses over the number of supervised tokens of the
    *whole* step, however it is split. Batch, learning rate and random numbers are functions of the
    step, so that a run that goes on from a checkpoint equals one that was never stopped, bit for
    bit on one machine.

    Args:
        model: float32 weights, on the device to train on; left in eval mode.
        batch: step -> input_ids, labels (-100 where nothing is learnt), attention_mask [B, T],
            right-padded, and pixel_values [I, C, H, W] of the rows with image tokens, in order.
        folder: checkpoints go to `folder/checkpoints`; training goes on from the last one there.
        progress: called after each step with steps done, steps, and the step's loss.

    Returns:
        One dict a step: step (from 1), loss (nats a token), learning_rate, supervised_tokens (of
        the step), seconds (since the start, earlier sessions included).

    Raises:
        Diverged: loss or gradient is NaN or infinite.
        MixlabError: a trainable pattern matches nothing, or the disk is full. Both errors name
            the last good checkpoint, which is kept.
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    # Precision is fixed for a process by its first Accelerator; arms of one process may differ.
    AcceleratorState._reset_state(True)
    accelerator = Accelerator(
        cpu=model.device.type == "cpu",
        mixed_precision="bf16" if settings.precision == "bf16" else "no",
    )
    if accelerator.num_processes > 1:
        raise MixlabError(
            f"started with {accelerator.num_processes} processes; an arm trains in one process: "
            "start it without `accelerate launch` or torchrun"
        )
    trained = choose_trainable(model, settings.trainable)
    matrices = [p for p in trained.values() if p.dim() > 1]
    vectors = [p for p in trained.values() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
        betas=settings.betas,
        fused=model.device.type in {"cpu", "cuda"},
    )
    checkpoints = Checkpoints(Path(folder) / "checkpoints")
    done = 0
    curve: list[dict[str, Any]] = []
    last = checkpoints.last()
    if last is not None:
        done, curve = checkpoints.load(last, trained, optimizer)
    before = curve[-1]["seconds"] if curve else 0.0
    started = time.perf_counter()
    prepared, optimizer = accelerator.prepare(model, optimizer)
    losses = TokenLosses(model)
    pass_cost = PASS_COST.get(model.device.type, PASS_COST["cuda"])
    image_token_id = getattr(model.config, "image_token_id", None)
    _set_mode(model)
    for step in range(done, steps):
        torch.manual_seed(seed * 1_000_003 + step)
        rate = settings.rate(step, steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        data = batch(step)
        tokens = int((data["labels"][:, 1:] != -100).sum())
        total = 0.0
        for chunk in chunks(
            data,
            image_token_id=image_token_id,
            max_rows=settings.max_rows,
            pass_cost=pass_cost,
        ):
            with accelerator.autocast():
                loss = losses(prepared, chunk.to(model.device)) / tokens
            accelerator.backward(loss)
            total += float(loss.detach())
        norm = accelerator.clip_grad_norm_(trained.values(), settings.max_grad_norm or math.inf)
        if not math.isfinite(total) or not math.isfinite(float(norm)):
            raise _diverged(total, float(norm), step + 1, checkpoints)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append(
            {
                "step": step + 1,
                "loss": total,
                "learning_rate": rate,
                "supervised_tokens": tokens,
                "seconds": before + time.perf_counter() - started,
            }
        )
        every = settings.checkpoint_every
        if every and (step + 1) % every == 0 and step + 1 < steps:
            _save(checkpoints, step + 1, trained, optimizer, curve)
        if progress is not None:
            progress(step + 1, steps, total)
    accelerator.unwrap_model(prepared, keep_fp32_wrapper=False).eval()
    accelerator.free_memory()
    return curve


def _set_mode(model: PreTrainedModel) -> None:
    """Training mode where something is trained; frozen towers keep their dropout off."""
    model.train()
    for child in model.modules():
        own = list(child.parameters())
        if own and not any(p.requires_grad for p in own):
            child.eval()


def _save(
    checkpoints: Checkpoints, step: int, trained: Any, optimizer: Any, curve: list[dict[str, Any]]
) -> None:
    inner = getattr(optimizer, "optimizer", optimizer)
    last = checkpoints.last()
    try:
        checkpoints.save(step, trained, inner, curve)
    except MixlabError as error:
        raise MixlabError(f"{error} {last_good(last)}") from error


def _diverged(loss: float, norm: float, step: int, checkpoints: Checkpoints) -> Diverged:
    what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient's norm is {norm}"
    return Diverged(
        f"step {step}: the {what}; training stopped. {last_good(checkpoints.last())} "
        "Lower learning_rate, raise warmup, or look for bad rows in the mix."
    )
