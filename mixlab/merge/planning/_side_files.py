"""What a user needs beside weights and config: tokenizer, template, processor, code, licence."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

from mixlab.checkpoint import check_inside
from mixlab.spec import MixlabError

_CARRIED = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt",
    "*.model", "*.tiktoken", "tekken.json", "*.jinja", "chat_template*",
    "additional_chat_templates/*.jinja", "*processor_config.json", "generation_config.json",
    "*.py", "LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*",
)  # fmt: skip
# Weights keep out whatever their name, e.g. a pickle called tokenizer.pt.
_WEIGHTS = (
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".gguf", ".h5", ".msgpack",
    ".onnx", ".npz", ".npy", ".index.json",
)  # fmt: skip
# Folders may be called like tokenizers and licences (`tokenizer/`), but not with these endings.
_FILES = (".json", ".jinja", ".txt", ".model")


def side_files(folder: str | Path) -> dict[str, Path]:
    """Output name -> file, for all that is carried over from a model folder as it is.

    Never weights of any format, an index, config.json, a model card, markers or dotfiles. Code of
    a model (`*.py`) is carried as text and not run.

    Raises:
        MixlabError: one of them is a link that leaves the folder, or leads nowhere; is no file; or
            may not be read.
    """
    folder = Path(folder)
    found = {}
    for path in sorted((*folder.glob("*"), *folder.glob("additional_chat_templates/*"))):
        name = path.relative_to(folder).as_posix()
        if not _carried(name) or (path.is_dir() and path.suffix not in _FILES):
            continue
        check_inside(folder, name)
        if not path.is_file():
            raise MixlabError(
                f"{path}: is a folder, pipe or device, expected a file; copy or download the file "
                "again, or remove it"
            )
        if not os.access(path, os.R_OK):
            raise MixlabError(f"{path} cannot be read; mend its permissions, or remove it")
        found[name] = path
    return found


def _carried(name: str) -> bool:
    # fnmatch lets * cross a slash, which only the one pattern with a slash may do.
    return (
        not name.startswith(".")
        and not name.lower().endswith(_WEIGHTS)
        and any(
            fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
            for pattern in _CARRIED
        )
    )
