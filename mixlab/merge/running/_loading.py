"""Whether transformers takes a folder: loaded without memory, keys counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError
from mixlab.store import read_json


@dataclass(frozen=True)
class LoadingReport:
    """What transformers says of a folder.

    Args:
        architecture: the class that took it; empty where none was tried.
        why_not: why none was tried.
        inherited: keys missing or unexpected that are so in the target's folder, too.
    """

    architecture: str = ""
    why_not: str = "not asked for"
    inherited: tuple[str, ...] = ()

    def line(self) -> str:
        """For people."""
        if not self.architecture:
            return f"not loaded with transformers: {self.why_not}"
        told = f"{self.architecture} loads it: no missing and no unexpected key"
        if self.inherited:
            told += f" beyond {len(self.inherited)} of the target's own ({self.inherited[0]}, …)"
        return told


def load_on_meta(folder: Path, target: Path) -> LoadingReport:
    """Load `folder` on the meta device with the class that its config names.

    Keys that are missing or unexpected in the `target`'s folder as well are not the merge's doing.

    Raises:
        MixlabError: transformers refuses the folder, or other keys are missing or unexpected.
    """
    config = read_json(folder / "config.json", "merge again")
    name = _architecture(config)
    if "auto_map" in config:
        return LoadingReport(why_not="its code is in the folder, and is not run")
    found = _class(config, name)
    if not hasattr(found, "from_pretrained"):
        return LoadingReport(why_not=f"transformers has no class {name}")
    from mixlab.models import quiet

    with quiet(errors=False):
        wrong = _keys(found, folder)
        same = wrong and name == _architecture(read_json(target / "config.json", "merge again"))
        own = _keys(found, target) if same else set()
    if wrong - own:
        raise MixlabError(
            f"{folder}: transformers ({name}) finds {'; '.join(sorted(wrong - own)[:10])}; "
            "config and weights do not go together"
        )
    return LoadingReport(name, "", tuple(sorted(wrong)))


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures") or [None]
    return str(names if isinstance(names, str) else names[0])


def _class(config: Mapping[str, Any], name: str) -> Any:
    if config.get("model_type") == "mixlab_backbone":
        from mixlab.models.backbone._lm import BackboneForCausalLM

        return BackboneForCausalLM
    import transformers

    return getattr(transformers, name, None)


def _keys(found: Any, folder: Path) -> set[str]:
    try:
        _, info = found.from_pretrained(
            folder, device_map="meta", output_loading_info=True, local_files_only=True
        )
    except Exception as error:  # transformers raises many unrelated classes
        raise MixlabError(f"{folder}: transformers refuses it: {error}") from error
    return {
        f"{what.removesuffix('_keys')} {key}"
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys")
        for key in info[what]
    }
