"""The study's `items` table: what was asked, with the images as PNG bytes."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.score._task import Task
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "task",
    "construct",
    "item",
    "question",
    "answer",
    "image",
    "cluster",
    "split",
    "role",
    "format",
    "kind",
)


def items_table(tasks: Sequence[Task]) -> pd.DataFrame:
    """One row per item; `image` holds PNG bytes or None.

    Raises MixlabError for an image that is missing or truncated, naming file and item.
    """
    import pandas as pd

    pictures: dict[Path, bytes] = {}
    rows = []
    for task in tasks:
        for item in task.items:
            if item.image is not None and item.image not in pictures:
                pictures[item.image] = _png(item.image, f"task {task.name!r}, item {item.id!r}")
            rows.append(
                (
                    task.name,
                    task.construct,
                    item.id,
                    item.question,
                    item.answer,
                    None if item.image is None else pictures[item.image],
                    item.cluster,
                    item.split,
                    item.role,
                    item.format,
                    item.kind,
                )
            )
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _png(path: Path, where: str) -> bytes:
    from PIL import Image

    try:
        data = path.read_bytes()
        with Image.open(BytesIO(data)) as image:
            image.load()
            if image.format == "PNG":
                return data
            buffer = BytesIO()
            image.convert("RGB").save(buffer, format="PNG")
            return buffer.getvalue()
    except (OSError, SyntaxError) as error:
        raise MixlabError(
            f"{where}: image {path} cannot be read ({error}); make it anew"
        ) from error
