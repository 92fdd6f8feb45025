"""Mix, keep or drop: what becomes of each tensor, and why."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from mixlab.checkpoint import (
    TensorEntry,
    count_layers,
    is_vocabulary,
    language_prefix,
    tensor_place,
)
from mixlab.merge._method import MergeMethod
from mixlab.merge._plan import TensorPlan
from mixlab.merge.planning._dropping import dropped_tensors
from mixlab.merge.planning._heads import Heads, pair_tied_heads
from mixlab.merge.planning._misfits import FLOATS, Fitting
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side
from mixlab.merge.planning._pairing import is_buffer, part_of
from mixlab.merge.planning._recipe import Recipe
from mixlab.merge.planning._resolving import SettingsOfTensors
from mixlab.merge.planning._same import same_bytes
from mixlab.merge.planning._token_rows import Vocabularies
from mixlab.merge.schedules._rules import near_names

_SPELLED = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_MISSING = "leave them out with `scope:`, or keep the target's with `missing: keep`"


@dataclass
class Decisions:
    """Decides tensor by tensor; `mistakes` and `warnings` gather along the way.

    Args:
        recipe, method: what is asked for.
        sides: all opened models, paired with the target.
        target: the one that the output is made after, and its `heads`.
        language: names of the target's language model, where that alone is merged.
        vocabularies: where rows of vocabulary tables are paired by token.
    """

    recipe: Recipe
    method: MergeMethod
    sides: list[Side]
    target: Side
    heads: Heads
    language: Set[str] | None = None
    vocabularies: Vocabularies | None = None
    mistakes: Mistakes = field(default_factory=Mistakes)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        entries = self.target.source.entries
        self._models = [side for side in self.sides if side.role == "model"]
        self._base = next((side for side in self.sides if side.role == "base"), None)
        self._mixed = [*self._models, *([self._base] if self._base else [])]
        self._others = [side for side in self._mixed if side is not self.target]
        self._extras = [side for side in self.sides if side.role == "extra"]
        self._prefix, self._layers = language_prefix(entries), count_layers(entries)
        self._parts = {s.index: {part_of(name) for name in s.pairs} for s in self._others}
        self._settings = SettingsOfTensors(self.recipe, self.method)
        self._fitting = Fitting(self.target, self._extras, self.method.extra, self.mistakes)

    def all(self) -> list[TensorPlan]:
        """Every tensor of the target in its order, then what is dropped of the others."""
        if_mixed = list(pair_tied_heads(self.heads, self._others))
        plans = [self._decide(entry) for entry in self.target.source.entries.values()]
        self.warnings += self.heads.warnings
        if any(plan.name == self.heads.head and plan.action == "mix" for plan in plans):
            self.warnings += if_mixed
        if self.heads.tied:
            plans = self._with_tied_head(plans)
        self._check_patterns(plans)
        self.warnings += self._fitting.width_warnings()
        for side in self._others:
            plans += dropped_tensors(
                side, self.target, self.heads, self.recipe, self.mistakes, self.warnings
            )
        return plans

    def _decide(self, entry: TensorEntry) -> TensorPlan:
        name = entry.name
        partners = [side for side in self._others if name in side.pairs]
        lacking = [side for side in self._others if name not in side.pairs]
        without = ", ".join(str(side.folder) for side in lacking)
        if is_buffer(name):
            self._compare_buffer(name, partners)
            return self._keep(entry, "buffer, given by the config")
        if self.language is not None and name not in self.language:
            return self._keep(entry, f"not the language model's ({part_of(name)})")
        if lacking and self.vocabularies is not None and self.vocabularies.first_rows.get(name):
            return self._keep(entry, f"rows of tokens that {without} has not")
        expected = any(self._should_have(side, name) for side in lacking)
        if lacking and not partners and not expected:
            return self._keep(entry, f"only in the target ({part_of(name)})")
        if not self._in_scope(name):
            return self._keep(entry, "scope")
        if lacking and not expected:
            return self._keep(entry, f"{without} lacks it")
        place = tensor_place(name)
        settings = self._settings.of(name, place.layer, self._layers)
        if settings is None:
            return self._keep(entry, "schedule does not name it")
        if lacking:
            if self.recipe.missing == "error":
                file = self.target.file(name)
                self.mistakes.add(f"{name}: in {file}, but {without} has no such tensor", _MISSING)
            return self._keep(entry, f"{without} lacks it")
        rows, picked, because = None, None, "mixed"
        if entry.dtype not in FLOATS:
            because = "integers, held against each other while merging"
            if self._fitting.whole_numbers(entry, partners):
                return self._keep(entry, "integer buffer, equal in all")
        elif not self._fitting.fits(entry, partners):
            return self._keep(entry, "does not fit")
        elif self.vocabularies is not None and is_vocabulary(name):
            its = {side.index: side.entry(name) for side in (*partners, *self._extras)}
            rows, picked = self.vocabularies.rows(entry, its)
            count = entry.shape[0] if rows is None else rows
            count = count if picked is None else len(picked.rows)
            if not count:
                return self._keep(entry, "no token of it is in all models")
            if count < entry.shape[0] or picked is not None:
                because = f"mixed: {count} of {entry.shape[0]} rows, by token"
        else:
            rows = self._fitting.rows(entry, self._mixed)
        if rows is not None and self.vocabularies is None:
            because = (
                f"mixed: vocabulary rows 0 to {rows - 1}; the {entry.shape[0] - rows} beyond are "
                "the target's"
            )
        return replace(
            self._keep(entry, because),
            action="mix",
            inputs=tuple(side.input(name) for side in self._models),
            base=self._base.input(name) if self._base else None,
            method=self.method.name,
            settings=settings,
            rows=rows,
            picked=picked,
            extras=tuple(side.input(name) for side in self._extras if name in side.pairs),
        )

    def _keep(self, entry: TensorEntry, because: str) -> TensorPlan:
        wanted = self.recipe.out_dtype if entry.dtype in FLOATS else None
        return TensorPlan(
            name=entry.name,
            action="keep",
            because=because,
            dtype=entry.dtype if wanted is None else _SPELLED[wanted],
            shape=entry.shape,
            target=self.target.input(entry.name),
            layer=tensor_place(entry.name).layer,
            layers=self._layers,
        )

    def _names(self, name: str) -> list[str]:
        """The tensor's name in the target and in the other models."""
        return [name, *{s.pairs[name] for s in self._others if name in s.pairs} - {name}]

    def _in_scope(self, name: str) -> bool:
        scope = self.recipe.scope
        return scope is None or any(fnmatchcase(n, p) for n in self._names(name) for p in scope)

    def _should_have(self, side: Side, name: str) -> bool:
        """Whether a model lacks what belongs to a part that it shares with the target."""
        place = tensor_place(name)
        if place.layer is not None:
            return place.prefix == self._prefix
        if place.module != "other":
            return not (self.heads.tied and name == self.heads.head)
        return part_of(name) in self._parts[side.index]

    def _compare_buffer(self, name: str, partners: list[Side]) -> None:
        for side in partners:
            if not same_bytes(self.target.source, name, side.source, side.pairs[name]):
                self.warnings.append(
                    f"{name} differs between {self.target.file(name)} and {side.file(name)}; the "
                    "target's is kept (do both use the same rotary settings?)"
                )

    def _with_tied_head(self, plans: list[TensorPlan]) -> list[TensorPlan]:
        """A stored but tied head follows its embeddings."""
        at = {plan.name: index for index, plan in enumerate(plans)}
        assert self.heads.head is not None
        assert self.heads.table is not None
        head, table = plans[at[self.heads.head]], plans[at[self.heads.table]]
        if table.action == "mix":
            why = f"tied to {table.name}, which is mixed once"
            plans[at[head.name]] = TensorPlan(
                head.name, "drop", why, head.dtype, head.shape, head.target
            )
        elif head.action == "mix":
            self.mistakes.add(
                f"{head.name} would be mixed but is tied to {table.name}, which is kept "
                f"({table.because}) in {self.target.file(head.name)}",
                "name both or neither",
            )
        return plans

    def _check_patterns(self, plans: list[TensorPlan]) -> None:
        """Every glob of the scope and every rule of a schedule must fit something."""
        for index, pattern in enumerate(self.recipe.scope or ()):
            found = [
                plan for plan in plans
                if any(fnmatchcase(name, pattern) for name in self._names(plan.name))
            ]  # fmt: skip
            if any(plan.action == "mix" for plan in found):
                continue
            why = ", ".join(dict.fromkeys(plan.because for plan in found))
            told = f"matches {len(found)} tensors, none of which is merged ({why})"
            if not found:
                everything = [n for plan in plans for n in self._names(plan.name)]
                told = f"matches no tensor{near_names(pattern, everything)}"
            self.mistakes.add(str(self.recipe.error(("scope", index), f"{pattern!r} {told}")))
        in_all = [
            plan.name
            for plan in plans
            if plan.because != "scope" and all(plan.name in side.pairs for side in self._others)
        ]
        for error in self._settings.unmatched(in_all, self._layers):
            self.mistakes.add(str(error))
