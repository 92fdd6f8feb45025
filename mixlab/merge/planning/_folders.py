"""The folder of a model: a local path, or, where it can be nothing else, a hub id."""

from __future__ import annotations

import re
from pathlib import Path

from mixlab.spec import MixlabError

_HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?")
# Weights only as safetensors, nothing that could run: no pickles, no Python.
_FETCHED = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "LICENSE*"]


def model_folder(given: str | Path, *, placeholders: bool = False) -> Path:
    """The local folder of a model; a hub id is downloaded, nothing else touches the network.

    Args:
        given: a folder, relative to the working directory; any character may stand in it. Only
            what is no path here and reads as `owner/name` or `owner/name@revision`, where there is
            no folder `owner` either, is taken for a hub id. `HF_HUB_OFFLINE=1` is respected: then
            the hub's local cache is used alone.
        placeholders: whether a plain word may be one that `--model` fills, for the message.

    Raises:
        MixlabError: no such folder, or the hub cannot be reached.
    """
    path = Path(given).expanduser()
    if path.is_dir():
        check_format(path)
        return path
    if path.exists():
        raise MixlabError(
            f"{given}: is a file; expected a model folder{_from_gguf(path.parent, [path])}"
        )
    match = _HUB_ID.fullmatch(str(given))
    if match is None or path.parent.exists():
        how = ""
        if Path(str(given).partition("+")[0]).expanduser().is_dir() and "+" in str(given):
            how = "; a model with a LoRA adapter (MODEL+ADAPTER) is for mergekit's files alone"
        elif placeholders and str(given).isidentifier():
            how = f", or fill the placeholder with --model {given}=DIR"
        raise MixlabError(f"{given}: no such model folder; check the path{how}")
    return _download(match[1], match[2])


def check_format(folder: Path) -> None:
    """Refuse a folder whose weights are all in the GGUF format.

    Raises:
        MixlabError: with the way to safetensors.
    """
    files = sorted(folder.glob("*.gguf"))
    if files and not any(folder.glob("*.safetensors*")):
        raise MixlabError(
            f"{folder}: the weights are GGUF ({files[0].name}); expected safetensors"
            f"{_from_gguf(folder, files)}"
        )


def _from_gguf(folder: Path, files: list[Path]) -> str:
    if files[0].suffix != ".gguf":
        return ""
    return (
        f". Convert it once: AutoModelForCausalLM.from_pretrained({str(folder)!r}, "
        f"gguf_file={files[0].name!r}).save_pretrained(DIR) dequantises it, and the same with "
        "AutoTokenizer brings the tokenizer"
    )


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=_FETCHED))
    except Exception as error:  # the hub client raises many unrelated classes
        reason = (str(error).splitlines() or [""])[0]
        raise MixlabError(
            f"{name}: no such folder, and as a hub id it cannot be fetched "
            f"({type(error).__name__}: {reason}); give the path of a folder that holds config.json "
            f"and *.safetensors, or run `hf download {name}` where there is a network"
        ) from error
