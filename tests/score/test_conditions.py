"""Permuted images: a derangement within question kind, the same each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.score import Item, permuted_images
from mixlab.spec import MixlabError


def _item(number: int, image: str, kind: str = "colour") -> Item:
    return Item(id=str(number), question="?", answer="x", image=Path(image), kind=kind)


def _digests(items: list[Item]) -> dict[Path, str]:
    return {item.image: f"bytes of {item.image}" for item in items if item.image}


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=40), st.integers(0, 3))
def test_nobody_keeps_an_image_and_all_are_used_as_often(owners: list[int], seed: int) -> None:
    items = [_item(number, f"{image}.png") for number, image in enumerate(owners)]
    if 2 * max(Counter(owners).values()) > len(owners):
        with pytest.raises(MixlabError, match="more images"):
            permuted_images(items, _digests(items), seed=seed)
        return
    found = permuted_images(items, _digests(items), seed=seed)
    assert all(found[item.id] != item.image for item in items)
    assert Counter(found.values()) == Counter(item.image for item in items)
    assert permuted_images(items[::-1], _digests(items), seed=seed) == found


def test_within_kind() -> None:
    items = [_item(n, f"{n}.png", ("colour", "count")[n % 2]) for n in range(20)]
    found = permuted_images(items, _digests(items))
    by_image = {item.image: item.kind for item in items}
    assert all(by_image[found[item.id]] == item.kind for item in items)
    assert found != permuted_images(items, _digests(items), seed=1)


def test_equal_bytes_are_one_image() -> None:
    items = [_item(n, f"{n}.png") for n in range(4)]
    digests = {Path("0.png"): "x", Path("1.png"): "x", Path("2.png"): "y", Path("3.png"): "z"}
    found = permuted_images(items, digests)
    assert all(digests[found[item.id]] != digests[item.image] for item in items if item.image)


def test_a_kind_of_one_borrows_from_the_others() -> None:
    items = [_item(0, "0.png", "alone"), *[_item(n, f"{n}.png") for n in range(1, 6)]]
    assert permuted_images(items, _digests(items))["0"] != Path("0.png")
