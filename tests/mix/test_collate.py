from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mixlab.mix import MixSpec, Source, _encoding, collate, describe, load_sources, make_plan
from mixlab.spec import MixlabError

from .tiny import TinyEncoder, write_image

Make = Callable[..., tuple[MixSpec, list[Source]]]


def test_batches_are_the_rows_padded_on_the_right(make_mix: Make) -> None:
    spec, sources = make_mix(formats={"short": 0.5, "json": 0.5})
    encoder = TinyEncoder()
    plan = make_plan(spec, sources, encoder, steps=5, batch_supervised_tokens=60, seed=0)
    for k in range(plan.steps):
        batch = collate(plan, k, sources, encoder)
        images = 0
        for line, entry in enumerate(plan.batch(k)):
            source = sources[entry.source]
            made = encoder.encode_example(
                source.messages(entry.row, entry.format), source.image(entry.row)
            )
            size = len(made.input_ids)
            assert batch["input_ids"][line, :size].tolist() == made.input_ids.tolist()
            assert (batch["input_ids"][line, size:] == encoder.pad_id).all()
            assert batch["attention_mask"][line].tolist() == [1] * size + [0] * (
                batch["input_ids"].shape[1] - size
            )
            expected = np.where(made.supervised, made.input_ids, -100)
            assert batch["labels"][line, :size].tolist() == expected.tolist()
            assert (batch["labels"][line, size:] == -100).all()
            if made.pixel_values is not None:
                assert (batch["pixel_values"][images].numpy() == made.pixel_values).all()
                images += 1
        assert images == len(batch["pixel_values"])
        assert int((batch["labels"] != -100).sum()) == int(
            plan.columns["supervised"][plan.starts[k] : plan.starts[k + 1]].sum()
        )
        assert {t.dtype for n, t in batch.items() if n != "pixel_values"} == {torch.int64}
        assert batch["pixel_values"].dtype == torch.float32


def test_pure_whatever_was_asked_before(make_mix: Make, tmp_path: Path) -> None:
    spec, sources = make_mix()
    plan = make_plan(spec, sources, TinyEncoder(), steps=5, batch_supervised_tokens=60, seed=0)
    warm = TinyEncoder()
    for k in (4, 0, 2, 2, 1):
        one = collate(plan, k, sources, warm)
        _encoding._IDS.clear()
        fresh = collate(plan, k, load_sources(spec, {"here": tmp_path}), TinyEncoder())
        assert one.keys() == fresh.keys()
        assert all(torch.equal(one[name], fresh[name]) for name in one)


def test_text_only_batches_have_no_pixels(make_mix: Make) -> None:
    spec, sources = make_mix(text_fraction=1.0)
    encoder = TinyEncoder()
    plan = make_plan(spec, sources, encoder, steps=2, batch_supervised_tokens=40, seed=0)
    assert "pixel_values" not in collate(plan, 0, sources, encoder)


def test_other_sources_or_another_tokenizer_are_refused(make_mix: Make, tmp_path: Path) -> None:
    spec, sources = make_mix()
    plan = make_plan(spec, sources, TinyEncoder(), steps=2, batch_supervised_tokens=40, seed=0)
    write_image(tmp_path / "images/3.png", 200)
    with pytest.raises(MixlabError, match=r"sources \['scenes'\] are not the ones"):
        collate(plan, 0, load_sources(spec, {"here": tmp_path}), TinyEncoder())
    other = TinyEncoder(digest="other")
    with pytest.raises(MixlabError, match="another tokenizer"):
        collate(plan, 0, sources, other)


def test_images_of_different_shapes_are_named(make_mix: Make, tmp_path: Path) -> None:
    from PIL import Image

    spec, _ = make_mix(text_fraction=0.0)
    Image.new("RGB", (6, 4)).save(tmp_path / "images/3.png")
    sources, encoder = load_sources(spec, {"here": tmp_path}), TinyEncoder()
    plan = make_plan(spec, sources, encoder, steps=1, batch_supervised_tokens=80, seed=0)
    with pytest.raises(MixlabError, match="images of different shapes"):
        collate(plan, 0, sources, encoder)


def test_encoder_trouble_names_the_row(make_mix: Make, tmp_path: Path) -> None:
    class Silent(TinyEncoder):
        def encode_example(self, messages: list[dict[str, Any]], image: Any = None) -> Any:
            made = super().encode_example(messages, image)
            made.supervised[:] = False
            return made

    spec, sources = make_mix()
    with pytest.raises(MixlabError, match=r"source 'scenes', row \d+ .*no supervised token"):
        make_plan(
            spec, sources, Silent(digest="silent"), steps=1, batch_supervised_tokens=80, seed=0
        )


def test_describe_shows_what_was_asked_and_got(make_mix: Make) -> None:
    spec, sources = make_mix(formats={"short": 0.5, "letter": 0.5})
    plan = make_plan(spec, sources, TinyEncoder(), steps=10, batch_supervised_tokens=80, seed=0)
    page = describe(plan, sources)
    assert plan.digest in page
    assert "Text: asked 25.0% of supervised tokens" in page
    assert page.count("\n- ") == 4
    assert "assistant: " in page
    for line in page.splitlines():
        assert line == line.rstrip()
