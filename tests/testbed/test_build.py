import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mixlab.models import load_model
from mixlab.score import load_task
from mixlab.spec import MixlabError
from mixlab.testbed import TestbedFolder, build, naive
from mixlab.testbed.items import CONSTRUCTS

MICRO = """
import sys
from pathlib import Path
from mixlab.testbed import build
build(Path(sys.argv[1]), "micro", progress=lambda stage, share: print(stage, share, flush=True))
"""


def _visible(root: Path) -> list[str]:
    return [p.name for p in root.iterdir() if not p.name.startswith(".")]


def test_a_finished_build_is_kept(micro_testbed: TestbedFolder) -> None:
    began = time.monotonic()
    again = build(micro_testbed.path.parent, "micro")
    assert again == micro_testbed
    assert time.monotonic() - began < 2.0
    assert not list(micro_testbed.path.parent.glob(".micro*.parts"))


def test_language_model_of_the_vlm_is_the_reference_bit_for_bit(
    micro_testbed: TestbedFolder,
) -> None:
    vlm, reference = load_model(micro_testbed.vlm), load_model(micro_testbed.reference)
    assert vlm.backbone_digest() == reference.backbone_digest()
    picture = micro_testbed.tasks / "images" / "test-00000.png"
    prompt = vlm.encoder.encode_prompt("what colour is the circle?", picture)
    assert (prompt.input_ids == vlm.encoder.image_token_id).sum() == 9
    with torch.no_grad():
        logits = vlm.model(
            input_ids=torch.from_numpy(prompt.input_ids).long()[None],
            pixel_values=torch.from_numpy(prompt.pixel_values)[None],
        ).logits
    assert torch.isfinite(logits).all()


def test_saved_processor_gives_the_pixels_that_the_tower_was_taught_on(
    micro_testbed: TestbedFolder,
) -> None:
    from PIL import Image

    from mixlab.testbed.tower import to_pixels

    picture = micro_testbed.data / "images" / "train-00000.png"
    prompt = load_model(micro_testbed.vlm).encoder.encode_prompt("read the word.", picture)
    ours = to_pixels([Image.open(picture)])[0]
    assert torch.allclose(torch.from_numpy(prompt.pixel_values), ours, atol=1e-6)


def test_every_task_loads_and_world_json_holds_its_truth(micro_testbed: TestbedFolder) -> None:
    truth = json.loads((micro_testbed.path / "world.json").read_text())
    facts = {(f["entity"], f["relation"]): f["value"] for f in truth["facts"]}
    for construct in CONSTRUCTS:
        task = load_task(micro_testbed.tasks / f"{construct}.yaml")
        assert task.construct == construct
        assert task.in_splits(["dev"])
        assert task.in_splits(["test"])
        if construct == "knowledge":
            assert all(facts[i.cluster, i.kind] == i.answer for i in task.items)
        if construct == "vision":
            assert {f"tasks/images/{i.image.name}" for i in task.items if i.image} == set(
                truth["pictures"]
            )


def test_micro_learns_something(micro_testbed: TestbedFolder) -> None:
    figures = micro_testbed.info()["reference"]
    assert figures["knowledge:rehearsed"] > 0.5
    assert figures["knowledge:never_taught"] < 0.5


def test_killed_build_leaves_nothing_half_and_the_next_one_finishes(
    tmp_path: Path, micro_testbed: TestbedFolder
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", MICRO, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("files"):
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    assert _visible(tmp_path) == []
    parts = next(tmp_path.glob(".micro-*.parts"))
    taught = (parts / "reference" / "model.safetensors").stat().st_mtime_ns
    stages: list[str] = []
    made = build(tmp_path, "micro", progress=lambda stage, share: stages.append(stage))
    assert "reference" not in stages
    assert taught <= (made.reference / "model.safetensors").stat().st_mtime_ns
    assert _visible(tmp_path) == [made.path.name]
    for name in ("reference", "vlm"):
        weights = [f.path / name / "model.safetensors" for f in (made, micro_testbed)]
        assert weights[0].read_bytes() == weights[1].read_bytes()


def test_unknown_size_and_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match="unknown testbed size 'huge'"):
        build(tmp_path, "huge")
    with pytest.raises(MixlabError, match="no operations named multiply"):
        naive(tmp_path, "micro", operations=["multiply"])
    with pytest.raises(MixlabError, match="leaves something out"):
        naive(tmp_path, "micro")


def test_naive_lineage_lacks_what_it_was_not_taught(micro_testbed: TestbedFolder) -> None:
    from mixlab.testbed.figures import text_figures
    from mixlab.testbed.settings import SIZES
    from mixlab.testbed.world import make_world

    folder = naive(micro_testbed.path.parent, "micro", entities=["tested"])
    loaded = load_model(folder)
    world = make_world(SIZES["micro"].world, seed=0)
    figures = text_figures(loaded.model, loaded.encoder.tokenizer, world.items)
    assert figures["knowledge:rehearsed"] > 0.5
    assert figures["knowledge:tested"] < 0.5
    assert loaded.encoder.digest == load_model(micro_testbed.reference).encoder.digest
