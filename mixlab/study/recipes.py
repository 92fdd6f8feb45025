"""From a sweep file to arms: which recipes are trained, and with which seeds."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mixlab.spec import Located, nearest, set_dotted
from mixlab.store import digest
from mixlab.study.jobs import Executor
from mixlab.study.sweepfile import RESERVED, SweepSpec


@dataclass(frozen=True)
class Arm:
    """One recipe and its replicates.

    Attributes:
        coordinates: the sampler's view of the recipe by coordinate name; None where the recipe
            lies outside the space (dilution, twins, other settings).
    """

    label: str
    kind: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    coordinates: Mapping[str, Any] | None = None
    trial: int = -1

    @property
    def recipe(self) -> str:
        """Digest of the settings."""
        return digest(self.settings)


def dotted(settings: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted name.

    Raises:
        KeyError: there is none.
    """
    value: Any = settings
    for part in name.removeprefix("arm.").split("."):
        value = value[part]
    return value


def one_table(value: Any) -> Any:
    """Format shares that are the same for vision and text as one table; else as they are."""
    if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
        tables = list(value.values())
        if all(table == tables[0] for table in tables):
            return tables[0]
    return value


def blend(formats: Any, text_fraction: float) -> Any:
    """Format shares of the whole mix, where vision and text have tables of their own."""
    formats = one_table(formats)
    if not (isinstance(formats, dict) and set(formats) == {"vision", "text"}):
        return formats
    parts = [(formats["vision"], 1.0 - text_fraction), (formats["text"], text_fraction)]
    names = dict.fromkeys(name for table, weight in parts if weight for name in table)
    return {name: math.fsum(t.get(name, 0.0) * weight for t, weight in parts) for name in names}


def show(value: Any) -> str:
    """A value as it reads in an arm's label."""
    value = one_table(value)
    if isinstance(value, dict):
        shares = {k: v for k, v in value.items() if v}
        if len(shares) == 1:
            return str(next(iter(shares)))
        return "+".join(
            f"{k} {v:.2g}" if isinstance(v, float) else str(k) for k, v in shares.items()
        )
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def label_of(settings: Mapping[str, Any]) -> str:
    """`text 25%, short`: a recipe's mix in words (settings without a mix: their digest)."""
    mix = settings.get("mix")
    if not isinstance(mix, Mapping) or "text_fraction" not in mix:
        return digest(settings)[:8]
    fraction = float(mix["text_fraction"])
    head = "no text" if fraction == 0 else f"text {100 * fraction:.3g}%"
    return f"{head}, {show(mix['formats'])}" if mix.get("formats") else head


