"""The mix over a real encoder and the testbed's own rows."""

from pathlib import Path

import pytest
import torch

from mixlab.mix import MixSpec, Source, collate, describe, load_sources, make_plan, text_twin
from mixlab.models import PromptEncoder, load_encoder
from mixlab.spec import parse
from mixlab.testbed import TestbedFolder

MIX = Path(__file__).parents[2] / "data_mixes/testbed.yaml"
DIVERSE = {"short": 0.25, "letter": 0.25, "sentence": 0.25, "json": 0.25}


@pytest.fixture(scope="module")
def mix(micro_testbed: TestbedFolder) -> tuple[MixSpec, list[Source], PromptEncoder]:
    spec = parse(MixSpec, MIX)
    spec = MixSpec.model_validate({**spec.model_dump(), "text_fraction": 0.25, "formats": DIVERSE})
    sources = load_sources(spec, {"testbed": Path(micro_testbed.path)})
    return spec, sources, load_encoder(micro_testbed.vlm)


def test_shares_and_batches(mix: tuple[MixSpec, list[Source], PromptEncoder]) -> None:
    spec, sources, encoder = mix
    plan = make_plan(spec, sources, encoder, steps=6, batch_supervised_tokens=256, seed=0)
    table, totals = plan.receipt()
    longest = int(plan.columns["supervised"].max())
    slack = longest / plan.supervised_tokens
    assert totals["realised_text_supervised"] == pytest.approx(0.25, abs=slack)
    for _, part in table.groupby(["modality", "format"]):
        within = table.loc[table["modality"] == part["modality"].iloc[0], "realised_supervised"]
        assert part["realised_supervised"].sum() / within.sum() == pytest.approx(
            0.25, abs=longest / within.sum()
        )
    for k in range(plan.steps):
        batch = collate(plan, k, sources, encoder)
        supervised = batch["labels"] != -100
        assert int(supervised.sum()) == pytest.approx(256, abs=longest)
        # Each row ends in a supervised stop token, and nothing of prompt or image is supervised.
        for line, entry in enumerate(plan.batch(k)):
            answer = sources[entry.source].messages(entry.row, entry.format)[-1]["content"]
            ids = batch["labels"][line][supervised[line]].tolist()
            assert ids[-1] in encoder.stop_ids
            assert encoder.decode(ids) == answer
        images = int((batch["input_ids"] == encoder.image_token_id).any(dim=1).sum())
        assert images == len(batch["pixel_values"])


def test_each_row_keeps_its_own_image(mix: tuple[MixSpec, list[Source], PromptEncoder]) -> None:
    spec, sources, encoder = mix
    plan = make_plan(spec, sources, encoder, steps=2, batch_supervised_tokens=200, seed=1)
    pixels = iter(collate(plan, 1, sources, encoder)["pixel_values"])
    for entry in plan.batch(1):
        image = sources[entry.source].image(entry.row)
        if image is not None:
            expected = encoder.encode_prompt("which ?", image).pixel_values
            assert torch.equal(next(pixels), torch.from_numpy(expected))


def test_text_twin_of_the_testbeds_mix(
    mix: tuple[MixSpec, list[Source], PromptEncoder],
) -> None:
    spec, sources, encoder = mix
    plan = make_plan(
        text_twin(spec), sources, encoder, steps=6, batch_supervised_tokens=256, seed=0
    )
    assert plan.modalities().all()
    assert "pixel_values" not in collate(plan, 0, sources, encoder)
    assert plan.digest in describe(plan, sources)
