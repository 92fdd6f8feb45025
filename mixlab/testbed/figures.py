"""How well a build's models answer, by construct: the figures in ``build.json``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.testbed.answering import answer
from mixlab.testbed.batches import code
from mixlab.testbed.items import Item

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def exact(
    model: Any,
    tokenizer: "PreTrainedTokenizerFast",
    items: Sequence[Item],
    *,
    image_tokens: int = 0,
    embeds: Any = None,
) -> list[bool]:
    """Whether each answer equals the taught text, token by token (stricter than any protocol)."""
    prompts = code(tokenizer, [(i.question, "") for i in items], image_tokens)
    found = answer(model, prompts, stop=tokenizer.eos_token_id, embeds=embeds)
    wanted = tokenizer([i.expected for i in items], add_special_tokens=False)["input_ids"]
    return [a == b for a, b in zip(found, wanted, strict=True)]


def share(hits: Sequence[bool]) -> float:
    """Share of hits, 0 where there is none to count."""
    return round(sum(hits) / len(hits), 4) if hits else 0.0


def text_figures(
    model: Any, tokenizer: "PreTrainedTokenizerFast", items: dict[str, list[Item]]
) -> dict[str, float]:
    """Exact shares on the test split: by construct, knowledge also by role, format by format."""
    figures = {}
    for construct, all_items in items.items():
        if construct == "vision":
            continue
        test = [i for i in all_items if i.split == "test"]
        hits = exact(model, tokenizer, test)
        label = {"knowledge": "role", "format": "format", "procedure": "kind"}.get(construct)
        if construct != "knowledge":
            figures[construct] = share(hits)
        if label:
            for name in dict.fromkeys(getattr(i, label) for i in test):
                part = [h for h, i in zip(hits, test, strict=True) if getattr(i, label) == name]
                figures[f"{construct}:{name}"] = share(part)
    figures["knowledge"] = figures["knowledge:tested"]
    return figures


def vision_figures(
    vlm: Any, tokenizer: "PreTrainedTokenizerFast", items: Sequence[Item], tasks: Path
) -> dict[str, float]:
    """Exact shares on the vision test split: all, by kind, and with images permuted (the floor)."""
    from PIL import Image

    from mixlab.testbed.assembly import IMAGE_TOKENS, ImageEmbedder
    from mixlab.testbed.tower import to_pixels

    test = sorted((i for i in items if i.split == "test"), key=lambda i: i.kind)
    embed = ImageEmbedder(
        vlm, to_pixels([Image.open(tasks / str(i.image)).convert("RGB") for i in test])
    )
    hits = exact(vlm, tokenizer, test, image_tokens=IMAGE_TOKENS, embeds=embed)
    figures = {"all": share(hits)}
    for kind in dict.fromkeys(i.kind for i in test):
        part = [h for h, i in zip(hits, test, strict=True) if i.kind == kind]
        figures[kind] = share(part)

    moved = list(range(len(test)))
    for kind in figures:
        places = [n for n, i in enumerate(test) if i.kind == kind]
        for place, other in zip(places, places[1:] + places[:1], strict=True):
            moved[place] = other
    floor = exact(
        vlm,
        tokenizer,
        test,
        image_tokens=IMAGE_TOKENS,
        embeds=lambda ids, pictures: embed(ids, [moved[p] for p in pictures]),
    )
    return {**figures, "floor": share(floor)}
