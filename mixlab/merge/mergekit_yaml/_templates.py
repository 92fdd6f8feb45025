"""Chat templates: by name, as Jinja, or the one that most models have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mixlab.spec import MixlabError, nearest


def replace_template(
    side_files: Mapping[str, Path], template: str, folder: Path
) -> dict[str, Path]:
    """Side files with `template` as the only chat template; changed ones are under `folder`."""
    files = {
        name: path
        for name, path in side_files.items()
        if name != "chat_template.json" and not name.startswith("additional_chat_templates")
    }
    files["chat_template.jinja"] = folder / "chat_template.jinja"
    files["chat_template.jinja"].write_text(template, encoding="utf-8")
    config = files.get("tokenizer_config.json")
    if config is not None:
        data = json.loads(config.read_text(encoding="utf-8"))
        if data.pop("chat_template", None) is not None:
            files["tokenizer_config.json"] = folder / "tokenizer_config.json"
            files["tokenizer_config.json"].write_text(
                json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
    return files


def find_template(choice: str, folders: Sequence[Path]) -> str | None:
    """The text that `chat_template:` names: `auto`, one of mergekit's names, or itself.

    `auto` is the template that most of the models have, None if none has any.

    Raises:
        MixlabError: it is neither a known name nor Jinja.
    """
    if choice == "auto":
        found = Counter(t.strip() for t in map(_template_of, folders) if t)
        return found.most_common(1)[0][0] if found else None
    if "{" in choice:
        return choice
    from importlib.resources import files

    known = {
        path.name.removesuffix(".jinja"): path
        for path in files("mergekit._data.chat_templates").iterdir()
        if path.name.endswith(".jinja")
    }
    if choice not in known:
        raise MixlabError(
            f"chat_template {choice!r} is neither Jinja nor a known name"
            f"{nearest(choice, ['auto', *known])}"
        )
    return known[choice].read_text(encoding="utf-8")


def _template_of(folder: Path) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    for name in ("chat_template.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
            if isinstance(found, list):
                found = {t.get("name"): t.get("template") for t in found}.get("default")
            if isinstance(found, str):
                return found
    return None
