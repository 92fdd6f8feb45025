"""What stands beside merged weights: a model card for people, a marker for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from mixlab import __version__
from mixlab.merge._plan import MergePlan
from mixlab.merge.running._report import Digested, MergeReport
from mixlab.spec import MixlabError
from mixlab.store import read_json, write_json, write_text

MARKER = "mixlab_merge.json"
CARD = "README.md"
ALPHA = (
    "alpha weighs the tuned model: 0 is the reference (the base) bit for bit, 1 is the tuned model "
    "bit for bit."
)
_HUB = "models--"


def shown_name(folder: Path) -> str:
    """What a card calls an input: its hub id where it lies in the hub's cache, else its name."""
    for part in folder.parts:
        if part.startswith(_HUB) and part.count("--") == 2:
            return part.removeprefix(_HUB).replace("--", "/")
    return folder.resolve().name


def write_card(folder: Path, plan: MergePlan, report: MergeReport) -> Path:
    """Write README.md into `folder`."""
    return write_text(folder / CARD, "\n".join(_card(plan, report)) + "\n")


def write_marker(folder: Path, plan: MergePlan, report: MergeReport) -> Path:
    """Write the marker of a finished merge, as the last file; the same merge gives the same text.

    `recipe` in it is the recipe as asked for, `digest`s are those of `combine_digest`.
    """
    about = {"mixlab": __version__, "recipe": plan.recipe, **report.to_json()}
    about["warnings"] = _without_paths(plan, report)
    return write_json(folder / MARKER, about)


def read_marker(folder: str | Path) -> dict[str, Any]:
    """What `write_marker` wrote.

    Raises:
        MixlabError: the folder holds no finished merge.
    """
    path = Path(folder) / MARKER
    if not path.is_file():
        raise MixlabError(
            f"{folder}: no {MARKER}, so this is no finished merge of mixlab; check the path"
        )
    found = read_json(path, "merge again")
    if not isinstance(found.get("tensors"), dict) or "recipe" not in found:
        raise MixlabError(f"{path}: does not describe a merge; merge again")
    return found


def _card(plan: MergePlan, report: MergeReport) -> Iterator[str]:
    names = list(dict.fromkeys(one.name for one in report.inputs))
    front = {
        "base_model": names,
        "base_model_relation": "merge",
        "library_name": "transformers",
        "tags": ["merge", "mixlab"],
    }
    if plan.title:
        del front["base_model_relation"]
        front["tags"] = ["mixlab"]
    yield "---"
    yield yaml.safe_dump(front, sort_keys=False, allow_unicode=True).rstrip()
    yield "---"
    yield ""
    yield f"# {plan.title or f'Merge of {_and(names)}'}"
    yield ""
    methods = sorted({one.method for one in plan.tensors if one.action == "mix"})
    sources = {one.target.model for one in plan.tensors if one.action == "keep" and one.target}
    kept = [report.inputs[model].name for model in sorted(sources)]
    yield (
        f"Made by mixlab {__version__}: {report.mixed} tensors mixed"
        f"{f' by {_and(methods)}' if methods else ''}, {report.kept} kept"
        f"{f' from {_and(kept)}' if kept else ''}, {report.dropped} dropped. Seed {report.seed}."
    )
    yield ""
    if any("alpha" in one.settings for one in plan.tensors):
        yield ALPHA
        yield ""
    if report.share_changed is not None:
        yield (
            f"{report.share_changed:.2%} of the parameters in mixed tensors differ from "
            f"{report.inputs[plan.target].name}."
        )
        yield ""
    yield from _section("Recipe", _fenced(plan.recipe))
    yield from _section("Digests", _digests(report))
    facts = [f"{note}: {len(tensors)} tensors" for note, tensors in report.notes.items()]
    facts += [
        f"{name}: {nan} NaN, {infinite} infinite values"
        for name, (nan, infinite) in report.nonfinite.items()
    ]
    facts += [*report.facts, *(one.sentence() for one in report.vocabulary)]
    facts += _without_paths(plan, report)
    if facts:
        yield from _section("Notes", [f"- {' '.join(fact.split())}" for fact in facts])


def _without_paths(plan: MergePlan, report: MergeReport) -> list[str]:
    """Warnings, with the names of folders: where they lie on this machine is nobody's business."""
    told = list(report.warnings)
    # A bare name (or the working directory, ".") says nothing, and stands in names of tensors too.
    places = [folder for folder in plan.folders if len(folder.parts) > 1]
    for folder in sorted(places, key=lambda one: -len(str(one))):
        told = [text.replace(str(folder), shown_name(folder)) for text in told]
    return told


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from lines
    yield ""


def _fenced(recipe: Mapping[str, Any]) -> list[str]:
    # Through JSON, since a recipe may hold tuples and paths, which YAML would tag.
    plain = json.loads(json.dumps(recipe, default=str))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100).rstrip()
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}yaml", text, fence]


def _digests(report: MergeReport) -> list[str]:
    rows = ["| model | tensors | digest |", "| --- | --- | --- |"]
    for role, one in [*(("", one) for one in report.inputs), ("this merge", report.output)]:
        rows.append(f"| {_cell(role or one.name)} | {_covered(one)} | {one.digest or '-'} |")
    rows += [
        "",
        "Over name, dtype, shape and bytes (xxh3 of every 8 MiB) of the tensors that were read in "
        "full; equal for equal tensors, however they are spread over files.",
    ]
    return rows


def _covered(one: Digested) -> str:
    return str(one.of) if one.tensors == one.of else f"{one.tensors} of {one.of}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
