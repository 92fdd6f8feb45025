"""What a scoring asks: every item, condition and protocol, and the key of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.score._conditions import permuted_images
from mixlab.score._prompts import Prompts
from mixlab.score._protocol import Protocol
from mixlab.score._task import Item, Task
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from mixlab.models import LoadedModel


@dataclass(frozen=True)
class Ask:
    """One row to be: an item under a condition and a protocol, and the key of its answer."""

    task: Task
    item: Item
    condition: str
    protocol: Protocol
    key: str


def collect(
    loaded: LoadedModel,
    tasks: Sequence[Task],
    protocols: Sequence[Protocol],
    splits: Sequence[str],
    conditions: Sequence[str],
    seed: int,
) -> tuple[list[Ask], dict[str, Any]]:
    """The asks, and key to `Request` or `ChoiceRequest`; asks with one key share one answer.

    A key is the digest of what the model reads (ids and image bytes) and of the settings that
    decide its answer, so that strict and semantic reading, or two items of equal prompt, cost
    one generation.
    """
    prompts = Prompts(loaded.encoder)
    asks: list[Ask] = []
    requests: dict[str, Any] = {}
    settings = {proto.name: proto.generation_digest for proto in protocols}
    for task in tasks:
        for split in splits:
            shown = _shown(loaded, task, split, conditions, seed, prompts)
            for item, condition, image in shown:
                keys: dict[str, str] = {}
                for proto in protocols:
                    asked = settings[proto.name]
                    if asked not in keys:
                        key, request = _request(loaded, prompts, task, item, proto, image, asked)
                        requests.setdefault(key, request)
                        keys[asked] = key
                    asks.append(Ask(task, item, condition, proto, keys[asked]))
    return asks, requests


def _shown(
    loaded: LoadedModel,
    task: Task,
    split: str,
    conditions: Sequence[str],
    seed: int,
    prompts: Prompts,
) -> Iterator[tuple[Item, str, Path | None]]:
    """(item, condition, image) for each item of a split; an LM sees no images."""
    items = task.in_splits([split])
    sees = loaded.kind == "vlm"
    permuted: dict[str, Path] = {}
    if sees and "permuted" in conditions:
        paths = {item.image for item in items if item.image is not None}
        try:
            digests = {path: prompts.image(path) for path in paths}
            permuted = permuted_images(items, digests, seed=seed)
        except MixlabError as error:
            raise MixlabError(f"task {task.name!r}, {split} items: {error}") from error
    for item in items:
        if item.image is None:
            yield item, "none", None
            continue
        for condition in conditions:
            if condition == "none":
                yield item, condition, None
            elif sees:
                yield item, condition, item.image if condition == "image" else permuted[item.id]


def _request(
    loaded: LoadedModel,
    prompts: Prompts,
    task: Task,
    item: Item,
    proto: Protocol,
    image: Path | None,
    settings: str,
) -> tuple[str, Any]:
    from mixlab.score._choice import ChoiceRequest
    from mixlab.score._decode import Request

    template = task.template or proto.template
    ids = prompts.ids(item.question, proto, template, image)
    # The ids say all that tokenizer and template decide; an image's pixels also hang on the
    # image processor, which a reference does not have.
    reads = (loaded.encoder.stop_ids, "" if image is None else loaded.encoder.digest)
    if task.metric == "choice":
        wholes = tuple(
            prompts.with_choice(item.question, choice, ids, proto, template)
            for choice in item.choices
        )
        tails = [whole.tolist() for whole in wholes]
        return prompts.key(ids, image, "choice", reads, tails), ChoiceRequest(ids, wholes, image)
    limit = proto.max_new_tokens or task.max_new_tokens
    if loaded.encoder.max_length is not None:
        limit = min(limit, loaded.encoder.max_length - len(ids))
        if limit < 1:
            raise MixlabError(
                f"task {task.name!r}, item {item.id!r}: the prompt's {len(ids)} tokens fill the "
                f"context of {loaded.encoder.max_length}; no room to answer"
            )
    key = prompts.key(ids, image, settings, limit, reads)
    return key, Request(ids, limit, image)
