"""A recipe in either language, turned into plans and carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mixlab.merge._plan import MergePlan
from mixlab.merge.backbone._asked import is_backbone, moved, plan_backbone
from mixlab.merge.running._output import check_out, check_room_of_stages
from mixlab.spec import MixlabError

Result = TypeVar("Result")


@dataclass(frozen=True)
class Asked:
    """A merge as the user asks for it.

    Args:
        recipe: a YAML file of mixlab or mergekit, its content, or the name of a packaged recipe.
        models: folder of each placeholder of the recipe.
        overrides: `a.b=c`, each changes one value.
        seed: wins over the recipe's.
    """

    recipe: str | Path | Mapping[str, Any]
    models: Mapping[str, str | Path] = field(default_factory=dict)
    overrides: Sequence[str] = ()
    seed: int | None = None

    @contextmanager
    def plan(self) -> Iterator[MergePlan]:
        """The plan, its sources open while the block runs; nothing is written for good.

        Of a mergekit file of several documents, it is the plan of the one that makes the output.

        Raises:
            MixlabError: every mistake that the recipe and the models' headers and configs show.
        """
        if self._mergekit():
            from mixlab.merge.mergekit_yaml import plan_mergekit

            with plan_mergekit(self.recipe, self.overrides, seed=self.seed or 0) as stages:
                yield stages[-1].plan
            return
        plan = self._plan()
        try:
            yield plan
        finally:
            for source in plan.sources:
                close = getattr(source, "close", None)
                if close is not None:
                    close()

    def run(self, out: Path, run: Callable[[MergePlan, Path], Result]) -> Result:
        """Plan everything, then give `run` each plan and the folder that it is to make.

        Returns:
            What `run` returned for `out`, the last; earlier documents' folders lie beside it and
            are removed in the end.

        Raises:
            MixlabError: as `plan`, or whatever `run` raises.
        """
        if self._mergekit():
            from mixlab.merge.mergekit_yaml import plan_mergekit, read_documents, run_mergekit

            if len(read_documents(self.recipe, self.overrides)) > 1:
                # Earlier documents' folders lie beside `out`, which must not be within an input.
                with plan_mergekit(self.recipe, self.overrides, seed=self.seed or 0) as stages:
                    for stage in stages:
                        check_out(out, stage.plan.folders)
                    check_room_of_stages(out, [stage.plan for stage in stages])
            return run_mergekit(self.recipe, out, run, self.overrides, seed=self.seed or 0)
        with self.plan() as plan:
            return run(plan, out)

    def _plan(self) -> MergePlan:
        if isinstance(self.recipe, Mapping) and is_backbone(self.recipe):
            return plan_backbone(moved(self.recipe, self.models))
        from mixlab.merge.planning._planning import plan_merge
        from mixlab.merge.planning._recipe import load_recipe

        overrides = [*self.overrides, *([] if self.seed is None else [f"seed={self.seed}"])]
        return plan_merge(load_recipe(self.recipe, models=self.models, overrides=overrides))

    def _mergekit(self) -> bool:
        if not isinstance(self.recipe, Mapping) and not Path(self.recipe).is_file():
            return False  # the name of a packaged recipe, or a mistake
        from mixlab.merge.mergekit_yaml import is_mergekit

        if not is_mergekit(self.recipe):
            return False
        if self.models:
            raise MixlabError(
                "a mergekit file has no placeholders that --model could fill; write the folders "
                "into the file, or change them with --set"
            )
        return True
