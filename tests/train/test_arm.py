import subprocess
import sys

import pytest

from mixlab.mix import MixSpec, load_sources, make_plan
from mixlab.models import load_encoder, load_model
from mixlab.spec import MixlabError
from mixlab.train import ArmSettings, train_arm

SETTINGS = ArmSettings(steps=6, learning_rate=1e-3, checkpoint_every=2)


@pytest.fixture(scope="session")
def arm(micro_testbed):
    """Start, plan and sources of a small mix of text and vision."""
    spec = MixSpec(
        name="toy",
        sources=[
            {"name": "scenes", "modality": "vision", "path": "testbed:data/vision_train.jsonl"},
            {"name": "facts", "modality": "text", "path": "testbed:data/facts_rehearsed.jsonl"},
        ],
        text_fraction=0.25,
        formats={"short": 1.0},
    )
    sources = load_sources(spec, {"testbed": micro_testbed.path})
    encoder = load_encoder(micro_testbed.vlm)
    plan = make_plan(spec, sources, encoder, steps=6, batch_supervised_tokens=64, seed=0)
    return micro_testbed.vlm, plan, sources


def test_an_arm_ends_as_a_model_folder_and_is_not_trained_twice(arm, tmp_path):
    start, plan, sources = arm
    seen = []
    result = train_arm(
        start,
        plan,
        sources,
        SETTINGS,
        tmp_path / "run",
        seed=0,
        progress=lambda *about: seen.append(about[:2]),
    )
    assert seen == [(k, 6) for k in range(1, 7)]
    assert list(result.curve) == [
        "run",
        "step",
        "loss",
        "learning_rate",
        "supervised_tokens",
        "seconds",
    ]
    assert set(result.curve["run"]) == {"run"}
    assert int(result.curve["supervised_tokens"].sum()) == plan.supervised_tokens
    final = load_model(result.final)
    assert final.weights_digest() == result.weights != load_model(start).weights_digest()
    assert final.encoder.digest == load_encoder(start).digest
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "arm.json",
        "final",
        "result.json",
    ]
    seen.clear()
    again = train_arm(
        start,
        plan,
        sources,
        SETTINGS,
        tmp_path / "run",
        seed=0,
        progress=lambda *about: seen.append(about),
    )
    assert again.weights == result.weights
    assert seen == []
    assert again.curve.equals(result.curve)


def test_the_same_seed_gives_the_same_bytes_and_another_folder_is_another_run(arm, tmp_path):
    a, b = (train_arm(*arm, SETTINGS, tmp_path / name, seed=1) for name in "ab")
    weights = [r.final / "model.safetensors" for r in (a, b)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert a.weights == b.weights


def test_a_folder_of_another_arm_is_refused(arm, tmp_path):
    train_arm(*arm, SETTINGS, tmp_path, seed=0)
    other = SETTINGS.model_copy(update={"learning_rate": 2e-3})
    with pytest.raises(MixlabError, match=r"seed: 0 there, 1 asked"):
        train_arm(*arm, SETTINGS, tmp_path, seed=1)
    with pytest.raises(
        MixlabError, match=r"another arm \(learning_rate: 0\.001 there, 0\.002 asked\)"
    ):
        train_arm(*arm, other, tmp_path, seed=0)
    # How often it is saved does not decide the weights.
    train_arm(*arm, SETTINGS.model_copy(update={"checkpoint_every": 3}), tmp_path, seed=0)


def test_settings_need_no_torch():
    code = "import sys; from mixlab.train import ArmSettings; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_a_disk_without_room_is_refused_before_training(arm, tmp_path, monkeypatch):
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(MixlabError, match=r"not enough room .* 1 kB free"):
        train_arm(*arm, SETTINGS, tmp_path / "run", seed=0)
