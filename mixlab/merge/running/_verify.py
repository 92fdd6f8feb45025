"""A finished merge held against its inputs: computed again, cut another way, bit for bit."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mixlab.checkpoint import Checkpoint
from mixlab.merge._plan import MergePlan, TensorPlan
from mixlab.merge.running._card import read_marker
from mixlab.merge.running._execute import PART_BYTES, run_tasks, thread_number
from mixlab.merge.running._jobs import make_task
from mixlab.merge.running._ledger import Ledger
from mixlab.merge.running._loading import LoadingReport, load_on_meta
from mixlab.merge.running._report import Progress
from mixlab.spec import MixlabError

Sample = int | Literal["all"]
# Another cut than the merge's: a little over a third of it, so that no boundary falls on the same
# element, the first aside.
_PART_BYTES = PART_BYTES * 3 // 8
_SHOWN = 5


class VerifyError(MixlabError):
    """A merge is not what its inputs and recipe give.

    Args:
        told: one message.
        tensors: name -> what is wrong with it; empty where it is not the tensors.
    """

    def __init__(self, told: str, tensors: Mapping[str, str] | None = None) -> None:
        super().__init__(told)
        self.tensors = dict(tensors or {})


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found; nothing differs.

    Args:
        out: the merge.
        mixed, kept: how many tensors were computed again, and compared with the target's bytes.
        of_mixed, of_kept: how many there are.
        loading: what transformers says of the folder.
    """

    out: Path
    mixed: int
    kept: int
    of_mixed: int
    of_kept: int
    loading: LoadingReport

    def lines(self) -> list[str]:
        """For people: one fact a line."""
        return [
            f"verified {self.out}: {self.mixed} of {self.of_mixed} mixed tensors computed again, "
            f"{self.kept} of {self.of_kept} kept ones compared; every bit agrees",
            self.loading.line(),
        ]


def verify(
    out: str | Path,
    plan: MergePlan,
    *,
    sample: Sample = 16,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    load: bool = True,
) -> VerifyReport:
    """Check a finished merge against the inputs of its plan.

    Args:
        out: the folder that `execute` made.
        plan: the same plan, made again or kept.
        sample: how many mixed and how many kept tensors are computed again, or "all".
        seed: chooses them.
        threads: as in `execute`.
        load: also load the folder with transformers on the meta device, which needs its import
            (seconds) but no memory.

    Raises:
        VerifyError: names, dtypes or shapes are not the plan's, or bits differ (tensors are
            named); keys are missing or unexpected.
        MixlabError: the folder holds no finished merge, or an input cannot be read.
    """
    out = Path(out)
    read_marker(out)
    with Checkpoint.open(out) as made:
        _check_names(made, plan)
        chosen = _choose(plan, sample, seed)
        tasks = [make_task(plan, tensor) for tensor in chosen]
        compare = _Comparing(made)
        run_tasks(
            plan,
            tasks,
            Ledger(sum(task.bytes for task in tasks)),
            compare,
            file_of={name: made.file_of(name).name for name in made.entries},
            threads=thread_number(threads),
            part_bytes=_PART_BYTES,
            progress=progress,
            allow_nonfinite=True,
            digests=False,
        )
    compare.check(out)
    counts = plan.counts()
    mixed = sum(tensor.action == "mix" for tensor in chosen)
    try:
        loading = load_on_meta(out, plan.folders[plan.target]) if load else LoadingReport()
    except MixlabError as error:
        raise VerifyError(str(error)) from error
    return VerifyReport(out, mixed, len(chosen) - mixed, counts["mix"], counts["keep"], loading)


def _check_names(made: Checkpoint, plan: MergePlan) -> None:
    wanted = {tensor.name: (tensor.dtype, tensor.shape) for tensor in plan.written}
    found = {name: (one.dtype, one.shape) for name, one in made.entries.items()}
    wrong = {
        name: f"{_shown(found.get(name))}, but the plan has {_shown(wanted.get(name))}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    }
    if wrong:
        name, told = next(iter(wrong.items()))
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise VerifyError(
            f"{made.folder}: {name} is {told}{more}; it is another merge's output, or was changed "
            "since",
            wrong,
        )


def _shown(about: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if about is None else f"{about[0]}{list(about[1])}"


def _choose(plan: MergePlan, sample: Sample, seed: int) -> list[TensorPlan]:
    chosen: list[TensorPlan] = []
    for action in ("mix", "keep"):
        group = [tensor for tensor in plan.written if tensor.action == action]
        if sample != "all" and len(group) > sample:
            group = random.Random(f"{seed} {action}").sample(group, sample)
        chosen += group
    return chosen


class _Comparing:
    """A writer that writes nothing: it compares with what stands on disk."""

    def __init__(self, made: Checkpoint) -> None:
        self._made = made
        self._lock = threading.Lock()
        self._differing: dict[str, int] = {}
        self._local = threading.local()

    def write(self, name: str, start: int, buffer: memoryview) -> None:
        """Compare `buffer` with the bytes of `name` from `start` on."""
        mine = getattr(self._local, "buffer", None)
        if mine is None or mine.size < buffer.nbytes:
            mine = self._local.buffer = np.empty(buffer.nbytes, dtype=np.uint8)
        mine = mine[: buffer.nbytes]
        if mine.size:
            self._made.read_into(name, mine.data, start)
        wanted = np.frombuffer(buffer, dtype=np.uint8)
        if not np.array_equal(mine, wanted):
            differing = int(np.count_nonzero(mine != wanted))
            with self._lock:
                self._differing[name] = self._differing.get(name, 0) + differing

    def check(self, out: Path) -> None:
        """Raise MixlabError where bytes differed."""
        if self._differing:
            wrong = {name: f"{n} bytes" for name, n in sorted(self._differing.items())}
            shown = [f"{name} ({told})" for name, told in list(wrong.items())[:_SHOWN]]
            raise VerifyError(
                f"{out}: {len(wrong)} tensors differ from what the inputs give: "
                f"{', '.join(shown)}{', …' if len(wrong) > _SHOWN else ''}. An input, the recipe "
                "or the output changed since the merge; merge again",
                wrong,
            )
