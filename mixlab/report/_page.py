"""One self-contained HTML file from a study's tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mixlab.attribute import DEFINITIONS
from mixlab.report import _figures, _tables
from mixlab.report._answer import answer
from mixlab.report._figures import Figure, Table
from mixlab.report._findings import Findings, find
from mixlab.report._headline import headline
from mixlab.report._limits import limits
from mixlab.report._read import read_study
from mixlab.report._safe import plain, user
from mixlab.store import write_text


@dataclass(frozen=True)
class Section:
    """A titled part of the page: what it says first, then figures, then tables."""

    key: str
    title: str
    lead: list[str]
    figures: list[Figure]
    tables: list[tuple[str, Table, bool]]


def build_report(study_folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the page of a study; returns its path (`report.html` in the study by default).

    Reads the study's tables and study.json only. The file holds everything it needs: no request
    leaves it, and it reads without JavaScript. Raises `MixlabError` when it is no study, has
    no test scores yet, or when compared runs were not scored on the same items.
    """
    study = read_study(study_folder)
    path = Path(out) if out is not None else study.folder / "report.html"
    write_text(path, render(find(study)))
    return path


def render(f: Findings) -> str:
    """The page as a string of HTML."""
    env = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    env.filters["user"] = user
    env.filters["plain"] = plain
    here = files("mixlab.report")
    template = env.from_string((here / "page.html").read_text(encoding="utf-8"))
    style = Markup((here / "page.css").read_text(encoding="utf-8"))
    page = template.render(
        style=style,
        name=f.study.name,
        headline=headline(f),
        answer=answer(f),
        glance=_tables.glance(f),
        margin=f"{f.study.margin:g}",
        sections=sections(f),
        limits=limits(f),
        definitions=DEFINITIONS,
        provenance=provenance(f),
        commands=commands(f),
        runs=_tables.runs(f),
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def sections(f: Findings) -> list[Section]:
    """The parts between answer and limits, in the order of the question."""
    made: list[Section] = []

    def add(
        key: str,
        title: str,
        lead: list[str],
        figure: Figure | None,
        tables: list[tuple[str, Table | None, bool]],
    ) -> None:
        shown = [(t, table, open_) for t, table, open_ in tables if table and table.rows]
        made.append(Section(key, title, lead, [figure] if figure else [], shown))

    add(
        "loss",
        "Loss by construct",
        [DEFINITIONS["loss"], DEFINITIONS["unrehearsed"]],
        _figures.loss_figure(f),
        [
            ("Contrasts between recipes", _tables.contrasts(f), False),
            ("Items lost and gained", _tables.churns(f), False),
            ("Loss under each protocol alone", _tables.protocols(f), False),
        ],
    )
    add(
        "response",
        "Response to text",
        [DEFINITIONS["text"], DEFINITIONS["dilution"]],
        _figures.response_figure(f),
        [],
    )
    why = [f"Effects of single formats are not estimated: {f.no_effects}."] if f.no_effects else []
    add("formats", "Output formats", why, _figures.format_figure(f), [])
    add("plane", "Text against vision", [], _figures.plane_figure(f), [])
    merge_lead = [DEFINITIONS[k] for k in ("alpha", "R", "V", "J", "J0")]
    add(
        "merge",
        "Merging back",
        [f.no_curves] if f.no_curves else merge_lead,
        _figures.merge_figure(f),
        [("Joint recovery", _tables.joints(f), True)],
    )
    add("receipts", "Receipts", [], None, [("What was trained on", _tables.receipts(f), False)])
    add("trials", "All recipes", [], None, [("Recipes and trials", _tables.trials(f), False)])
    return made


def commands(f: Findings) -> list[str]:
    """The commands that made the study, and the one that makes the page."""
    starts = f.study.info.get("starts") or []
    found = [str(s["command"]) for s in starts if isinstance(s, dict) and s.get("command")]
    if f.study.info.get("command"):
        found.append(str(f.study.info["command"]))
    found.append(f"mixlab report {f.study.folder}")
    return list(dict.fromkeys(found))


def provenance(f: Findings) -> list[tuple[str, str]]:
    """study.json, flattened, without the parts that stand elsewhere on the page."""
    info = {
        k: v for k, v in f.study.info.items() if k not in ("given", "resolved", "starts", "command")
    }
    starts = f.study.info.get("starts") or []
    if starts and isinstance(starts[0], dict) and starts[0].get("time"):
        info["started"] = starts[0]["time"]
        info["starts"] = len(starts)
    return list(_flat(info))


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        out = []
        for key, part in value.items():
            out += _flat(part, f"{prefix}{key}.")
        return out
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return [(prefix.rstrip("."), said)]
