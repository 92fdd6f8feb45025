"""Checkpoints of a run: written whole or not at all, one kept, read back bit for bit."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mixlab.spec import MixlabError
from mixlab.store import atomic_folder, write_json

_NAME = re.compile(r"step-(\d{8})")
Parameters = Mapping[str, torch.nn.Parameter]


class Checkpoints:
    """The folder of a run's checkpoints, each with trained weights, optimizer state and curve.

    Nothing else is needed to go on: the schedule, the batches and the random numbers of a step are
    functions of the step.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def last(self) -> Path | None:
        """The newest whole checkpoint."""
        found = sorted(p for p in self.folder.glob("step-*") if _NAME.fullmatch(p.name))
        return found[-1] if found else None

    def save(
        self,
        step: int,
        parameters: Parameters,
        optimizer: torch.optim.Optimizer,
        curve: list[dict[str, Any]],
    ) -> None:
        """Write the state after `step` steps, then drop the older checkpoints.

        Raises:
            MixlabError: the disk is full; older checkpoints are still there.
        """
        from safetensors.torch import save_file

        tensors = {f"weight/{n}": p.detach().contiguous() for n, p in parameters.items()}
        for name, parameter in parameters.items():
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = torch.as_tensor(value).contiguous()
        path = self.folder / f"step-{step:08d}"
        with atomic_folder(path) as aside, as_os_error():
            save_file(tensors, aside / "state.safetensors")
            write_json(aside / "curve.json", curve)
        for older in self.folder.glob("step-*"):
            if older != path and _NAME.fullmatch(older.name):
                shutil.rmtree(older, ignore_errors=True)

    def load(
        self, path: Path, parameters: Parameters, optimizer: torch.optim.Optimizer
    ) -> tuple[int, list[dict[str, Any]]]:
        """Put a checkpoint back into parameters and optimizer; returns steps done and curve.

        Raises:
            MixlabError: the checkpoint is corrupt or of other parameters.
        """
        from safetensors.torch import load_file

        from mixlab.checkpoint import read_header

        read_header(path / "state.safetensors")
        tensors = load_file(path / "state.safetensors")
        names = {n.partition("/")[2] for n in tensors}
        if names != set(parameters):
            odd = min(names ^ set(parameters))
            raise MixlabError(f"{path} is of other parameters, e.g. {odd}; remove it to start anew")
        with torch.no_grad():
            for key, value in tensors.items():
                kind, _, name = key.partition("/")
                parameter = parameters[name]
                if kind == "weight":
                    parameter.copy_(value)
                else:
                    device = "cpu" if kind == "step" and not parameter.is_cuda else parameter.device
                    optimizer.state[parameter][kind] = value.to(device)
        curve = json.loads((path / "curve.json").read_text())
        return int(_NAME.fullmatch(path.name)[1]), curve  # type: ignore[index]

    def clear(self) -> None:
        """Remove all checkpoints: the run is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


class as_os_error:
    """Safetensors reports a failed write as an error of its own; give it back its errno."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        found = re.search(r"os error (\d+)|No space left", str(error)) if error else None
        if found and not isinstance(error, OSError):
            code = int(found[1]) if found[1] else errno.ENOSPC
            raise OSError(code, str(error)) from error


def last_good(path: Path | None) -> str:
    """A sentence that names the checkpoint from which training would go on."""
    return f"The last good checkpoint is {path}." if path else "No checkpoint was written yet."
