"""The whole path between a model and its reference, walked in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType

import torch

from mixlab.checkpoint import distinct_tensors
from mixlab.merge.methods import wise_ft
from mixlab.spec import MixlabError

# Tables whose first axis counts tokens, where a VLM may have rows that its reference lacks.
VOCABULARY = frozenset({"model.embed_tokens.weight", "lm_head.weight", "lm_head.bias"})


@dataclass(frozen=True)
class TensorReport:
    """What becomes of one tensor: rows mixed, rows kept as the VLM's, and the names tied to it."""

    name: str
    shape: tuple[int, ...]
    mixed_rows: int
    kept_rows: int
    tied: tuple[str, ...] = ()


class MergePath:
    """Sets a live model to any alpha between its reference (0) and itself (1), in place.

    theta = (1 - alpha) * reference + alpha * tuned, always from saved copies: both ends are exact
    bit for bit, and no order of visits matters. Rows of the vocabulary beyond the reference's stay
    the VLM's. Tied weights are mixed once. Tensors not in `state` (vision tower, projector) are
    not touched. As a context manager it restores the model at the end.

        with MergePath(vlm.backbone_state(), reference.backbone_state()) as path:
            for alpha in (0, 0.5, 1):
                path.set_alpha(alpha)
                ...
    """

    def __init__(
        self,
        state: Mapping[str, torch.Tensor],
        reference: Mapping[str, torch.Tensor],
        *,
        vocabulary: Collection[str] = VOCABULARY,
    ) -> None:
        """Check the pair and save the tuned weights (one copy, in their own dtype).

        Args:
            state: live tensors of the tuned model; they are written to.
            reference: tensors of the reference under the same names, on any device, never written
                to and not copied. Of tied weights one name is enough.
            vocabulary: names whose first axis counts tokens.

        Raises:
            MixlabError: listing every name that one side lacks and every shape that differs.
        """
        live = distinct_tensors(state)
        names: dict[int, list[str]] = {}
        for name, tensor in state.items():
            names.setdefault(tensor.data_ptr(), []).append(name)
        problems = _problems(live, state, reference, vocabulary)
        if problems:
            raise MixlabError(
                f"the model and its reference do not fit in {len(problems)} places:\n  "
                + "\n  ".join(problems)
            )
        self._live = {name: tensor.detach() for name, tensor in live.items()}
        self._reference = {name: reference[name].detach() for name in live}
        self._tuned: dict[str, torch.Tensor] = {}
        self.report: list[TensorReport] = []
        for name, tensor in self._live.items():
            rows = self._rows(name)
            self._tuned[name] = tensor[:rows].clone() if tensor.dim() else tensor.clone()
            total = tensor.shape[0] if tensor.dim() else 1
            others = tuple(n for n in names[tensor.data_ptr()] if n != name)
            self.report.append(TensorReport(name, tuple(tensor.shape), rows, total - rows, others))
        self.alpha = 1.0

    def set_alpha(self, alpha: float) -> None:
        """Write theta(alpha) into the live tensors.

        Raises:
            MixlabError: alpha is outside [0, 1], or integer tensors differ; nothing is written.
        """
        if not 0 <= alpha <= 1:
            raise MixlabError(f"alpha is {alpha}; expected 0 (the reference) to 1 (the VLM)")
        with torch.no_grad():
            for name, tensor in self._live.items():
                theta = wise_ft(
                    [self._tuned[name]], self._reference[name].to(tensor.device), alpha=alpha
                )
                (tensor[: self._rows(name)] if tensor.dim() else tensor).copy_(theta)
        self.alpha = float(alpha)

    def restore(self) -> None:
        """Back to the tuned model, bit for bit."""
        self.set_alpha(1.0)

    def __enter__(self) -> MergePath:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()

    def _rows(self, name: str) -> int:
        shape = self._reference[name].shape
        return shape[0] if shape else 1


def _problems(
    live: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    reference: Mapping[str, torch.Tensor],
    vocabulary: Collection[str],
) -> list[str]:
    found = [f"{n}: the reference lacks it" for n in live if n not in reference]
    found += [f"{n}: the model lacks it" for n in reference if n not in state]
    for name, tensor in live.items():
        if name not in reference:
            continue
        mine, its = tensor.shape, reference[name].shape
        longer = name in vocabulary and mine[1:] == its[1:] and mine[0] >= its[0]
        if mine != its and not longer:
            found.append(f"{name}: {list(mine)} in the model, {list(its)} in the reference")
        elif tensor.dtype != reference[name].dtype and not (
            tensor.is_floating_point() and reference[name].is_floating_point()
        ):
            found.append(f"{name}: {tensor.dtype} in the model, {reference[name].dtype} there")
        elif not tensor.is_floating_point() and not torch.equal(
            tensor.cpu(), reference[name].cpu()
        ):
            found.append(f"{name}: {tensor.dtype} values differ and cannot be averaged")
    for name in state.keys() & reference.keys() - live.keys():
        # Tied in the model: its other name must be tied, or equal, in the reference as well.
        kept = next(n for n, t in live.items() if t.data_ptr() == state[name].data_ptr())
        if kept in reference and not torch.equal(reference[name], reference[kept]):
            found.append(f"{name}: tied to {kept} in the model, separate in the reference")
    return found
