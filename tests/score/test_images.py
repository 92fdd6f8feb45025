"""Images in prompts: features computed once, answers as the whole VLM gives them."""

from __future__ import annotations

from pathlib import Path

import torch

from mixlab.models import LoadedModel, extract_backbone
from mixlab.score import Scorer, Task
from mixlab.score._conditions import image_digest
from mixlab.score._decode import Request, generate
from mixlab.score._images import ImageFeatures


def test_equals_the_whole_models_generate(vlm: LoadedModel, vision_task: Task) -> None:
    backbone = extract_backbone(vlm.model)
    features = ImageFeatures(vlm, backbone, image_digest)
    requests, expected = [], []
    for item in vision_task.items:
        prompt = vlm.encoder.encode_prompt(item.question, item.image)
        requests.append(Request(prompt.input_ids, 6, item.image))
        ids = torch.tensor(prompt.input_ids[None].astype("int64"))
        out = vlm.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=torch.as_tensor(prompt.pixel_values)[None],
            max_new_tokens=6,
            do_sample=False,
            eos_token_id=[2],
            pad_token_id=0,
        )
        new = out[0, ids.shape[1] :].tolist()
        expected.append(new[: new.index(2)] if 2 in new else new)
    found = generate(backbone, requests, stop_ids=[2], pad_id=0, embed=features.embed)
    assert [list(answer.ids) for answer in found] == expected


def test_features_once_per_image(vlm: LoadedModel, vision_task: Task, monkeypatch) -> None:
    seen: list[int] = []
    original = type(vlm.model).get_image_features

    def counted(self, pixel_values, **kwargs):
        seen.append(len(pixel_values))
        return original(self, pixel_values=pixel_values, **kwargs)

    monkeypatch.setattr(type(vlm.model), "get_image_features", counted)
    scorer = Scorer(vlm, [vision_task], conditions=("image", "permuted", "none"))
    scorer.score()
    images = {item.image for item in vision_task.items}
    assert sum(seen) == len(images) == 6
    scorer.score()
    assert sum(seen) == 6


def test_a_changed_tower_is_seen(vlm: LoadedModel, vision_task: Task, tmp_path: Path) -> None:
    scorer = Scorer(vlm, [vision_task], ["strict"], cache=tmp_path / "cache")
    first = scorer.score()
    weight = vlm.model.model.multi_modal_projector.linear_1.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.mul_(-3)
        second = scorer.score()
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert (first.response != second.response).any()
    assert (first.weights != second.weights).all()
    assert scorer.score().equals(first)
