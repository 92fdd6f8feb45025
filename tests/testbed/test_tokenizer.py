import pytest

from mixlab.models import PromptEncoder
from mixlab.testbed.batches import code
from mixlab.testbed.settings import SIZES
from mixlab.testbed.tokenizer import UNKNOWN, make_tokenizer, words_of
from mixlab.testbed.world import World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(SIZES["micro"].world, seed=0)


def _texts(world: World) -> list[str]:
    texts = [t for pair in world.curriculum().lessons(3000, 1) for t in pair]
    texts += [t for items in world.items.values() for i in items for t in (i.question, i.expected)]
    for rows in world.rows.values():
        for row in rows:
            texts += [t for r in row["renderings"].values() for t in r.values()]
            texts += [row["scene"]] if "scene" in row else []
    return texts


def test_decoding_gives_every_text_back(world: World) -> None:
    tokenizer = make_tokenizer(world.vocabulary(), 192)
    texts = _texts(world)
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    unknown = tokenizer.convert_tokens_to_ids(UNKNOWN)
    assert not any(unknown in row for row in ids)
    assert tokenizer.batch_decode(ids) == texts
    assert max(map(len, ids)) < 100


def test_lessons_are_coded_as_the_chat_template_gives_them(world: World) -> None:
    tokenizer = make_tokenizer(world.vocabulary(), 192)
    encoder = PromptEncoder(tokenizer)
    pairs = list(world.curriculum().lessons(50, 2))
    for (question, answer), coded in zip(pairs, code(tokenizer, pairs), strict=True):
        example = encoder.encode_example(
            [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        )
        assert example.input_ids.tolist() == coded.ids.tolist()
        assert example.supervised.tolist() == [i >= coded.prompt for i in range(len(coded.ids))]


def test_words_of_keeps_json_ends_and_digits_apart() -> None:
    assert words_of(['{"answer": "12"}']) == sorted(['{"answer": "', "1", "2", '"}'])
