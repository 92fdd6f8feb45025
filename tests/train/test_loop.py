import math

import pytest
import torch
from tiny_batch import IMAGE, toy_batch
from torch.nn.functional import cross_entropy

from mixlab.checkpoint import digest_state
from mixlab.models import load_model
from mixlab.spec import MixlabError
from mixlab.train import ArmSettings, Diverged, choose_trainable, fit
from mixlab.train._chunks import chunks
from mixlab.train._loss import TokenLosses


def settings(**changes: object) -> ArmSettings:
    return ArmSettings(**{"steps": 6, "learning_rate": 1e-2, "checkpoint_every": 2, **changes})


def plain_loss(model, batch) -> torch.Tensor:
    """The textbook way: padded batch with its mask, logits everywhere, mean over labels."""
    out = model(
        input_ids=batch["input_ids"].long(),
        attention_mask=batch["attention_mask"],
        pixel_values=batch["pixel_values"],
    )
    labels = batch["labels"][:, 1:].long().flatten()
    return cross_entropy(out.logits[:, :-1].flatten(0, 1), labels, ignore_index=-100)


@pytest.mark.parametrize("max_rows", [None, 2, 3])
def test_loss_and_gradient_equal_the_whole_batch(pair, max_rows):
    model = load_model(pair[1]).model
    batch = toy_batch(0)
    expected = plain_loss(model, batch)
    expected.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    tokens = int((batch["labels"][:, 1:] != -100).sum())
    total, pieces = 0.0, 0
    for chunk in chunks(batch, image_token_id=IMAGE, max_rows=max_rows):
        assert max_rows is None or len(chunk.input_ids) <= max_rows
        loss = TokenLosses(model)(model, chunk) / tokens
        loss.backward()
        total += float(loss.detach())
        pieces += 1
    assert max_rows is None or pieces >= math.ceil(8 / max_rows)
    assert total == pytest.approx(float(expected.detach()), rel=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            model.get_parameter(name).grad, gradient, rtol=1e-4, atol=1e-6, msg=name
        )


def test_chunks_cover_every_row_once_and_cut_what_no_token_needs():
    batch = toy_batch(1)
    batch["labels"][0] = -100
    batch["labels"][0, 3] = batch["input_ids"][0, 3]
    found = list(chunks(batch, image_token_id=IMAGE, max_rows=3))
    assert sum(len(c.input_ids) for c in found) == 8
    assert sum(len(c.targets) for c in found) == int((batch["labels"][:, 1:] != -100).sum())
    assert found[-1].input_ids.shape[1] >= 3
    short = next(
        c
        for c in found
        if any(torch.equal(r[:3], batch["input_ids"][0, :3].long()) for r in c.input_ids)
    )
    assert short is found[-1]


def test_two_runs_end_in_the_same_bytes(pair, tmp_path):
    ends = []
    for name in "ab":
        model = load_model(pair[1]).model
        fit(model, toy_batch, settings(), tmp_path / name, steps=6, seed=3)
        ends.append(digest_state(model.state_dict()))
    assert ends[0] == ends[1]


def test_the_vision_tower_stays_and_the_rest_moves(pair, tmp_path):
    before = {n: t.clone() for n, t in load_model(pair[1]).model.state_dict().items()}
    model = load_model(pair[1]).model
    curve = fit(model, toy_batch, settings(), tmp_path, steps=6, seed=0)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == ("vision_tower" in name), name
    assert [row["step"] for row in curve] == [1, 2, 3, 4, 5, 6]
    assert curve[0]["supervised_tokens"] == int((toy_batch(0)["labels"][:, 1:] != -100).sum())
    assert not model.training


def test_patterns_choose_parameters_and_a_miss_is_an_error(pair):
    model = load_model(pair[1]).model
    chosen = choose_trainable(model, ["*layers.1.mlp*"])
    assert len(chosen) == 3
    assert sum(p.requires_grad for p in model.parameters()) == 3
    with pytest.raises(MixlabError, match=r"'\*layers\.9\*' matches no parameter.*vision_tower"):
        choose_trainable(model, ["language_model", "*layers.9*"])
    with pytest.raises(MixlabError, match="'projector' matches no parameter of LlamaForCausalLM"):
        choose_trainable(load_model(pair[0]).model, ["language_model", "projector"])


def test_a_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(pair, tmp_path):
    model = load_model(pair[1]).model

    def batch(step: int) -> dict[str, torch.Tensor]:
        made = toy_batch(step)
        if step == 5:
            made["pixel_values"][0, 0, 0, 0] = math.nan
        return made

    with pytest.raises(Diverged, match=r"step 6: the loss is nan.*checkpoint is .*step-0{7}4"):
        fit(model, batch, settings(), tmp_path, steps=8, seed=0)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000004"]


def test_a_full_disk_keeps_and_names_the_last_good_checkpoint(pair, tmp_path, monkeypatch):
    import safetensors.torch

    real, calls = safetensors.torch.save_file, []

    def save_file(tensors, path):
        calls.append(path)
        if len(calls) == 2:
            raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")
        real(tensors, path)

    monkeypatch.setattr(safetensors.torch, "save_file", save_file)
    model = load_model(pair[1]).model
    with pytest.raises(MixlabError, match=r"disk is full.*last good checkpoint is .*step-0{7}2"):
        fit(model, toy_batch, settings(), tmp_path, steps=6, seed=0)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]


def test_schedules():
    warm = settings(warmup=0.2)
    assert [warm.rate(k, 10) / 1e-2 for k in range(3)] == pytest.approx([0.5, 1, 1])
    assert warm.rate(6, 10) == pytest.approx(0.5e-2)
    assert settings(warmup=0, schedule="constant").rate(9, 10) == 1e-2


def test_bf16_autocast_keeps_float32_weights(pair, tmp_path):
    model = load_model(pair[1]).model
    fit(model, toy_batch, settings(precision="bf16"), tmp_path / "a", steps=2, seed=0)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    other = load_model(pair[1]).model
    fit(other, toy_batch, settings(), tmp_path / "b", steps=2, seed=0)
    assert digest_state(model.state_dict()) != digest_state(other.state_dict())


def test_images_and_image_rows_must_agree():
    batch = toy_batch(0)
    batch["pixel_values"] = batch["pixel_values"][:-1]
    with pytest.raises(MixlabError, match="4 rows hold image tokens, but the batch has 3 images"):
        list(chunks(batch, image_token_id=IMAGE, max_rows=None))
