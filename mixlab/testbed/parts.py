"""The two parts of a build that are trained side by side; as a module, the tower's process."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.store import atomic_folder
from mixlab.testbed.fitting import Progress
from mixlab.testbed.settings import SIZES, Size

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, SiglipVisionModel

    from mixlab.testbed.lessons import Curriculum
    from mixlab.testbed.world import World


def make_reference_part(
    world: "World", size: Size, seed: int, folder: Path, progress: Progress
) -> None:
    """Teach the reference and save it, with its tokenizer, as a folder that appears whole."""
    with atomic_folder(folder) as aside:
        teach_and_save(world, world.curriculum(), size, seed, aside, progress)


def teach_and_save(
    world: "World",
    curriculum: "Curriculum",
    size: Size,
    seed: int,
    folder: Path,
    progress: Progress,
) -> None:
    """Teach a language model of the world's vocabulary, and write it into ``folder``."""
    from mixlab.testbed.reference import CONTEXT, make_reference, teach
    from mixlab.testbed.tokenizer import make_tokenizer

    tokenizer = make_tokenizer(world.vocabulary(), CONTEXT)
    model = make_reference(size.reference, tokenizer, seed)
    teach(model, tokenizer, curriculum, size.reference, seed, progress)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_tower_part(size: Size, seed: int, folder: Path, progress: Progress) -> None:
    """Pretrain the tower and save it with its accuracy as a folder that appears whole."""
    from mixlab.testbed.tower import make_tower, pretrain

    tower = make_tower(size.vision, seed)
    accuracy = pretrain(tower, size.vision, seed, progress)
    with atomic_folder(folder) as aside:
        tower.save_pretrained(aside)
        (aside / "accuracy.json").write_text(json.dumps(accuracy), encoding="utf-8")


def load_reference(folder: Path) -> tuple["LlamaForCausalLM", "PreTrainedTokenizerFast"]:
    """The saved reference in eval mode, and its tokenizer."""
    from transformers import AutoTokenizer, LlamaForCausalLM

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return LlamaForCausalLM.from_pretrained(folder).eval(), tokenizer


def load_tower(folder: Path) -> "SiglipVisionModel":
    """The saved tower in eval mode."""
    from transformers import SiglipVisionModel

    tower: SiglipVisionModel = SiglipVisionModel.from_pretrained(folder).eval()
    return tower


def _main(arguments: list[str]) -> None:
    import torch

    parts, size, seed, parent = arguments

    def watch(stage: str, share: float) -> None:
        # A killed parent can't end its child; the child sees that it was adopted.
        if os.getppid() != int(parent):
            raise SystemExit(f"{stage} at {share:.0%}: the build's main process is gone")

    torch.set_num_threads(1)
    make_tower_part(SIZES[size], int(seed), Path(parts) / "tower", watch)


if __name__ == "__main__":
    _main(sys.argv[1:])
