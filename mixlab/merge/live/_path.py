"""The whole path between a model and its reference, walked in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from mixlab.checkpoint import count_layers, distinct_tensors, is_vocabulary, tensor_place
from mixlab.merge._threads import Job, run_jobs, thread_count
from mixlab.merge.live._fitting import State, as_state, tied_names
from mixlab.merge.live._writing import mixing_jobs
from mixlab.merge.schedules._schedule import Schedule
from mixlab.spec import MixlabError


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
    bit for bit, and no order of visits matters. Alpha may be a schedule over layers, modules and
    names; what it does not name is the tuned model's. Rows of the vocabulary beyond the
    reference's stay the VLM's. Tied weights are mixed once. Tensors not in `state` (vision tower,
    projector) are not touched. As a context manager it restores the model at the end.

        with MergePath(vlm.backbone_state(), reference.backbone_state()) as path:
            for alpha in (0, 0.5, 1, {"late": 0.5, "from": 0.75}):
                path.set_alpha(alpha)
                ...

    WiSE-FT, arXiv:2109.01903; late layers alone: PlaM, arXiv:2601.07645.
    """

    def __init__(
        self,
        state: State | torch.nn.Module,
        reference: State | torch.nn.Module,
        *,
        vocabulary: Collection[str] | None = None,
        threads: int | None = None,
    ) -> None:
        """Check the pair and save the tuned weights (one copy, in their own dtype).

        Args:
            state: live tensors of the tuned model, or a module; they are written to.
            reference: tensors of the reference under the same names, on any device, never written
                to and not copied. Of tied weights one name is enough.
            vocabulary: names whose first axis counts tokens; by default embeddings and head.
            threads: tensors at once on the CPU; by default one for each core.

        Raises:
            MixlabError: listing every name that one side lacks, every shape that differs, and
                integer tensors whose values differ.
        """
        state, reference = as_state(state), as_state(reference)
        live = distinct_tensors(state)
        tables = set(filter(is_vocabulary, live)) if vocabulary is None else set(vocabulary)
        tied = tied_names(state)
        problems = _problems(live, state, reference, tables, tied)
        if problems:
            raise MixlabError(
                f"the model and its reference do not fit in {len(problems)} places:\n  "
                + "\n  ".join(problems)
            )
        self._threads = thread_count(threads)
        self._layers = count_layers(live)
        self._reference = {name: reference[name].detach() for name in live}
        # Only what the path writes: of a longer table the reference's rows alone.
        self._live: dict[str, torch.Tensor] = {}
        self._given = live
        self.report: list[TensorReport] = []
        for name, tensor in live.items():
            rows, total = 1, 1
            self._live[name] = tensor.detach()
            if tensor.dim():
                rows, total = len(reference[name]), len(tensor)
                self._live[name] = tensor.detach()[:rows]
            others = tuple(other for other, kept in tied.items() if kept == name)
            self.report.append(TensorReport(name, tuple(tensor.shape), rows, total - rows, others))
        self._tuned = {name: tensor.clone() for name, tensor in self._live.items()}
        self._alphas = dict.fromkeys(self._live, 1.0)
        self.alpha: float | Schedule = 1.0

    @property
    def alphas(self) -> dict[str, float]:
        """The alpha that every tensor stands at; 1 is the tuned model's own."""
        return dict(self._alphas)

    def set_alpha(self, alpha: float | Schedule | Mapping[str, Any] | list[Any]) -> None:
        """Write theta(alpha) into the live tensors, in one pass over them.

        Tensors that stand at 1 and stay there are not written again.

        Args:
            alpha: a number, or whatever `Schedule.parse` reads: a list over layers,
                `{"late": 0.5, "from": 0.75}`, rules by module or name. Rules see of tied names
                that of the embedding.

        Raises:
            MixlabError: a value outside [0, 1], a rule that matches no tensor, or a model that
                was moved or cast meanwhile; nothing is written then.
        """
        schedule = Schedule.parse(alpha)
        wanted = {name: self._alpha_of(schedule, name) for name in self._live}
        schedule.check(self._live, self._layers)
        self._write({n: a for n, a in wanted.items() if not a == self._alphas[n] == 1})
        self.alpha = schedule if schedule.varies else float(next(iter(wanted.values()), 1.0))

    def restore(self) -> None:
        """Back to the tuned model, bit for bit."""
        self._write(dict.fromkeys(self._live, 1.0))
        self.alpha = 1.0

    def __enter__(self) -> MergePath:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()

    def _alpha_of(self, schedule: Schedule, name: str) -> float:
        value = schedule.value(name, tensor_place(name).layer, self._layers)
        if value is None:
            return 1.0
        if isinstance(value, bool | str) or not 0 <= value <= 1:
            where = f" at {name}" if schedule.varies else ""
            raise MixlabError(
                f"alpha is {value!r}{where}; expected 0 (the reference) to 1 (the VLM)"
            )
        return float(value)

    def _write(self, wanted: Mapping[str, float]) -> None:
        moved = [n for n, t in self._given.items() if t.data_ptr() != self._live[n].data_ptr()]
        if moved:
            raise MixlabError(
                f"{len(moved)} tensors of the model have moved since the path was made (by "
                f"model.to, .half or the like), the first {moved[0]}; make a new MergePath"
            )
        floating = [name for name in wanted if self._live[name].is_floating_point()]
        jobs = [job for name in floating for job in self._jobs(name, wanted[name])]
        on_cpu = all(self._live[name].device.type == "cpu" for name in floating)
        # Whatever stops the pass in the middle: no tensor is taken to stand where it may not.
        self._alphas |= dict.fromkeys(wanted, float("nan"))
        run_jobs(jobs, self._threads if on_cpu else 1, lambda size: None)
        self._alphas |= wanted

    def _jobs(self, name: str, alpha: float) -> list[Job]:
        tensor, its, settings = self._live[name], self._reference[name], {"alpha": alpha}
        tuned = [self._tuned[name]]
        if its.device == tensor.device:
            return mixing_jobs("wise_ft", tuned, its, tensor, settings)

        def work() -> None:
            # Moved when its turn comes, so that no second model stands in the device's memory.
            for _, job in mixing_jobs("wise_ft", tuned, its.to(tensor.device), tensor, settings):
                job()

        return [(tensor.numel() * tensor.element_size(), work)]


def _problems(
    live: State,
    state: State,
    reference: State,
    vocabulary: Collection[str],
    tied: Mapping[str, str],
) -> list[str]:
    found = [f"{n}: the reference lacks it" for n in live if n not in reference]
    found += [f"{n}: the model lacks it" for n in reference if n not in state]
    for name, tensor in live.items():
        if any(
            step == 0 < size - 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)
        ):
            found.append(f"{name}: an expanded view, several elements in one place; clone it")
        if tensor.is_inference():
            found.append(f"{name}: made in torch.inference_mode, read only; load it outside")
        if name not in reference:
            continue
        if reference[name].is_meta and not tensor.is_meta:
            found.append(f"{name}: the reference is on the meta device and has no values")
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
    for name, kept in tied.items():
        # Tied in the model: its other name must be tied, or equal, in the reference as well.
        if name not in reference or kept not in reference:
            continue
        one, other = reference[name], reference[kept]
        if one is not other and not one.is_meta and not torch.equal(one, other):
            found.append(f"{name}: tied to {kept} in the model, separate in the reference")
    return found
