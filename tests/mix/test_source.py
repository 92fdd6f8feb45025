from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixlab.mix import MixSpec, Source, load_sources
from mixlab.spec import MixlabError

from .tiny import text_rows, write_image, write_rows


def one(path: Path | str, modality: str = "text", **more: Any) -> MixSpec:
    return MixSpec.model_validate(
        {
            "name": "one",
            "text_fraction": 1.0 if modality == "text" else 0.0,
            "sources": [{"name": "src", "modality": modality, "path": str(path), **more}],
        }
    )


def load_rows(tmp_path: Path, rows: list[Any], modality: str = "text") -> Source:
    return load_sources(one(write_rows(tmp_path / "rows.jsonl", rows), modality))[0]


GOOD = {"question": "q ?", "answer": "a"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "is a list; expected an object"),
        ({"question": "q"}, "has no 'answer'"),
        ({**GOOD, "answer": " "}, "no supervised token"),
        ({**GOOD, "question": ""}, "empty question"),
        ({**GOOD, "answer": 7}, "'answer' is 7 (int); expected text"),
        ({**GOOD, "question": ["q"]}, "'question' is ['q'] (list); expected text"),
        ({**GOOD, "choices": ["a", 2]}, "expected a list of texts"),
        ({**GOOD, "renderings": {"jsn": {}}}, "unknown output format 'jsn'; did you mean 'json'"),
        ({**GOOD, "renderings": {"json": {"question": "q"}}}, "needs a question and an answer"),
        ({**GOOD, "image": "x.png"}, "the source's modality is text"),
        ({"messages": "hi"}, "no list of objects"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "messages[0] has role 'bot'"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0] has content"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no assistant turn"),
        (
            {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]},
            "an assistant turn is empty",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]},
            "nobody answers",
        ),
    ],
)
def test_bad_rows_name_source_index_and_line(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(MixlabError) as raised:
        load_rows(tmp_path, [GOOD, row, GOOD])
    assert message in str(raised.value)
    assert "source 'src', row 1" in str(raised.value)
    assert "rows.jsonl:2" in str(raised.value)


def test_every_bad_row_is_counted_and_the_first_are_shown(tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match="and 3 more rows") as raised:
        load_rows(tmp_path, [{"question": "q"}] * 8)
    assert str(raised.value).count("\n") == 5


def test_text_source_in_a_vision_mix(tmp_path: Path) -> None:
    with pytest.raises(
        MixlabError, match=r"row 0 .*has no image, but the source's modality is vis"
    ):
        load_rows(tmp_path, [GOOD], "vision")


def test_missing_truncated_and_false_images(tmp_path: Path) -> None:
    write_image(tmp_path / "good.png")
    whole = write_image(tmp_path / "half.png").read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) - 20])
    (tmp_path / "false.png").write_text("no image")
    names = ["good", "gone", "half", "false"]
    with pytest.raises(MixlabError) as raised:
        load_rows(tmp_path, [{**GOOD, "image": f"{name}.png"} for name in names], "vision")
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    assert "row 1 " in lines[0]
    assert "gone.png is missing" in lines[0]
    assert "half.png is truncated" in lines[1]
    assert "false.png is truncated or no image" in lines[2]


def test_empty_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match="source 'src' is empty"):
        load_rows(tmp_path, [])
    with pytest.raises(MixlabError, match=r"source 'src': no such file: .*gone.jsonl"):
        load_sources(one(tmp_path / "gone.jsonl"))
    (tmp_path / "bad.jsonl").write_text('{"question": "q", "answer": "a"}\n\n{"question"\n')
    with pytest.raises(MixlabError, match=r"row 1 .*bad.jsonl:3\): is not valid JSON"):
        load_sources(one(tmp_path / "bad.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "\xe9"}\n')
    with pytest.raises(MixlabError, match="UTF-8"):
        load_sources(one(tmp_path / "latin.jsonl"))


def test_paths_by_prefix_and_by_folder(tmp_path: Path) -> None:
    write_rows(tmp_path / "data/rows.jsonl", text_rows(2))
    assert len(load_sources(one("bed:data/rows.jsonl"), {"bed": tmp_path})[0].rows) == 2
    assert len(load_sources(one("data/rows.jsonl"), folders=[tmp_path])[0].rows) == 2
    with pytest.raises(MixlabError, match=r"unknown prefix 'beed' .*known: bed"):
        load_sources(one("beed:rows.jsonl"), {"bed": tmp_path})


def test_rows_offer_what_they_can_be_rendered_to(tmp_path: Path) -> None:
    source = load_rows(
        tmp_path,
        [
            {**GOOD, "choices": ["a", "b"]},
            GOOD,
            {**GOOD, "renderings": {"letter": {"question": "a or b ?", "answer": "a"}}},
            {
                "messages": [
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "content": "{}"},
                ]
            },
            {"question": "why ?", "answer": "It is so. It was so."},
        ],
    )
    assert "letter" in source.formats[0]
    assert "letter" not in source.formats[1]
    assert source.messages(2, "letter")[1] == {"role": "assistant", "content": "a"}
    assert source.formats[3] == ("json",)
    assert source.formats[4] == ("long", "json")
    with pytest.raises(MixlabError, match=r"row 1 \(id '1'\): can't be given as 'letter'"):
        source.messages(1, "letter")


def test_message_rows_pass_through_with_their_format(tmp_path: Path) -> None:
    turns = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Bye"},
        {"role": "assistant", "content": "Bye now."},
    ]
    source = load_rows(tmp_path, [{"messages": turns, "format": "sentence"}])
    assert source.messages(0, "sentence") == turns


def test_phrasebook_of_a_source(tmp_path: Path, make_mix: Callable[..., Any]) -> None:
    (tmp_path / "book.yaml").write_text(
        "name: tiny\ninstructions: {short: [say it .]}\nanswers: {short: ['{answer}']}\n"
    )
    write_rows(tmp_path / "rows.jsonl", text_rows(1))
    spec = one(tmp_path / "rows.jsonl", phrasebook=str(tmp_path / "book.yaml"))
    source = load_sources(spec)[0]
    assert source.offered == ("short",)
    assert source.messages(0, "short")[0]["content"] == "what is 0 ? say it ."
