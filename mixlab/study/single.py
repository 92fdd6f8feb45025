"""One arm, or one plan, outside a sweep."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from mixlab.spec import apply_overrides, load_yaml, parse
from mixlab.store import lock_folder
from mixlab.study import pairs
from mixlab.study.places import find_file, places
from mixlab.study.progress import Stages
from mixlab.study.sweepfile import Pair, SweepSpec


def show_mix(
    file: str | os.PathLike[str],
    *,
    overrides: Iterable[str] = (),
    pair: str = "testbed",
    steps: int = 100,
    tokens: int = 512,
    seed: int = 0,
) -> str:
    """What a mix would train on with a pair's tokenizer, as text.

    Raises:
        MixlabError: the mix or its sources are wrong, or the pair cannot be built.
    """
    from mixlab import mix, models

    spec = parse(mix.MixSpec, apply_overrides(load_yaml(file), overrides))
    found = pairs.resolve(Pair(vlm=pair, reference=pair), Stages())
    roots = {name: Path(root) for name, root in found["roots"].items()}
    sources = mix.load_sources(spec, roots, folders=places(Path(file)))
    plan = mix.make_plan(
        spec,
        sources,
        models.load_encoder(found["vlm"]),
        steps=steps,
        batch_supervised_tokens=tokens,
        seed=seed,
    )
    return mix.describe(plan, sources)


def long_arm(
    out: str | os.PathLike[str],
    *,
    steps: int = 2000,
    pair: str = "testbed",
    tokens: int = 256,
    learning_rate: float = 2e-3,
    console: Console | None = None,
) -> str:
    """Train one arm on images alone into `out`, score it on test, and say how well it sees.

    Started again it goes on from its last checkpoint.

    Raises:
        MixlabError: the pair cannot be built, or the folder is in use or holds another arm.
    """
    from mixlab.study.arms import Rooms

    console = console or Console(stderr=True)
    found = pairs.resolve(Pair(vlm=pair, reference=pair), Stages(console))
    mix_data: dict[str, Any] = load_yaml(find_file("data_mixes/testbed.yaml", Path())).data
    settings = {
        "steps": steps,
        "batch": {"supervised_tokens": tokens},
        "learning_rate": learning_rate,
    }
    spec = SweepSpec(
        name="long-vision-arm",
        pair=Pair(vlm=pair, reference=pair),
        arm={},
        baselines=[{}],
        protocols=["strict"],
    )
    with lock_folder(out):
        rooms = Rooms(spec, found)
        accuracy, floor = rooms.train_and_see(mix_data, settings, Path(out), _Lines(console))
    return (
        f"Vision after {steps} steps on images alone: {accuracy:.1%} of test items; images "
        f"permuted within question type: {floor:.1%}. Weights: {Path(out) / 'final'}"
    )


class _Lines:
    """A plain line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = -1

    def __call__(self, **state: Any) -> None:
        share = int(20 * state.get("step", 0) / max(state.get("steps", 1), 1))
        if share != self._told:
            self._told = share
            loss = f", loss {state['loss']:.3f}" if state.get("loss") is not None else ""
            words = state.get("note") or "train"
            self._console.print(
                f"{words} {state.get('step', 0)}/{state.get('steps', '?')}{loss}", highlight=False
            )
