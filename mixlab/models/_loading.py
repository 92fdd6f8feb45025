"""One call that loads a language model or a VLM with its encoder, from a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mixlab.checkpoint import digest_state, read_header, weight_files
from mixlab.models._images import ImageReader
from mixlab.models._prompt import PromptEncoder
from mixlab.models._quiet import quiet
from mixlab.models.backbone import backbone_state, register
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True)
class LoadedModel:
    """A model in eval mode, the encoder of its prompts, and the folder both came from."""

    model: PreTrainedModel
    encoder: PromptEncoder
    kind: Literal["lm", "vlm"]
    folder: Path

    def backbone_state(self) -> dict[str, torch.Tensor]:
        """Live tensors of the language model, named as in the stand-alone causal LM."""
        return backbone_state(self.model)

    def weights_digest(self) -> str:
        """Digest of all weights: names, dtypes, shapes and bytes; tied weights once."""
        return digest_state(self.model.state_dict())

    def backbone_digest(self) -> str:
        """Digest of the language model alone; equal for a VLM and the LM taken out of it."""
        return digest_state(self.backbone_state())


def load_model(
    folder: str | Path, *, device: str | torch.device | None = None, dtype: str = "float32"
) -> LoadedModel:
    """Load a causal LM or an image-text model with tokenizer, chat template and image processor.

    Args:
        folder: a Hugging Face folder. A hub id (`owner/name`) that is no local path is downloaded.
        device: where to put the model; by default the GPU if there is one, else the CPU.
        dtype: `float32`, `bfloat16` or `float16`.

    Raises:
        MixlabError: a folder, file or processor is missing or corrupt; weights are missing; the
            architecture needs remote code, or is neither a causal LM nor an image-text model.
    """
    import torch
    import transformers

    path = _local(folder)
    config = _config(path)
    kind = _kind(config, path)
    for file in weight_files(path):
        read_header(file)
    auto: Any = transformers.AutoModelForCausalLM
    if kind == "vlm":
        auto = transformers.AutoModelForImageTextToText
    if dtype not in {"float32", "bfloat16", "float16"}:
        raise MixlabError(f"dtype {dtype!r}; expected float32, bfloat16 or float16")
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    with quiet():
        model, info = auto.from_pretrained(
            path, dtype=getattr(torch, dtype), output_loading_info=True, use_safetensors=True
        )
    lost = sorted(set(info["missing_keys"])) + sorted(str(k) for k in info["mismatched_keys"])
    if lost:
        raise MixlabError(
            f"{path}: {len(lost)} weights are missing or of another shape, e.g. {lost[0]}; "
            "do config.json and the weights belong together?"
        )
    model = model.to(device).eval()
    encoder = _encoder(path, config, kind)
    if encoder.images is not None:
        encoder.images.watch(model)
    return LoadedModel(model, encoder, kind, path)


def load_encoder(folder: str | Path) -> PromptEncoder:
    """The encoder of a model folder without its weights; same ids as `load_model(...).encoder`."""
    path = _local(folder)
    config = _config(path)
    return _encoder(path, config, _kind(config, path))


def _local(folder: str | Path) -> Path:
    path = Path(folder)
    if path.is_dir():
        return path
    if not path.exists() and _HUB_ID.fullmatch(str(folder)):
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(str(folder)))
        except Exception as error:  # the hub client raises many unrelated classes
            raise MixlabError(
                f"{folder}: no such folder, and as a hub id it cannot be fetched "
                f"({type(error).__name__}: {str(error).splitlines()[0]}); give the path of a "
                "downloaded model folder"
            ) from error
    raise MixlabError(f"{folder}: no such model folder")


def _config(path: Path) -> PretrainedConfig:
    from transformers import AutoConfig

    register()
    if not (path / "config.json").is_file():
        raise MixlabError(f"{path}: no config.json; is it a Hugging Face model folder?")
    try:
        return AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise MixlabError(f"{path}/config.json cannot be used: {error}") from error


def _kind(config: PretrainedConfig, path: Path) -> Literal["lm", "vlm"]:
    from transformers.models.auto import modeling_auto as auto

    if config.model_type in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return "vlm"
    if type(config) in auto.MODEL_FOR_CAUSAL_LM_MAPPING:
        return "lm"
    raise MixlabError(
        f"{path}: model type {config.model_type!r} is neither a causal language model nor an "
        "image-text model that the installed transformers knows"
    )


def _encoder(path: Path, config: PretrainedConfig, kind: str) -> PromptEncoder:
    from transformers import AutoTokenizer, GenerationConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (ValueError, KeyError, OSError, TypeError, ImportError) as error:
        raise MixlabError(f"{path}: the tokenizer cannot be loaded: {error}") from error
    stops: list[int] = []
    if (path / "generation_config.json").is_file():
        found = GenerationConfig.from_pretrained(path).eos_token_id
        stops = [found] if isinstance(found, int) else list(found or [])
    text = config.get_text_config(decoder=True)
    images = ImageReader(path, config) if kind == "vlm" else None
    return PromptEncoder(
        tokenizer,
        images=images,
        context=getattr(text, "max_position_embeddings", None),
        stop_ids=stops,
        where=str(path),
    )
