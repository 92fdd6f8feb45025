import torch
from safetensors.torch import save_file

from mixlab.checkpoint import digest_folder, digest_state, distinct_tensors


def test_order_does_not_matter_and_everything_else_does():
    a, b = torch.arange(6.0), torch.ones(2, 3)
    base = digest_state({"a": a, "b": b})
    assert digest_state({"b": b.clone(), "a": a.clone()}) == base
    changed = [
        {"a": a, "c": b},
        {"a": a, "b": b.reshape(3, 2)},
        {"a": a, "b": b.half()},
        {"a": a, "b": -b},
        {"a": a.reshape(2, 3), "b": b},
        {"a": a},
        {"a": b, "b": a},
    ]
    assert len({base, *map(digest_state, changed)}) == len(changed) + 1


def test_minus_zero_is_another_weight():
    assert digest_state({"a": torch.zeros(1)}) != digest_state({"a": -torch.zeros(1)})


def test_tied_tensors_count_once_under_the_embeddings_name():
    table = torch.ones(3, 2)
    tied = {"lm_head.weight": table, "model.embed_tokens.weight": table}
    assert list(distinct_tensors(tied)) == ["model.embed_tokens.weight"]
    assert digest_state(tied) == digest_state({"model.embed_tokens.weight": table})
    apart = {**tied, "lm_head.weight": table.clone()}
    assert digest_state(apart) != digest_state(tied)


def test_views_of_one_buffer_are_not_tied():
    buffer = torch.arange(4.0)
    views = {"a": buffer[:2], "b": buffer.reshape(2, 2), "c": torch.empty(0), "d": torch.empty(0)}
    assert len(distinct_tensors(views)) == 4


def test_layout_in_memory_and_shards_do_not_matter(tmp_path):
    x = torch.arange(6.0).reshape(2, 3)
    save_file({"x": x}, tmp_path / "model.safetensors")
    assert digest_folder(tmp_path) == digest_state({"x": x.T.contiguous().T})
