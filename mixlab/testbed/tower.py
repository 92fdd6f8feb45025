"""The vision tower: a small SigLIP, pretrained to tell what each cell of a picture shows."""

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlab.testbed.fitting import Progress, fit, silent
from mixlab.testbed.pictures import GLYPHS, SIDE, draw_scene
from mixlab.testbed.scenes import COLOURS, KINDS, MAKERS, PLACES, SHAPES, Cell, Scene
from mixlab.testbed.settings import VisionSize

if TYPE_CHECKING:
    import torch
    from transformers import SiglipVisionModel

PATCH = 16
FORMS = ("", *SHAPES, *GLYPHS)
TINTS = ("", *COLOURS)


def make_tower(size: VisionSize, seed: int) -> "SiglipVisionModel":
    """An untrained tower: nine patches, one for each cell."""
    import torch
    from transformers import SiglipVisionConfig, SiglipVisionModel

    torch.manual_seed(seed)
    config = SiglipVisionConfig(
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        image_size=SIDE,
        patch_size=PATCH,
        vision_use_head=False,
    )
    return SiglipVisionModel(config)


def features(tower: Any, pixels: "torch.Tensor") -> "torch.Tensor":
    """What the projector reads: the last layer's states [B, 9, H] of pixels [B, 3, 48, 48]."""
    states: torch.Tensor = tower(pixel_values=pixels, output_hidden_states=True).hidden_states[-1]
    return states


def to_pixels(images: list[Any]) -> "torch.Tensor":
    """Float32 [B, 3, 48, 48] in [-1, 1], as the saved image processor gives them."""
    import torch

    stacked = np.stack([np.asarray(image, dtype=np.float32) for image in images])
    return torch.from_numpy(stacked / 255.0 * 2.0 - 1.0).permute(0, 3, 1, 2).contiguous()


def pretrain(
    tower: Any, size: VisionSize, seed: int, progress: Progress = silent
) -> dict[str, float]:
    """Train the tower on fresh pictures with a head that names form, colour and place by cell.

    The head is thrown away. Returns its accuracy on fresh pictures, on cells that are not empty.
    """
    import torch

    torch.manual_seed(seed + 1)
    heads = torch.nn.ModuleDict(
        {
            "form": torch.nn.Linear(size.hidden, len(FORMS)),
            "tint": torch.nn.Linear(size.hidden, len(TINTS)),
            "place": torch.nn.Linear(size.hidden, len(PLACES)),
        }
    )
    rng = Random(f"tower-{seed}")
    places = torch.arange(9).repeat(size.tower_batch, 1)

    def losses() -> Iterator[torch.Tensor]:
        while True:
            pixels, targets = _batch(rng, size.tower_batch)
            states = features(tower, pixels)
            wanted = {**targets, "place": places}
            yield sum(
                (
                    torch.nn.functional.cross_entropy(heads[k](states).flatten(0, 1), v.flatten())
                    for k, v in wanted.items()
                ),
                start=torch.zeros(()),
            )

    tower.train()
    fit(
        [*tower.parameters(), *heads.parameters()],
        losses(),
        steps=size.tower_steps,
        learning_rate=size.tower_learning_rate,
        stage="tower",
        progress=progress,
    )
    tower.eval()
    with torch.no_grad():
        pixels, targets = _batch(rng, 512)
        states = features(tower, pixels)
        full = targets["form"] > 0
        return {
            name: round(float((heads[name](states).argmax(-1) == wanted)[full].float().mean()), 4)
            for name, wanted in targets.items()
        }


def _batch(rng: Random, count: int) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
    """Fresh scenes; half have every cell filled at random, which shows more forms a picture."""
    import torch

    scenes = [_crowd(rng) if i % 2 else MAKERS[rng.choice(KINDS)](rng) for i in range(count)]
    pixels = to_pixels([draw_scene(scene, rng) for scene in scenes])
    cells = [[c or Cell("", "") for c in scene.cells] for scene in scenes]
    return pixels, {
        "form": torch.tensor([[FORMS.index(c.form) for c in row] for row in cells]),
        "tint": torch.tensor([[TINTS.index(c.colour) for c in row] for row in cells]),
    }


def _crowd(rng: Random) -> Scene:
    return Scene(tuple(Cell(rng.choice(FORMS[1:]), rng.choice(TINTS[1:])) for _ in range(9)))
