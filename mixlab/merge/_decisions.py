"""Mix, keep or drop: what becomes of each tensor, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from mixlab.checkpoint import TensorEntry, count_layers, language_prefix, tensor_place
from mixlab.merge._method import MergeMethod
from mixlab.merge._mistakes import Mistakes
from mixlab.merge._opening import Side
from mixlab.merge._pairing import head_and_table, is_buffer, is_position_table, part_of
from mixlab.merge._plan import Input, TensorPlan
from mixlab.merge._recipe import Recipe
from mixlab.merge._resolving import SettingsOfTensors
from mixlab.merge._same import WHOLE, same_bytes

_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_SPELLED = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_SCOPE = "leave them out with `scope:`, or use models of one architecture"
_MISSING = "leave them out with `scope:`, or keep the target's with `missing: keep`"
_PACKED = "these look like packed (quantised) weights; give the unquantised model"


@dataclass
class Decisions:
    """Decides tensor by tensor; `mistakes` and `warnings` gather along the way.

    Args:
        recipe, method: what is asked for.
        sides: all opened models, paired with the target.
        target: the one that the output is made after.
        tied: the target's head, where its files hold it though it is tied to the embeddings.
    """

    recipe: Recipe
    method: MergeMethod
    sides: list[Side]
    target: Side
    settings: SettingsOfTensors
    tied: str | None = None
    mistakes: Mistakes = field(default_factory=Mistakes)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        entries = self.target.source.entries
        self._models = [side for side in self.sides if side.role == "model"]
        self._base = next((side for side in self.sides if side.role == "base"), None)
        self._extras = [side for side in self.sides if side.role == "extra"]
        self._mixed = [*self._models, *([self._base] if self._base else [])]
        self._others = [side for side in self._mixed if side is not self.target]
        self._prefix = language_prefix(entries)
        self._layers = count_layers(entries)
        self._table = head_and_table(entries)[1]
        # Other parts than the language model that some other model has as well.
        self._shared = {part_of(name) for side in self._others for name in side.pairs}
        self._widths: Counter[tuple[str, str, str]] = Counter()

    def all(self) -> list[TensorPlan]:
        """Every tensor of the target in its order, then what is dropped of the others."""
        self._tell_of_tied_heads()
        plans = [self._decide(entry) for entry in self.target.source.entries.values()]
        plans = [self._untied(plan, plans) for plan in plans]
        for side in self._others:
            plans += self._dropped(side)
        self._check_patterns(plans)
        for (folder, its, mine), count in self._widths.items():
            self.warnings.append(
                f"{count} tensors of {folder} are {its}, the target's {mine}; they are merged in "
                f"{'float64' if 'F64' in (its, mine) else 'float32'} and rounded once"
            )
        return plans

    def _decide(self, entry: TensorEntry) -> TensorPlan:
        name = entry.name
        partners = [side for side in self._others if name in side.pairs]
        lacking = [side for side in self._others if name not in side.pairs]
        place = tensor_place(name)
        if not self._in_scope(name):
            return self._keep(entry, "scope")
        if lacking and not partners and not self._expected(name, place.prefix):
            return self._keep(entry, f"only in the target ({part_of(name)})")
        if is_buffer(name):
            self._warn_of_buffer(name, partners)
            return self._keep(entry, "buffer, given by the config")
        names = self._names(name)
        settings = self.settings.of(names, place.layer, self._layers)
        if settings is None:
            return self._keep(entry, "schedule does not name it")
        if lacking:
            without = ", ".join(str(side.folder) for side in lacking)
            if self.recipe.missing == "error":
                self.mistakes.add(
                    f"{name}: in {self.target.file(name)}, but {without} has no such tensor",
                    _MISSING,
                )
            return self._keep(entry, f"{without} lacks it")
        if entry.dtype not in _FLOATS:
            return self._whole_numbers(entry, partners)
        if not self._fits(name, entry, partners):
            return self._keep(entry, "does not fit")
        rows = self._rows(name, entry)
        if rows is None:
            because = "mixed"
        else:
            kept = entry.shape[0] - rows
            because = f"mixed: vocabulary rows 0 to {rows - 1}; the {kept} beyond are the target's"
        return TensorPlan(
            name=name,
            action="mix",
            because=because,
            dtype=self._out(entry.dtype),
            shape=entry.shape,
            target=self.target.input(name),
            inputs=tuple(side.input(name) for side in self._models),
            base=self._base.input(name) if self._base else None,
            method=self.method.name,
            settings=settings,
            rows=rows,
            layer=place.layer,
            layers=self._layers,
            extras=tuple(side.input(name) for side in self._extras),
        )

    def _names(self, name: str) -> list[str]:
        return list(
            dict.fromkeys([name, *(s.pairs[name] for s in self._others if name in s.pairs)])
        )

    def _in_scope(self, name: str) -> bool:
        scope = self.recipe.scope
        return scope is None or any(fnmatchcase(n, p) for n in self._names(name) for p in scope)

    def _expected(self, name: str, prefix: str) -> bool:
        """Whether the other models should have a tensor that the target has."""
        place = tensor_place(name)
        if is_buffer(name):
            return False
        if place.layer is not None:
            return prefix == self._prefix
        if place.module != "other":
            return not (place.module == "lm_head" and name == self.tied)
        return part_of(name) in self._shared

    def _keep(self, entry: TensorEntry, because: str) -> TensorPlan:
        place = tensor_place(entry.name)
        return TensorPlan(
            name=entry.name,
            action="keep",
            because=because,
            dtype=self._out(entry.dtype),
            shape=entry.shape,
            target=self.target.input(entry.name),
            layer=place.layer,
            layers=self._layers,
        )

    def _out(self, dtype: str) -> str:
        wanted = self.recipe.out_dtype
        return _SPELLED[wanted] if wanted is not None and dtype in _FLOATS else dtype

    def _whole_numbers(self, entry: TensorEntry, partners: list[Side]) -> TensorPlan:
        name = entry.name
        if len(entry.shape) > 1 and entry.dtype != "BOOL" and name.endswith("weight"):
            self.mistakes.add(f"{name}: {entry.dtype} in {self.target.file(name)}", _PACKED)
        small = entry.stop - entry.start <= WHOLE
        for side in partners:
            its = side.entry(name)
            alike = (its.dtype, its.shape) == (entry.dtype, entry.shape)
            if not alike or (
                small and not same_bytes(self.target.source, name, side.source, its.name)
            ):
                told = "values differ" if alike else f"{its.dtype}{list(its.shape)} there"
                self.mistakes.add(
                    f"{name}: {entry.dtype}{list(entry.shape)} in {self.target.file(name)}, {told} "
                    f"in {side.file(name)}; whole numbers cannot be averaged",
                    _SCOPE,
                )
        kept = self._keep(entry, "integer buffer, equal in all")
        if small or not partners:
            return kept
        return TensorPlan(
            name=name,
            action="mix",
            because="integers, held against each other while merging",
            dtype=entry.dtype,
            shape=entry.shape,
            target=kept.target,
            inputs=tuple(side.input(name) for side in self._models),
            base=self._base.input(name) if self._base else None,
            method=self.method.name,
            settings=self.settings.of(self._names(name), kept.layer, self._layers) or {},
            layer=kept.layer,
            layers=self._layers,
        )

    def _fits(self, name: str, entry: TensorEntry, partners: list[Side]) -> bool:
        fits = True
        for side in [*partners, *self._extras]:
            if name not in side.pairs:
                self.mistakes.add(
                    f"{name}: {side.folder} has no tensor for it",
                    f"{self.method.extra} needs one tensor for each that is merged; leave the "
                    "others out with `scope:`",
                )
                fits = False
                continue
            its = side.entry(name)
            where = f"{self.target.file(name)}, %s in {side.file(name)}"
            also = "" if its.name == name else f" ({its.name})"
            if its.shape != entry.shape and not _is_table(name, entry, its):
                found = where % f"{list(its.shape)}{also}"
                self.mistakes.add(f"{name}: {list(entry.shape)} in {found}", _SCOPE)
                fits = False
            elif its.dtype not in _FLOATS:
                found = where % f"{its.dtype}{also}"
                self.mistakes.add(f"{name}: {entry.dtype} in {found}", _PACKED)
                fits = False
            elif its.dtype != entry.dtype and side.role != "extra":
                self._widths[str(side.folder), its.dtype, entry.dtype] += 1
        return fits

    def _rows(self, name: str, entry: TensorEntry) -> int | None:
        """How many rows of a vocabulary table all models have; None where all have the target's."""
        lengths = [side.entry(name).shape[:1] for side in [*self._mixed, *self._extras]]
        fewest = min(length[0] for length in lengths) if lengths[0] else 0
        return fewest if entry.shape and fewest < entry.shape[0] else None

    def _untied(self, plan: TensorPlan, plans: list[TensorPlan]) -> TensorPlan:
        """The target's stored but tied head follows its embeddings."""
        if plan.name != self.tied:
            return plan
        table = next(p for p in plans if p.name == self._table)
        if table.action == "mix":
            entry = self.target.source.entries[plan.name]
            why = f"tied to {table.name}, which is mixed once"
            return TensorPlan(
                plan.name, "drop", why, plan.dtype, plan.shape, Input(self.target.index, entry)
            )
        if plan.action == "mix":
            self.mistakes.add(
                f"{plan.name} would be mixed but is tied to {table.name}, which is kept "
                f"({table.because}) in {self.target.file(plan.name)}",
                "name both or neither",
            )
        return plan

    def _dropped(self, side: Side) -> Iterator[TensorPlan]:
        """What a model has and the target has not."""
        used = set(side.pairs.values())
        prefix = language_prefix(side.source.entries)
        parts = {part_of(name) for name in used}
        head, table = head_and_table(side.source.entries)
        head_of_target = head_and_table(self.target.source.entries)[0]
        for name, entry in side.source.entries.items():
            if name in used:
                continue
            place = tensor_place(name)
            because = f"not in the target ({part_of(name)})"
            scope = self.recipe.scope
            if is_buffer(name):
                because = "buffer, given by the config"
            elif name == head and table and head_of_target is None:
                because = f"tied to {self._table} in the target"
                self._warn_of_head(side, head, table)
            elif scope is not None and not any(fnmatchcase(name, p) for p in scope):
                because = "scope"
            elif (
                place.prefix == prefix
                if place.layer is not None
                else place.module != "other" or part_of(name) in parts
            ):
                if self.recipe.missing == "error":
                    self.mistakes.add(
                        f"{name}: in {side.source.file_of(name)}, but {self.target.folder} has no "
                        "such tensor",
                        "leave it out with `scope:`, or drop it with `missing: keep`",
                    )
                because = "the target lacks it"
            # `target` says which model it is of; nothing of it is written.
            origin = Input(side.index, entry)
            yield TensorPlan(name, "drop", because, entry.dtype, entry.shape, origin)

    def _tell_of_tied_heads(self) -> None:
        head = head_and_table(self.target.source.entries)[0]
        if head is None or head == self.tied:
            return
        for side in self._others:
            its = side.pairs.get(head)
            if its is None or its != side.pairs.get(self._table or ""):
                continue
            if side.source.tied is False:
                del side.pairs[head]
                continue
            self.warnings.append(
                f"{side.folder} ties its lm_head to {its}; {head} is merged with that"
            )

    def _warn_of_head(self, side: Side, head: str, table: str) -> None:
        if not same_bytes(side.source, head, side.source, table):
            self.warnings.append(
                f"{side.folder}: {head} differs from {table}; the target ties the two, so this "
                "lm_head takes no part"
            )

    def _warn_of_buffer(self, name: str, partners: list[Side]) -> None:
        for side in partners:
            if not same_bytes(self.target.source, name, side.source, side.pairs[name]):
                self.warnings.append(
                    f"{name} differs between {self.target.file(name)} and {side.file(name)}; the "
                    "target's is kept (do both use the same rotary settings?)"
                )

    def _check_patterns(self, plans: list[TensorPlan]) -> None:
        if self.recipe.scope is not None:
            mixed = [n for p in plans if p.action == "mix" for n in self._names(p.name)]
            everything = [n for name in self.target.source.entries for n in self._names(name)]
            for index, pattern in enumerate(self.recipe.scope):
                if any(fnmatchcase(name, pattern) for name in mixed):
                    continue
                found = sum(fnmatchcase(name, pattern) for name in everything)
                told = (
                    f"matches {found} tensors, none of which is merged"
                    if found
                    else f"matches no tensor; names are such as {everything[len(everything) // 2]}"
                )
                self.mistakes.add(str(self.recipe.error(("scope", index), f"{pattern!r} {told}")))
        paired = [name for p in plans if p.action != "drop" for name in self._candidates(p)]
        for error in self.settings.unmatched(paired, self._layers):
            self.mistakes.add(str(error))

    def _candidates(self, plan: TensorPlan) -> list[str]:
        """Names that a schedule could have named: in scope, and in all models."""
        in_all = all(plan.name in side.pairs for side in self._others)
        return [plan.name] if in_all and plan.because != "scope" else []


def _is_table(name: str, mine: TensorEntry, its: TensorEntry) -> bool:
    """Whether two tensors are vocabulary tables that differ in their number of rows alone."""
    place = tensor_place(name)
    return (
        place.module in ("embeddings", "lm_head")
        and not is_position_table(name)
        and len(mine.shape) == len(its.shape) > 0
        and mine.shape[1:] == its.shape[1:]
    )
