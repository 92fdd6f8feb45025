"""Image features of a VLM, computed once per image and put into a prompt's embeddings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from mixlab.checkpoint import digest_state
from mixlab.spec import MixlabError

_BATCH = 64
_KEEP_BYTES = 256 * 2**20


class ImageFeatures:
    """Projected features of images, kept while tower and projector stay as they are.

    A merge of the backbone leaves tower and projector alone, so one computation serves a whole
    path. `digest_of` tells images apart by content.
    """

    def __init__(self, loaded: Any, backbone: Any, digest_of: Callable[[Path], str]) -> None:
        self._loaded = loaded
        self._table = backbone.get_input_embeddings()
        self._digest_of = digest_of
        self._kept: OrderedDict[str, torch.Tensor] = OrderedDict()
        self._bytes = 0
        self._tower = ""

    def refresh(self) -> None:
        """Drop features if any weight outside the backbone has changed."""
        model = self._loaded.model
        inside = {tensor.data_ptr() for tensor in self._loaded.backbone_state().values()}
        tower = digest_state(
            {
                name: tensor
                for name, tensor in model.state_dict().items()
                if tensor.data_ptr() not in inside
            }
        )
        if tower != self._tower:
            self._kept.clear()
            self._bytes = 0
            self._tower = tower

    def embed(self, ids: torch.Tensor, images: Sequence[Path | None]) -> torch.Tensor:
        """Embeddings [rows, tokens, width] of `ids`, image tokens replaced by image features."""
        embeds = self._table(ids)
        features = self._features([image for image in images if image is not None])
        token = self._loaded.encoder.image_token_id
        for row, image in enumerate(images):
            if image is None:
                continue
            places = (ids[row] == token).nonzero().flatten()
            found = features[self._digest_of(image)]
            if len(places) != len(found):
                raise MixlabError(
                    f"{image}: the model gives {len(found)} image features for {len(places)} "
                    "image tokens in the prompt; processor and model do not fit"
                )
            embeds[row, places] = found.to(embeds.dtype)
        return embeds

    def _features(self, images: Sequence[Path]) -> dict[str, torch.Tensor]:
        wanted = {self._digest_of(image): image for image in images}
        result = {key: self._kept[key] for key in wanted if key in self._kept}
        absent = [key for key in wanted if key not in result]
        model = self._loaded.model
        for begin in range(0, len(absent), _BATCH):
            keys = absent[begin : begin + _BATCH]
            pixels = [self._loaded.encoder.images.read(wanted[key]) for key in keys]
            tensor = torch.stack([torch.as_tensor(array) for array in pixels])
            out = model.get_image_features(
                pixel_values=tensor.to(model.device, model.dtype), return_dict=True
            )
            out = getattr(out, "pooler_output", out)
            for key, features in zip(keys, out, strict=True):
                result[key] = features
                self._keep(key, features)
        return result

    def _keep(self, key: str, features: torch.Tensor) -> None:
        self._kept[key] = features.clone()
        self._bytes += features.numel() * features.element_size()
        while self._bytes > _KEEP_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= dropped.numel() * dropped.element_size()
