import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mixlab.formats import FORMATS
from mixlab.mix import MixSpec, Plan, Source, dilution, load_sources, make_plan, text_twin
from mixlab.spec import MixlabError

from .tiny import TinyEncoder, text_rows, write_rows

Make = Callable[..., tuple[MixSpec, list[Source]]]


def plan_of(mix: tuple[MixSpec, list[Source]], **kwargs: Any) -> Plan:
    asked = {"steps": 20, "batch_supervised_tokens": 100, "seed": 0, **kwargs}
    return make_plan(mix[0], mix[1], asked.pop("encoder", None) or TinyEncoder(), **asked)


def share_errors(plan: Plan, spec: MixSpec, sources: list[Source]) -> dict[str, float]:
    """Errors of every share in tokens, recounted row by row from the batches."""
    rows = [(e, sources[e.source]) for k in range(plan.steps) for e in plan.batch(k)]
    count: Counter[Any] = Counter()
    for number, (entry, source) in enumerate(rows):
        tokens = int(plan.columns["supervised"][number])
        count["all"] += tokens
        count[source.modality] += tokens
        count[source.modality, "source", source.name] += tokens
        count[source.modality, "format", entry.format] += tokens
    errors = {"total": count["all"] - plan.steps * plan.about["batch_supervised_tokens"]}
    for modality, share in spec.modality_shares().items():
        errors[modality] = count[modality] - share * count["all"]
        within = [source for source in sources if source.modality == modality]
        weights = {s.name: s.spec.weight or 1.0 for s in within}
        for name, weight in weights.items():
            part = weight / sum(weights.values())
            errors[f"{modality} {name}"] = count[modality, "source", name] - part * count[modality]
        for fmt, part in spec.format_shares(modality).items():
            errors[f"{modality} {fmt}"] = count[modality, "format", fmt] - part * count[modality]
    return errors


def simplex(size: int) -> st.SearchStrategy[list[float]]:
    return (
        st.lists(st.integers(0, 10), min_size=size, max_size=size)
        .filter(sum)
        .map(lambda parts: [part / sum(parts) for part in parts])
    )


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text_fraction=st.floats(0, 1),
    formats=simplex(3),
    text_formats=simplex(3),
    weights=st.tuples(*[st.floats(0.1, 5)] * 3),
    lengths=st.tuples(*[st.sampled_from([1, 4, 20, 899])] * 3),
    batch=st.integers(1_500, 2_500),
    seed=st.integers(0, 9),
)
def test_shares_within_one_row_of_the_request(
    tmp_path_factory: pytest.TempPathFactory,
    make_mix: Make,
    text_fraction: float,
    formats: list[float],
    text_formats: list[float],
    weights: tuple[float, ...],
    lengths: tuple[int, ...],
    batch: int,
    seed: int,
) -> None:
    """Sources of 5 against 900 supervised tokens a row keep their shares in tokens."""
    folder = tmp_path_factory.mktemp("mix")
    for number, words in enumerate(lengths):
        write_rows(folder / f"{number}.jsonl", as_given(text_rows(7, words, choices=False)))
    names = ("short", "json", "long")
    spec, scenes = make_mix(
        sources=[
            {"name": "scenes", "modality": "vision", "path": "here:scenes.jsonl"},
            *(
                {"name": f"t{n}", "modality": "text", "path": f"{folder}/{n}.jsonl", "weight": w}
                for n, w in enumerate(weights)
            ),
        ],
        text_fraction=text_fraction,
        formats={
            "vision": dict(zip(names, formats, strict=True)),
            "text": dict(zip(names, text_formats, strict=True)),
        },
    )
    plan = plan_of((spec, scenes), steps=3, batch_supervised_tokens=batch, seed=seed)
    # A row counts whether it was taken or just left out: 900 tokens may round down to none.
    longest = max(13, max(lengths) + 1)
    for name, error in share_errors(plan, spec, scenes).items():
        assert abs(error) <= longest + 1e-6, (name, error, longest)
    sizes = np.add.reduceat(plan.columns["supervised"], plan.starts[:-1])
    assert (np.abs(sizes - plan.supervised_tokens / plan.steps) <= longest).all()


