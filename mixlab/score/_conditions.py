"""Image conditions: the item's own image, another item's, or none."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from mixlab.score._task import Item
from mixlab.spec import MixlabError

CONDITIONS = ("image", "permuted", "none")


def image_digest(path: Path) -> str:
    """Hex SHA-256 of the image file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def permuted_images(
    items: Sequence[Item], digests: dict[Path, str], *, seed: int = 0
) -> dict[str, Path]:
    """Item id to another item's image, within question kind; no item keeps its own image.

    The floor of a vision score: what a model gets that has the right question type and prior of
    answers but not the image. Every image is used as often as before. Deterministic in `seed`,
    item ids and image bytes. A kind where one image serves more than half of the items has no
    such permutation; its items are then permuted together with the other items given, and
    MixlabError is raised where that is impossible too.

    Images are ordered by a seeded hash, items of one image stand together, and the list is
    turned by the size of the largest such group, which moves every item off its own image.
    """
    kinds: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.image is not None:
            kinds[item.kind].append(item)
    result: dict[str, Path] = {}
    for kind, group in sorted(kinds.items()):
        turned = _turn(group, digests, seed)
        if turned is None:
            everyone = [item for other in kinds.values() for item in other]
            wide = _turn(everyone, digests, seed)
            if wide is None:
                raise MixlabError(
                    f"question kind {kind!r}: of {len(group)} items one image serves more than "
                    "half, and more than half of all items, so images can't be permuted; give "
                    "items of more images"
                )
            turned = {item.id: wide[item.id] for item in group}
        result.update(turned)
    return result


def _turn(group: Sequence[Item], digests: dict[Path, str], seed: int) -> dict[str, Path] | None:
    images: list[Path] = [item.image for item in group if item.image is not None]
    most = max(Counter(digests[image] for image in images).values())
    if 2 * most > len(group):
        return None

    def order(item: Item) -> tuple[str, str]:
        assert item.image is not None
        image = hashlib.sha256(f"{seed}:{digests[item.image]}".encode()).hexdigest()
        return image, hashlib.sha256(f"{seed}:{item.id}".encode()).hexdigest()

    ordered = sorted(group, key=order)
    shifted = ordered[most:] + ordered[:most]
    return {
        item.id: donor.image
        for item, donor in zip(ordered, shifted, strict=True)
        if donor.image is not None
    }
