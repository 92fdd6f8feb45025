"""The sizes of the testbed: everything that decides what a build contains."""

from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class WorldSize:
    """How many of each thing the world holds.

    Entities by role (their facts: one per relation), then items and training rows by construct.
    """

    rehearsed: int = 44
    refresh: int = 30
    tested: int = 56
    never_taught: int = 20
    relations: int = 5
    fact_test_wordings: int = 2
    fact_rows: int = 6
    procedure_rows: int = 2400
    format_rows: int = 1600
    vision_images: int = 4000
    questions_per_image: int = 2
    test_items: int = 520
    dev_items: int = 160


@dataclass(frozen=True)
class ReferenceSize:
    """Shape and training of the reference language model (a Llama of about 1M parameters)."""

    hidden: int = 128
    intermediate: int = 384
    layers: int = 4
    heads: int = 4
    steps: int = 1300
    batch_rows: int = 72
    learning_rate: float = 3.0e-3
    matrix_rate: float = 0.012


@dataclass(frozen=True)
class VisionSize:
    """Shape and training of the vision tower (SigLIP) and of the projector's alignment."""

    hidden: int = 128
    intermediate: int = 256
    layers: int = 2
    heads: int = 4
    tower_steps: int = 400
    tower_batch: int = 64
    tower_learning_rate: float = 2.0e-3
    align_steps: int = 250
    align_rows: int = 48
    align_learning_rate: float = 3.0e-3


@dataclass(frozen=True)
class Size:
    """A whole build."""

    name: str
    world: WorldSize = field(default_factory=WorldSize)
    reference: ReferenceSize = field(default_factory=ReferenceSize)
    vision: VisionSize = field(default_factory=VisionSize)

    def payload(self) -> dict[str, Any]:
        """The settings as plain data, for digests and for ``build.json``."""
        return {"version": VERSION, **asdict(self)}


SIZES: dict[str, Size] = {
    "default": Size("default"),
    "micro": Size(
        "micro",
        WorldSize(
            rehearsed=4,
            refresh=3,
            tested=4,
            never_taught=2,
            relations=2,
            fact_rows=6,
            procedure_rows=60,
            format_rows=60,
            vision_images=120,
            test_items=28,
            dev_items=14,
        ),
        ReferenceSize(hidden=64, intermediate=128, layers=2, heads=2, steps=120, batch_rows=48),
        VisionSize(hidden=64, intermediate=128, layers=1, heads=2, tower_steps=80, align_steps=20),
    ),
}
