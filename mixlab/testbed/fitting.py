"""One readable loop for the testbed's own models (arms are trained elsewhere)."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Progress = Callable[[str, float], None]


def silent(stage: str, share: float) -> None:
    """Progress that nobody watches."""


def fit(
    parameters: Iterable["torch.Tensor"],
    losses: Iterator["torch.Tensor"],
    *,
    steps: int,
    learning_rate: float,
    stage: str,
    progress: Progress = silent,
    weight_decay: float = 0.0,
    warmup: float = 0.04,
    matrices: Iterable["torch.Tensor"] = (),
    matrix_rate: float = 0.02,
) -> float:
    """Take ``steps`` steps on the losses that an iterator makes; the mean of the last 20.

    AdamW on ``parameters`` and Muon (Jordan and others 2024, github.com/KellerJordan/Muon; in
    torch) on ``matrices``: it forms the circuits that copy and match in half the steps. Cosine
    schedule with linear warm-up, gradients clipped to norm 1.
    """
    import torch

    plain, hidden = list(parameters), list(matrices)
    optimizers: list[tuple[torch.optim.Optimizer, float]] = [
        (
            torch.optim.AdamW(plain, betas=(0.9, 0.98), weight_decay=weight_decay, fused=True),
            learning_rate,
        )
    ]
    if hidden:
        optimizers.append((torch.optim.Muon(hidden, weight_decay=0.01), matrix_rate))
    last: list[float] = []
    for step in range(steps):
        loss = next(losses)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*plain, *hidden], 1.0)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * _schedule(step, steps, warmup)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        last = [*last[-19:], float(loss.detach())]
        if step % 20 == 19 or step + 1 == steps:
            progress(stage, (step + 1) / steps)
    return sum(last) / len(last)


def _schedule(step: int, steps: int, warmup: float) -> float:
    rise = max(1, round(steps * warmup))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def answer_loss(decoder: Any, head: Any, inputs: dict[str, Any], labels: "torch.Tensor") -> Any:
    """Mean cross-entropy over the supervised tokens only; the head sees no other position."""
    import torch

    hidden = decoder(**inputs, use_cache=False).last_hidden_state[:, :-1]
    targets = labels[:, 1:]
    chosen = targets != -100
    return torch.nn.functional.cross_entropy(head(hidden[chosen]), targets[chosen])
