"""Images to pixel values, and the number of tokens that one image takes."""

from __future__ import annotations

import json
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from PIL import Image
    from transformers import PretrainedConfig, PreTrainedModel

    ImageInput = str | Path | Image.Image
else:
    ImageInput = Any

# Towers that put a class token before the patches (their modeling files in transformers).
_CLASS_TOKEN = {"clip_vision_model": 1, "dinov2": 1, "ijepa": 0, "siglip_vision_model": 0}
_CACHE_BYTES = 128 * 2**20


class ImageReader:
    """Pixel values float32 [C, H, W] by the folder's own image processor, without torchvision.

    Serves models that give a fixed number of tokens per image of one size (Llava type). Others are
    refused at their first image; their text-only rows work.
    """

    def __init__(self, folder: Path, config: PretrainedConfig) -> None:
        self._folder = folder
        self._config = config
        self._processor: Any = None
        self._cache: OrderedDict[tuple[str, int, int], np.ndarray] = OrderedDict()
        self._cached = 0
        self._model: weakref.ref[PreTrainedModel] | None = None
        self._counts: dict[tuple[int, ...], int] = {}
        self.token_id: int | None = getattr(config, "image_token_id", None)

    def watch(self, model: PreTrainedModel) -> None:
        """Check token counts against this model's features, once per image size."""
        self._model = weakref.ref(model)

    def settings(self) -> list[Any]:
        """What decides pixels and token counts: the processor's files and the vision config."""
        vision = self._config.vision_config
        strategy = getattr(self._config, "vision_feature_select_strategy", None)
        facts = [vision.model_type, getattr(vision, "patch_size", None), strategy]
        return [self._file("preprocessor_config.json"), self._saved(), facts]

    def read(self, image: ImageInput) -> np.ndarray:
        """Pixel values float32 [C, H, W] of a path or a PIL image.

        Raises:
            MixlabError: the file is missing, truncated or no image, or no processor can be made.
        """
        from PIL import Image

        if isinstance(image, Image.Image):
            return self._pixels(image, "the image")
        path = Path(image)
        try:
            about = path.stat()
        except OSError as error:
            raise MixlabError(f"{path}: the image is missing or unreadable") from error
        key = (str(path), about.st_mtime_ns, about.st_size)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        try:
            with Image.open(path) as opened:
                opened.load()
                pixels = self._pixels(opened, str(path))
        except OSError as error:
            raise MixlabError(f"{path}: truncated or not an image ({error})") from error
        self._cache[key] = pixels
        self._cached += pixels.nbytes
        while self._cached > _CACHE_BYTES:
            self._cached -= self._cache.popitem(last=False)[1].nbytes
        return pixels

    def count(self, pixels: np.ndarray) -> int:
        """Number of tokens that the model puts in the place of one image of this shape.

        Patches of the vision tower, plus its class token, less the first token if the model's
        feature strategy is `default` (transformers' LlavaProcessor counts the same).

        Raises:
            MixlabError: the model in memory gives another number.
        """
        if pixels.shape in self._counts:
            return self._counts[pixels.shape]
        count = self._formula(pixels.shape)
        model = self._model() if self._model is not None else None
        if model is not None:
            found = self._measure(model, pixels)
            if found != count:
                raise MixlabError(
                    f"{self._folder}: by its config an image of {pixels.shape[1:]} takes {count} "
                    f"tokens, but the model gives {found} features; correct patch_size or "
                    "vision_feature_select_strategy in config.json and processor_config.json"
                )
            self._counts[pixels.shape] = count
        return count

    def _formula(self, shape: tuple[int, ...]) -> int:
        vision = self._config.vision_config
        extra = self._saved().get("num_additional_image_tokens")
        if extra is None:
            extra = _CLASS_TOKEN.get(vision.model_type, 0)
        patches = (shape[1] // vision.patch_size) * (shape[2] // vision.patch_size)
        cut = getattr(self._config, "vision_feature_select_strategy", "full") == "default"
        return patches + extra - int(cut)

    def _measure(self, model: PreTrainedModel, pixels: np.ndarray) -> int:
        import torch

        values = torch.from_numpy(pixels)[None].to(model.device, model.dtype)
        read: Any = model.get_image_features
        with torch.no_grad():
            features = read(pixel_values=values, return_dict=True)
        return sum(len(f) for f in features.pooler_output)

    def _pixels(self, image: Image.Image, where: str) -> np.ndarray:
        processor = self._load()
        try:
            made = processor(images=image.convert("RGB"), return_tensors="np")["pixel_values"]
        except (ValueError, TypeError, OSError) as error:
            raise MixlabError(f"{where}: the image processor refused it: {error}") from error
        made = np.asarray(made, dtype=np.float32)
        if made.ndim != 4 or len(made) != 1:
            raise MixlabError(
                f"{self._folder}: its image processor gives pixel values of shape "
                f"{list(made.shape)}; only one [C, H, W] block per image is supported "
                "(Llava type). Text-only rows work"
            )
        return np.ascontiguousarray(made[0])

    def _saved(self) -> dict[str, Any]:
        return self._file("processor_config.json")

    def _file(self, name: str) -> dict[str, Any]:
        path = self._folder / name
        return json.loads(path.read_text()) if path.is_file() else {}

    def _load(self) -> Any:
        if self._processor is not None:
            return self._processor
        if self._config.model_type != "llava":
            raise MixlabError(
                f"{self._folder}: images of {self._config.model_type!r} models are not supported "
                "yet, only those of Llava type; text-only rows work"
            )
        if self.token_id is None:
            raise MixlabError(f"{self._folder}/config.json names no image token (image_token_id)")
        from transformers import AutoImageProcessor

        try:
            self._processor = AutoImageProcessor.from_pretrained(self._folder, backend="pil")
        except (ValueError, OSError, ImportError, KeyError, TypeError) as error:
            raise MixlabError(
                f"{self._folder}: no image processor can be made ({error}); it needs a "
                "preprocessor_config.json (or processor_config.json) of a class with a Pillow "
                "backend: copy it from the model's original folder, or install torchvision"
            ) from error
        return self._processor
