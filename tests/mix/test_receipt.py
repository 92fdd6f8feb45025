import json
from collections.abc import Callable
from typing import Any

import pytest

from mixlab.mix import MixSpec, Source, make_plan, receipt

from .tiny import TinyEncoder

COLUMNS = [
    "run",
    "source",
    "modality",
    "format",
    "requested",
    "realised_rows",
    "realised_tokens",
    "realised_supervised",
    "passes",
    "dropped",
    "reason",
]


def test_receipt_recounts_the_plan(make_mix: Callable[..., tuple[MixSpec, list[Source]]]) -> None:
    spec, sources = make_mix(formats={"short": 0.5, "json": 0.5}, text_fraction=0.3)
    encoder = TinyEncoder()
    plan = make_plan(spec, sources, encoder, steps=10, batch_supervised_tokens=90, seed=0)
    table, totals = receipt(plan, run="r1")
    assert list(table.columns[: len(COLUMNS)]) == COLUMNS
    assert set(table["run"]) == {"r1"}
    assert table["requested"].sum() == pytest.approx(1)
    assert table["realised_share"].sum() == pytest.approx(1)

    # An independent count, row by row.
    seen: dict[Any, list[int]] = {}
    for k in range(plan.steps):
        for entry in plan.batch(k):
            source = sources[entry.source]
            made = encoder.encode_example(
                source.messages(entry.row, entry.format), source.image(entry.row)
            )
            part = seen.setdefault((source.name, entry.format), [0, 0, 0])
            for at, value in enumerate((1, len(made.input_ids), int(made.supervised.sum()))):
                part[at] += value
    counted = {
        (row.source, row.format): [
            row.realised_rows, row.realised_tokens, row.realised_supervised,
        ]
        for row in table.itertuples()
    }  # fmt: skip
    assert counted == seen
    text = [sum(part[at] for (name, _), part in seen.items() if name == "facts") for at in range(3)]
    whole = [sum(part[at] for part in seen.values()) for at in range(3)]
    assert totals["realised_text_rows"] == pytest.approx(text[0] / whole[0])
    assert totals["realised_text_tokens"] == pytest.approx(text[1] / whole[1])
    assert totals["realised_text_supervised"] == pytest.approx(text[2] / whole[2])
    assert (totals["rows"], totals["total_tokens"], totals["supervised_tokens"]) == tuple(whole)
    assert totals["distinct_rows"] <= 70
    assert json.loads(totals["formats"]) == {"short": 0.5, "json": 0.5}
    assert sum(json.loads(totals["realised_formats"]).values()) == pytest.approx(1, abs=1e-5)
    rows = table.groupby("source")["realised_rows"].sum()
    passes = table.set_index("source")["passes"]
    assert passes["scenes"].iloc[0] == pytest.approx(rows["scenes"] / 40)


def test_formats_are_shown_apart_only_where_they_differ(
    make_mix: Callable[..., tuple[MixSpec, list[Source]]],
) -> None:
    apart = {"vision": {"short": 1.0}, "text": {"json": 1.0}}

    def formats(**settings: Any) -> Any:
        spec, sources = make_mix(**settings)
        plan = make_plan(spec, sources, TinyEncoder(), steps=2, batch_supervised_tokens=90, seed=0)
        return json.loads(plan.receipt()[1]["formats"])

    assert formats(formats=apart) == apart
    assert formats(formats=apart, text_fraction=0.0) == {"short": 1.0}
