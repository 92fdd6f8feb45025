import numpy as np
import pytest
import torch
from PIL import Image
from tiny_pair import TEMPLATE, tiny_tokenizer

from mixlab.models import PromptEncoder, load_encoder
from mixlab.spec import MixlabError

RED = Image.new("RGB", (20, 24), (200, 10, 10))
TURNS = [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "red"}]


def learnt(encoder, example) -> str:
    return encoder.tokenizer.decode(example.input_ids[example.supervised])


def test_answer_and_stop_token_are_supervised_and_nothing_else(vlm):
    example = vlm.encoder.encode_example(TURNS, RED)
    text = vlm.encoder.tokenizer.decode(example.input_ids)
    assert text == "<bos><user>" + "<image>" * 4 + "what?<end><assistant>red<end>"
    assert learnt(vlm.encoder, example) == "red<end>"
    assert example.input_ids.dtype == np.int32
    assert (example.pixel_values.shape, example.pixel_values.dtype) == ((3, 16, 16), np.float32)


def test_a_prompt_is_the_beginning_of_its_example(vlm):
    for image in (None, RED):
        prompt = vlm.encoder.encode_prompt("what?", image)
        example = vlm.encoder.encode_example(TURNS, image)
        start = int(np.flatnonzero(example.supervised)[0])
        assert example.input_ids[:start].tolist() == prompt.input_ids.tolist()


def test_the_model_takes_the_prompt_with_and_without_image(vlm):
    for image in (None, RED):
        prompt = vlm.encoder.encode_prompt("what?", image)
        inputs = {"input_ids": torch.from_numpy(prompt.input_ids)[None].long()}
        if prompt.pixel_values is not None:
            inputs["pixel_values"] = torch.from_numpy(prompt.pixel_values)[None]
        assert torch.isfinite(vlm.model(**inputs).logits).all()


def test_text_rows_of_vlm_and_reference_are_the_same_ids(vlm, reference):
    a, b = (m.encoder.encode_example(TURNS) for m in (vlm, reference))
    assert a.input_ids.tolist() == b.input_ids.tolist()


def test_every_assistant_turn_is_learnt(reference):
    example = reference.encoder.encode_example([*TURNS, *TURNS])
    assert learnt(reference.encoder, example) == "red<end>red<end>"


BARE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def bos_adding_tokenizer(template: str):
    from tokenizers.processors import TemplateProcessing

    tokenizer = tiny_tokenizer(template)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "count"),
    [
        (tiny_tokenizer(TEMPLATE), 1),
        (bos_adding_tokenizer(TEMPLATE), 1),
        (bos_adding_tokenizer(BARE), 1),
        (tiny_tokenizer(BARE), 0),
    ],
)
def test_bos_stands_once_where_template_or_tokenizer_want_it(tokenizer, count):
    encoder = PromptEncoder(tokenizer)
    for ids in (encoder.encode_prompt("what?").input_ids, encoder.encode_example(TURNS).input_ids):
        assert ids.tolist().count(1) == count
        assert count == 0 or ids[0] == 1


def test_a_template_without_an_end_gets_the_eos_token():
    encoder = PromptEncoder(tiny_tokenizer(BARE))
    assert learnt(encoder, encoder.encode_example(TURNS)) == " red<end>"


def test_a_template_of_parts_takes_plain_text_and_images(folders, tmp_path):
    import shutil

    folder = shutil.copytree(folders[1], tmp_path / "parts")
    parts = TEMPLATE.replace(
        "{% if m['content'] is string %}{{ m['content'] }}{% else %}", "{% if true %}"
    )
    assert parts != TEMPLATE
    (folder / "chat_template.jinja").write_text(parts)
    encoder, plain = load_encoder(folder), load_encoder(folders[1])
    for image in (None, RED):
        expected = plain.encode_example(TURNS, image).input_ids.tolist()
        assert encoder.encode_example(TURNS, image).input_ids.tolist() == expected


def test_a_template_of_strings_gets_the_image_token_before_the_text(folders, tmp_path):
    import shutil

    folder = shutil.copytree(folders[1], tmp_path / "strings")
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}<user>{{ m['content'] }}<end>{% endfor %}"
    )
    encoder = load_encoder(folder)
    ids = encoder.encode_prompt("what?", RED).input_ids
    assert encoder.tokenizer.decode(ids) == "<user>" + "<image>" * 4 + "\nwhat?<end>"


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([{"role": "user", "content": "hi"}], "no supervised token: it has no assistant turn"),
        ([TURNS[0], {"role": "assistant", "content": " "}], "an assistant turn is empty"),
        ([{"role": "user", "content": "x" * 200}, TURNS[1]], "more than the context of 128"),
        ([{"role": "user", "content": "<image>"}, TURNS[1]], "take the token out"),
    ],
)
def test_bad_rows_are_named(vlm, messages, message):
    with pytest.raises(MixlabError, match=message):
        vlm.encoder.encode_example(messages)


def test_decode_stops_and_strips(reference):
    encoder = reference.encoder
    ids = encoder.tokenizer(" red <end>blue", add_special_tokens=False).input_ids
    assert encoder.decode(ids) == "red"
    assert encoder.stop_ids == (2,)


def test_a_reference_refuses_images(reference):
    with pytest.raises(MixlabError, match="takes text only"):
        reference.encoder.encode_prompt("what?", RED)


def test_digest_follows_the_files_and_not_the_path(folders, tmp_path):
    import shutil

    copy = shutil.copytree(folders[1], tmp_path / "copy")
    assert load_encoder(copy).digest == load_encoder(folders[1]).digest
    (copy / "chat_template.jinja").write_text(TEMPLATE + " ")
    assert load_encoder(copy).digest != load_encoder(folders[1]).digest