class Recipes:
    """Makes arms of a sweep: the base recipe with values set by dotted names."""

    def __init__(self, spec: SweepSpec, located: Located, executor: Executor) -> None:
        self.spec = spec
        self._located = located
        self._executor = executor
        self.base = executor.recipe(located.at("arm"))
        for name in spec.parameters:
            self._check_name(name, ("parameters", name))

    def _check_name(self, name: str, where: tuple[str | int, ...]) -> None:
        try:
            dotted(self.base, name)
        except (KeyError, TypeError):
            hint = nearest(name, _names(self.base))
            raise self._located.error(where, f"unknown setting {name!r} of the arm{hint}") from None

    def settings(
        self, values: Mapping[str, Any], where: tuple[str | int, ...] = ()
    ) -> dict[str, Any]:
        """The base recipe with `values` set, checked.

        Raises:
            SpecError: an unknown name, or a value out of range; it points at `where`.
        """
        data = copy.deepcopy(self.base)
        origins = {}
        for name, value in values.items():
            self._check_name(name, (*where, name))
            path = set_dotted(data, name.removeprefix("arm."), value, shown=name)
            place = self._located.error((*where, name), "")
            origins[path] = str(place).rstrip(": ") or name
        return self._executor.recipe(Located(data, None, {}, origins))

    def _coordinates(
        self, settings: Mapping[str, Any], given: Mapping[str, Any], where: tuple[str | int, ...]
    ) -> dict[str, Any] | None:
        result: dict[str, Any] = {}
        for name, space in self.spec.parameters.items():
            try:
                values = space.encode(given.get(name, one_table(dotted(settings, name))))
            except ValueError as error:
                if name in given:
                    raise self._located.error(
                        (*where, name), f"{name} lies outside the search space: {error}"
                    ) from None
                return None
            for coordinate, value in zip(space.coordinates(), values, strict=True):
                result[name + coordinate.suffix] = value
        others = set(given) - set(self.spec.parameters)
        changed = any(dotted(settings, name) != dotted(self.base, name) for name in others)
        return None if changed else result

    def baselines(self) -> list[Arm]:
        """The arms under `baselines`, in order."""
        arms = []
        for index, entry in enumerate(self.spec.baselines):
            where = ("baselines", index)
            given = {name: value for name, value in entry.items() if name not in RESERVED}
            settings = self.settings(given, where)
            arms.append(
                Arm(
                    label=str(entry.get("name") or label_of(settings)),
                    kind="baseline",
                    settings=settings,
                    seeds=self._seeds(entry.get("seeds"), where),
                    coordinates=self._coordinates(settings, given, where),
                )
            )
        return _distinct(arms, self._located)

    def _seeds(self, seeds: Any, where: tuple[str | int, ...]) -> tuple[int, ...]:
        if seeds is None:
            return tuple(self.spec.seeds)
        if not isinstance(seeds, list) or not seeds or not all(type(s) is int for s in seeds):
            raise self._located.error(
                (*where, "seeds"), f"seeds: found {seeds!r}, expected a list such as [0, 1, 2]"
            )
        return tuple(dict.fromkeys(seeds))

    def dilutions(self, baselines: list[Arm]) -> list[Arm]:
        """No text, and 1 - f of the vision budget."""
        wanted = self.spec.dilution
        if isinstance(wanted, bool):
            fractions = [
                float(dotted(arm.settings, "mix.text_fraction"))
                for arm in baselines
                if wanted and arm.seeds == tuple(self.spec.seeds)
            ]
        else:
            fractions = [float(fraction) for fraction in wanted]
        arms = []
        for fraction in dict.fromkeys(f for f in fractions if 0 < f < 1):
            settings = self.settings({"mix.text_fraction": 0.0}, ("dilution",))
            settings["vision_scale"] = 1.0 - fraction
            label = f"dilution of {100 * fraction:.3g}%"
            arms.append(Arm(label, "dilution", settings, tuple(self.spec.seeds)))
        return arms

    def twins(self, baselines: list[Arm]) -> list[Arm]:
        """One arm of text rows only for each set of format shares among the baselines.

        Raises:
            SpecError: `of` names a text fraction that no baseline has.
        """
        if not self.spec.twins.text:
            return []
        seeds = tuple(self.spec.twins.seeds or self.spec.seeds)
        found: dict[str, Arm] = {}
        chosen = self.spec.twins.of
        for arm in baselines:
            if chosen is not None and dotted(arm.settings, "mix.text_fraction") not in chosen:
                continue
            settings = self.settings(
                {
                    "mix.formats": blend(
                        dotted(arm.settings, "mix.formats"),
                        dotted(arm.settings, "mix.text_fraction"),
                    ),
                    "mix.text_fraction": 1.0,
                },
                ("twins",),
            )
            label = f"text twin, {show(dotted(settings, 'mix.formats'))}"
            found.setdefault(digest(settings), Arm(label, "twin", settings, seeds))
        if not found:
            fractions = sorted({dotted(arm.settings, "mix.text_fraction") for arm in baselines})
            raise self._located.error(
                ("twins", "of"),
                f"twins.of is {chosen}, but the baselines have the text fractions {fractions}",
            )
        return list(found.values())

    def trial(self, number: int, coordinates: Mapping[str, Any]) -> Arm:
        """The arm of a sampled trial."""
        values = {}
        for name, space in self.spec.parameters.items():
            parts = [coordinates[name + c.suffix] for c in space.coordinates()]
            values[name] = space.decode(parts)
        settings = self.settings(values)
        seeds = tuple(self.spec.trial_seeds or self.spec.seeds[:1])
        return Arm(label_of(settings), "trial", settings, seeds, dict(coordinates), number)


def _names(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    names = []
    for key, value in settings.items():
        names.append(prefix + key)
        if isinstance(value, Mapping):
            names.extend(_names(value, f"{prefix}{key}."))
    return names


def _distinct(arms: list[Arm], located: Located) -> list[Arm]:
    """Refuse the same recipe twice; tell arms apart whose labels are equal."""
    first: dict[str, int] = {}
    labels: dict[str, int] = {}
    result = []
    for index, arm in enumerate(arms):
        if arm.recipe in first:
            raise located.error(
                ("baselines", index),
                f"this baseline is the same recipe as number {first[arm.recipe] + 1}; remove one, "
                "or give the one all seeds",
            )
        first[arm.recipe] = index
        labels[arm.label] = labels.get(arm.label, 0) + 1
        count = labels[arm.label]
        result.append(arm if count == 1 else replace(arm, label=f"{arm.label} ({count})"))
    return result