def as_given(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give rows of any length explicit renderings, so that they come in every format asked."""
    for row in rows:
        row["renderings"] = {
            fmt: {"question": f"{row['question']} {fmt}", "answer": row["answer"]}
            for fmt in ("short", "json", "long")
        }
    return rows


def test_ratios_that_interleaving_by_example_gets_wrong(tmp_path: Path) -> None:
    """0.6/0.2/0.2 over rows of 300/900/5 tokens: by example the shares come out .48/.52/.003."""
    for name, words in (("a", 299), ("b", 899), ("c", 4)):
        write_rows(tmp_path / f"{name}.jsonl", as_given(text_rows(50, words, choices=False)))
    spec = MixSpec.model_validate(
        {
            "name": "three",
            "text_fraction": 1.0,
            "sources": [
                {"name": n, "modality": "text", "path": f"{tmp_path}/{n}.jsonl", "weight": w}
                for n, w in (("a", 0.6), ("b", 0.2), ("c", 0.2))
            ],
        }
    )
    plan = plan_of((spec, load_sources(spec)), steps=10, batch_supervised_tokens=9_000)
    table, _ = plan.receipt()
    assert table["realised_share"].tolist() == pytest.approx(
        [0.6, 0.2, 0.2], abs=0.5 * 900 / 90_000
    )
    # Every step holds the mix, not only the whole: within one row of each source.
    for k in range(plan.steps):
        part = slice(plan.starts[k], plan.starts[k + 1])
        held = [
            plan.columns["supervised"][part][plan.columns["source"][part] == n].sum()
            for n in range(3)
        ]
        assert held == pytest.approx([5_400, 1_800, 1_800], abs=900)


def test_each_step_holds_its_tokens_and_the_mix(make_mix: Make) -> None:
    mix = make_mix(formats={"short": 0.5, "letter": 0.2, "json": 0.3})
    plan = plan_of(mix, steps=40)
    text = plan.modalities()
    for k in range(plan.steps):
        part = slice(plan.starts[k], plan.starts[k + 1])
        supervised = plan.columns["supervised"][part]
        assert supervised.sum() == pytest.approx(100, abs=5)
        assert supervised[text[part]].sum() == pytest.approx(25, abs=8)


def test_same_rows_in_each_pass_in_another_order(make_mix: Make) -> None:
    plan = plan_of(make_mix(vision=40, text_fraction=0.0))
    rows, turns = plan.columns["row"], plan.columns["turn"]
    orders = [rows[turns == turn].tolist() for turn in range(int(turns.max()))]
    assert len(orders) >= 3
    for order in orders:
        assert sorted(order) == list(range(40))
    assert len({tuple(order) for order in orders}) == len(orders)


def test_diverse_formats_see_as_many_distinct_rows_as_one_format(make_mix: Make) -> None:
    shares = {"short": 0.25, "letter": 0.25, "json": 0.25, "sentence": 0.25}
    plan = plan_of(make_mix(vision=40, text_fraction=0.0, formats=shares))
    first = plan.columns["turn"] == 0
    assert sorted(plan.columns["row"][first].tolist()) == list(range(40))


def test_seed_changes_order_and_nothing_else(make_mix: Make) -> None:
    mix = make_mix()
    one, two = plan_of(mix, seed=0), plan_of(mix, seed=1)
    assert one.digest != two.digest
    assert one.digest == plan_of(mix, seed=0).digest
    assert one.receipt()[1]["supervised_tokens"] == two.receipt()[1]["supervised_tokens"]


def test_a_new_source_changes_no_other_order(make_mix: Make, tmp_path: Path) -> None:
    spec, sources = make_mix()
    write_rows(tmp_path / "more.jsonl", text_rows(9))
    wider = MixSpec.model_validate(
        {
            **spec.model_dump(),
            "sources": [
                *spec.model_dump()["sources"],
                {"name": "more", "modality": "text", "path": f"{tmp_path}/more.jsonl"},
            ],
        }
    )
    before = plan_of((spec, sources))
    after = plan_of((wider, load_sources(wider, {"here": tmp_path})))
    scenes = [plan.columns["row"][plan.columns["source"] == 0].tolist() for plan in (before, after)]
    assert scenes[0] == scenes[1]


def test_digest_is_the_same_in_a_fresh_process(make_mix: Make, tmp_path: Path) -> None:
    mix = make_mix(formats={"short": 0.6, "letter": 0.4})
    (tmp_path / "spec.json").write_text(mix[0].model_dump_json())
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from tiny import TinyEncoder
from mixlab.mix import *
spec = MixSpec.model_validate_json(open("spec.json").read())
plan = make_plan(spec, load_sources(spec, {{"here": "."}}), TinyEncoder(),
                 steps=20, batch_supervised_tokens=100, seed=0)
print(plan.digest)
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == plan_of(mix).digest


def test_digest_follows_rows_images_wordings_and_tokenizer(make_mix: Make, tmp_path: Path) -> None:
    spec, sources = make_mix()
    digests = {plan_of((spec, sources)).digest}
    rows = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    rows[0]["question"] = "what is it ?"
    write_rows(tmp_path / "facts.jsonl", rows)
    digests.add(plan_of((spec, load_sources(spec, {"here": tmp_path}))).digest)
    image = tmp_path / "images/0.png"
    image.write_bytes((tmp_path / "images/1.png").read_bytes())
    digests.add(plan_of((spec, load_sources(spec, {"here": tmp_path}))).digest)
    other = TinyEncoder(digest="another")
    digests.add(plan_of((spec, load_sources(spec, {"here": tmp_path})), encoder=other).digest)
    assert len(digests) == 4


def test_saved_plan_comes_back_and_a_changed_one_is_refused(make_mix: Make, tmp_path: Path) -> None:
    plan = plan_of(make_mix())
    path = plan.save(tmp_path / "plan.npz")
    loaded = Plan.load(path)
    assert loaded.digest == plan.digest
    assert loaded.batch(3) == plan.batch(3)
    assert loaded.receipt()[1] == plan.receipt()[1]
    for column in plan.columns.values():
        assert column.dtype.byteorder in "<=|"
    with np.load(path) as saved:
        arrays = dict(saved)
    arrays["row"][0] += 1
    np.savez(tmp_path / "changed.npz", **arrays)
    with pytest.raises(MixlabError, match="file was changed"):
        Plan.load(tmp_path / "changed.npz")
    (tmp_path / "half.npz").write_bytes(path.read_bytes()[:-50])
    with pytest.raises(MixlabError, match="can't be read as a plan"):
        Plan.load(tmp_path / "half.npz")


def test_dilution_keeps_the_step_and_the_vision_tokens(make_mix: Make) -> None:
    spec, sources = make_mix(text_fraction=0.25)
    mixed = plan_of((spec, sources), steps=40)
    bare, scale = dilution(spec, 0.25)
    diluted = plan_of((bare, sources), steps=40, vision_scale=scale)
    assert scale == 0.75
    assert (mixed.steps, diluted.steps) == (40, 30)
    assert diluted.supervised_tokens == pytest.approx(3_000, abs=4)
    vision = mixed.columns["supervised"][~mixed.modalities()].sum()
    assert diluted.supervised_tokens == pytest.approx(vision, abs=4)
    assert not diluted.modalities().any()
    sizes = np.add.reduceat(diluted.columns["supervised"], diluted.starts[:-1])
    assert sizes == pytest.approx(100, abs=4)


def test_dilution_sees_the_very_vision_rows_of_its_arm(make_mix: Make) -> None:
    """The dilution arm is the mixed arm with its text rows taken out, formats included."""
    spec, sources = make_mix(text_fraction=0.25, formats={"short": 0.6, "json": 0.4})
    bare, scale = dilution(spec, 0.25)
    plans = [
        plan_of((spec, sources), steps=40),
        plan_of((bare, sources), steps=40, vision_scale=scale),
        plan_of((bare, sources), steps=30),
        plan_of((spec, sources), steps=30, budget="vision"),
    ]
    seen = []
    for plan in plans:
        vision = ~plan.modalities()
        lines = {n: plan.columns[n][vision].tolist() for n in ("turn", "row", "format")}
        seen.append(sorted(zip(*lines.values(), strict=True)))
    for other in seen[1:]:
        # Rounding may take or leave the last row of each format.
        assert len(set(seen[0]) ^ set(other)) <= 2


def test_budget_vision_adds_text_and_keeps_the_vision_tokens(make_mix: Make) -> None:
    plan = plan_of(make_mix(text_fraction=0.25), steps=30, budget="vision")
    assert plan.steps == 40
    text = plan.modalities()
    assert plan.columns["supervised"][~text].sum() == pytest.approx(3_000, abs=4)
    assert plan.columns["supervised"][text].sum() == pytest.approx(1_000, abs=4)


def test_text_twin_has_the_arms_steps_tokens_and_format_shares(make_mix: Make) -> None:
    spec, sources = make_mix(
        text_fraction=0.4,
        formats={"vision": {"short": 0.5, "json": 0.5}, "text": {"short": 0.25, "letter": 0.75}},
    )
    arm, twin = plan_of((spec, sources)), plan_of((text_twin(spec), sources))
    assert twin.modalities().all()
    assert twin.steps == arm.steps
    assert twin.supervised_tokens == pytest.approx(arm.supervised_tokens, abs=5)
    for code in range(len(FORMATS)):
        shares = [
            plan.columns["supervised"][plan.columns["format"] == code].sum()
            / plan.supervised_tokens
            for plan in (arm, twin)
        ]
        assert shares[0] == pytest.approx(shares[1], abs=5 / 2_000)
    assert text_twin(spec).formats.text == pytest.approx({"short": 0.4, "letter": 0.3, "json": 0.3})


def test_batches_do_not_depend_on_the_order_asked(make_mix: Make) -> None:
    mix = make_mix()
    plan = plan_of(mix)
    forward = [plan.batch(k) for k in range(plan.steps)]
    assert [plan.batch(k) for k in reversed(range(plan.steps))] == forward[::-1]
    assert sum(map(len, forward)) == len(plan)
    with pytest.raises(MixlabError, match="no step 20: the plan has 20 steps"):
        plan.batch(20)


@pytest.mark.parametrize(
    ("settings_", "kwargs", "message"),
    [
        ({"text_fraction": 0.5}, {"vision_scale": 0.5}, "would change the text fraction"),
        ({"text_fraction": 1.0}, {"budget": "vision"}, "leaves none"),
        ({}, {"budget": "images"}, "expected 'total' or 'vision'"),
        ({}, {"steps": 0}, "at least 1"),
        ({"text_fraction": 0.0}, {"vision_scale": 0.0}, "above 0"),
        ({}, {"batch_supervised_tokens": 1}, "are too small: the longest row has"),
        ({"formats": {"long": 0.5, "letter": 0.5}}, {"steps": 1, "batch_supervised_tokens": 6},
         None),
    ],
)  # fmt: skip
def test_impossible_requests(
    make_mix: Make, settings_: dict[str, Any], kwargs: dict[str, Any], message: str | None
) -> None:
    mix = make_mix(**settings_)
    if message is None:
        assert plan_of(mix, **kwargs).steps == 1
        return
    with pytest.raises(MixlabError, match=message):
        plan_of(mix, **kwargs)


def test_a_share_that_no_source_can_meet_names_what_they_offer(make_mix: Make) -> None:
    spec, sources = make_mix(formats={"short": 1.0})
    rows = [
        {"messages": [{"role": "user", "content": "a ?"}, {"role": "assistant", "content": "b"}],
         "format": "short"}
    ]  # fmt: skip
    write_rows(sources[1].folder / "facts.jsonl", rows)
    roots = {"here": sources[1].folder}
    assert plan_of((spec, load_sources(spec, roots))).steps == 20
    diverse = MixSpec.model_validate({**spec.model_dump(), "formats": {"short": 0.5, "json": 0.5}})
    with pytest.raises(MixlabError, match=r"no text source can give output format 'json'.*facts"):
        plan_of((diverse, load_sources(diverse, roots)))


def test_weights_that_the_formats_rule_out(make_mix: Make, tmp_path: Path) -> None:
    write_rows(
        tmp_path / "chat.jsonl",
        [{"messages": [{"role": "user", "content": "hi"},
                       {"role": "assistant", "content": "It is fine. I am well."}]}],
    )  # fmt: skip

    def sources(weight: float | None) -> dict[str, Any]:
        return {
            "sources": [
                {"name": "scenes", "modality": "vision", "path": "here:scenes.jsonl"},
                {"name": "facts", "modality": "text", "path": "here:facts.jsonl", "weight": weight},
                {"name": "chat", "modality": "text", "path": f"{tmp_path}/chat.jsonl"},
            ],
            "formats": {"vision": {"short": 1.0}, "text": {"short": 0.7, "long": 0.3}},
        }

    with pytest.raises(MixlabError, match=r"at once: facts offers .*; chat offers long"):
        plan_of(make_mix(**sources(1.0)))
    # Without weights the format shares decide, and the receipt says what was planned.
    table, _ = plan_of(make_mix(**sources(None))).receipt()
    asked = table.set_index(["source", "format"])["requested"]
    assert asked["chat", "long"] == pytest.approx(0.25 * 0.15)
    assert asked["facts", "short"] == pytest.approx(0.25 * 0.7)


def test_over_long_rows_are_an_error_or_a_counted_drop(make_mix: Make, tmp_path: Path) -> None:
    spec, _ = make_mix()
    rows = text_rows(20)
    rows[7]["question"] = "word " * 60
    rows[9]["question"] = "word " * 60
    write_rows(tmp_path / "facts.jsonl", rows)
    roots = {"here": tmp_path}
    with pytest.raises(
        MixlabError, match=r"source 'facts', row [79].*more than the context.*drops"
    ):
        plan_of((spec, load_sources(spec, roots)), encoder=TinyEncoder(max_length=40))
    allowing = MixSpec.model_validate({**spec.model_dump(), "drops": "allow"})
    plan = plan_of((allowing, load_sources(allowing, roots)), encoder=TinyEncoder(max_length=40))
    facts = plan.columns["row"][plan.columns["source"] == 1]
    assert set(facts.tolist()) == set(range(20)) - {7, 9}
    table, _ = plan.receipt()
    drops = table[table["dropped"] > 0]
    assert drops[["source", "format", "dropped", "reason"]].to_numpy().tolist() == [
        ["facts", "short", 2, "longer than the context"]
    ]
    with pytest.raises(MixlabError, match="no row is left for format"):
        plan_of((allowing, load_sources(allowing, roots)), encoder=TinyEncoder(max_length=6))


def test_lengths_are_counted_once_per_row_and_format(make_mix: Make) -> None:
    mix, encoder = make_mix(), TinyEncoder(digest="counted")
    plan_of(mix, encoder=encoder)
    first = encoder.calls
    assert 0 < first <= 70
    plan_of(mix, encoder=encoder, seed=3, steps=40)
    assert encoder.calls == 70
    # Another model of the same tokenizer has nothing left to count.
    again = TinyEncoder(digest="counted")
    plan_of(mix, encoder=again, seed=5)
    assert again.calls == 0
