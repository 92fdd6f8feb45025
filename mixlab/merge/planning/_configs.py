"""Configs of transformers for two models, and what they compute otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.checkpoint import text_part
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# What two models of one shape may still disagree about.
_CONFIG_KEYS = (
    "model_type", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act",
    "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "sliding_window",
)  # fmt: skip


def config_differences(sides: Sequence[Side], target: Side) -> list[str]:
    """A sentence for each model whose config.json says something else than the target's."""
    told = []
    for side in sides:
        if side is target or side.role == "extra":
            continue
        mine, its = target.text(), side.text()
        differing = [k for k in _CONFIG_KEYS if k in mine and k in its and mine[k] != its[k]]
        if differing:
            shown = ", ".join(f"{k} {mine[k]!r:.60} and {its[k]!r:.60}" for k in differing)
            told.append(
                f"the configs of {target.folder} and {side.folder} differ: {shown}; the output "
                "takes the target's"
            )
    return told


def compare_sides(sides: Sequence[Side], target: Side, mistakes: Mistakes) -> list[str]:
    """`compare_functions` of every model with the target.

    Returns:
        Warnings.
    """
    told: list[str] = []
    for side in sides:
        if side is target or side.role == "extra":
            continue
        pair = (target.folder, target.config), (side.folder, side.config)
        if not compare_functions(*pair, mistakes, told):
            told += config_differences([side], target)
    return told


def load_config(folder: Path, config: Mapping[str, Any]) -> PretrainedConfig:
    """The config of a model folder as an object; code in the folder is never run.

    Where a part beside the language model cannot be built here (a tower that needs another
    package), the language model's part alone.

    Raises:
        MixlabError: transformers does not know the language model's type, or refuses its config.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    from mixlab.models.backbone import register

    register()
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers raises many unrelated classes
        text = text_part(config)
        kind = str(text.get("model_type"))
        if kind not in CONFIG_MAPPING or (text == config and "auto_map" not in config):
            raise MixlabError(
                f"{folder / 'config.json'}: transformers refuses it: {_first_line(error)}"
            ) from error
        try:
            return CONFIG_MAPPING[kind].from_dict(dict(text))
        except Exception:
            raise MixlabError(
                f"{folder / 'config.json'}: transformers refuses its language model's part: "
                f"{_first_line(error)}"
            ) from error


def compare_functions(
    target: tuple[Path, Mapping[str, Any]],
    other: tuple[Path, Mapping[str, Any]],
    mistakes: Mistakes,
    warnings: list[str],
) -> bool:
    """Hold the configs of two models against each other.

    Differences in size go to `mistakes`, all of them; those in function to `warnings`.

    Returns:
        Whether transformers knows both.

    Args:
        target, other: folder and config.json of each.
    """
    from mixlab.models.backbone import compare_configs

    try:
        found = compare_configs(load_config(*target), load_config(*other))
    except MixlabError as error:
        warnings.append(f"the configs are compared in a few fields alone: {error}")
        return False
    for one in found:
        told = f"{one.field}: {one.vlm!r:.120} in {target[0]}, {one.reference!r:.120} in {other[0]}"
        if one.kind == "size":
            mistakes.add(told, "a merge needs models of one shape; give another reference")
    functions = [one for one in found if one.kind == "function"]
    kept = [f"{one.field} {one.vlm!r:.120} and {one.reference!r:.120}" for one in functions]
    if kept:
        warnings.append(
            f"the configs of {target[0]} and {other[0]} say different functions: "
            f"{'; '.join(kept)}; the output keeps the first's"
        )
    return True


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
