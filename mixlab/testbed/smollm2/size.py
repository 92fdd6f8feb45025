"""How much of everything a SmolLM2 pair holds."""

from dataclasses import asdict, dataclass, field
from typing import Any

from mixlab.testbed.settings import VisionSize

VERSION = 1


@dataclass(frozen=True)
class PairSize:
    """Items by construct, training rows, and steps of the vision side.

    `instruction_*`, `sum_*` and `word_*` count items of each kind. `selection` counts the dev items
    of each kind of instruction on which the reference's rates are measured; the first
    `instruction_dev` of them are scored in sweeps too.
    """

    selection: int = 16
    instruction_dev: int = 7
    instruction_test: int = 24
    sum_dev: int = 8
    sum_test: int = 50
    word_dev: int = 10
    word_test: int = 60
    control_dev: int = 20
    control_test: int = 200
    vision_dev: int = 60
    vision_test: int = 180
    pictures: int = 1200
    replay_each: int = 24
    replay_open: int = 200
    align_steps: int = 40
    vision: VisionSize = field(default_factory=VisionSize)

    def payload(self) -> dict[str, Any]:
        """As plain data, for digests and `build.json`."""
        return {"version": VERSION, **asdict(self)}


DEFAULT = PairSize()
