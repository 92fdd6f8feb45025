"""adapter_config.json of a LoRA adapter: what is handled, and what is refused by name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

_MEND = "merge this adapter with PEFT (merge_and_unload) and name the result instead"
# Each changes what W + scale * B A means, or which tensors stand in the file.
_REFUSED = (
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "lora_bias",
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "alora_invocation_tokens",
    "arrow_config",
    "megatron_config",
)
# These starts take the first factors out of the base, which the folder on disk still holds.
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")


@dataclass(frozen=True)
class AdapterConfig:
    """The settings that decide the merged weights.

    Args:
        rank, alpha: of every module that no pattern names.
        rank_pattern, alpha_pattern: regular expression on a module's path -> value.
        modules_to_save: names of modules stored whole.
    """

    rank: int
    alpha: float
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    use_rslora: bool
    fan_in_fan_out: bool
    modules_to_save: tuple[str, ...]

    def rank_and_alpha(self, module: str) -> tuple[int, float]:
        """Of one module; the first pattern that fits its path's end counts."""
        rank = next((v for k, v in self.rank_pattern.items() if _fits(k, module)), self.rank)
        alpha = next((v for k, v in self.alpha_pattern.items() if _fits(k, module)), self.alpha)
        return rank, alpha

    def saved_name(self, name: str) -> str | None:
        """The base tensor that a wholly saved one replaces; None if it is none of those."""
        plain = re.sub(r"\.(modules_to_save|original_module|base_layer)(\.default)?\.", ".", name)
        module = plain.rpartition(".")[0]
        # PEFT also stores embeddings whole when it was told, or believes, that they were resized.
        whole = (*self.modules_to_save, "embed_tokens", "lm_head")
        # By the end of the path, not by whole words: `norm` also means every `input_layernorm`.
        if any(module.endswith(key) for key in whole):
            return plain
        return None


def read_adapter_config(folder: str | Path) -> AdapterConfig:
    """Read and check the adapter_config.json of `folder`.

    Raises:
        MixlabError: it is missing, malformed, of another PEFT type, or uses a feature that changes
            the meaning of the factors; the feature is named.
    """
    path = Path(folder) / "adapter_config.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MixlabError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise MixlabError(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise MixlabError(f"{path}: expected a mapping")
    if data.get("peft_type") != "LORA":
        raise MixlabError(f"{path}: peft_type is {data.get('peft_type')!r}, not 'LORA'; {_MEND}")
    for key in _REFUSED:
        if data.get(key):
            raise MixlabError(f"{path}: {key} is not handled; {_MEND}")
    start = data.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        raise MixlabError(
            f"{path}: init_lora_weights {start!r} also changed the base's weights; save the "
            "adapter with path_initial_model_for_weight_conversion, or merge it with PEFT first"
        )
    if data.get("bias", "none") != "none":
        raise MixlabError(f"{path}: bias {data['bias']!r} (trained biases) is not handled; {_MEND}")
    try:
        return AdapterConfig(
            rank=_positive(data["r"]),
            alpha=_finite(data["lora_alpha"]),
            rank_pattern={k: _positive(v) for k, v in (data.get("rank_pattern") or {}).items()},
            alpha_pattern={k: _finite(v) for k, v in (data.get("alpha_pattern") or {}).items()},
            use_rslora=bool(data.get("use_rslora", False)),
            fan_in_fan_out=bool(data.get("fan_in_fan_out", False)),
            modules_to_save=_words(data.get("modules_to_save")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MixlabError(f"{path}: not a valid LoRA config: {error!r}") from error


def _positive(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"a rank must be a positive whole number, found {value!r}")
    return value


def _finite(value: Any) -> float:
    if not math.isfinite(float(value)):
        raise ValueError(f"alpha must be a finite number, found {value!r}")
    return float(value)


def _words(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(word) for word in value)


def _fits(pattern: str, module: str) -> bool:
    # As PEFT: the pattern is a regular expression on the end of the path, from a dot on.
    try:
        return re.match(rf"(.*\.)?({pattern})$", module) is not None
    except re.error as error:
        raise MixlabError(f"rank or alpha pattern {pattern!r}: {error}") from error
