"""A complete Hugging Face folder of a model in memory."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.models._quiet import quiet
from mixlab.store import atomic_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Tokenizer, chat template and processor files; never weights, config or a model card.
_CARRIED = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt",
    "*.model", "*.jinja", "chat_template.json", "additional_chat_templates",
    "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
)  # fmt: skip


def save_model_folder(model: PreTrainedModel, folder: str | Path, source: str | Path) -> Path:
    """Write weights and config of `model`, and carry tokenizer, template and processor over.

    The folder appears whole or not at all. Returns its path.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    folder, source = Path(folder), Path(source)
    with atomic_folder(folder) as aside:
        with quiet():
            model.save_pretrained(aside)
        for item in sorted(source.iterdir()):
            if not any(fnmatch(item.name, pattern) for pattern in _CARRIED):
                continue
            if item.is_dir():
                shutil.copytree(item, aside / item.name)
            else:
                shutil.copyfile(item, aside / item.name)
    return folder
