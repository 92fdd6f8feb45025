import json
import shutil

import numpy as np
import pytest
from PIL import Image
from tiny_pair import write_pair

from mixlab.models import load_encoder, load_model
from mixlab.spec import MixlabError


def test_paths_and_pictures_give_the_same_pixels(vlm, tmp_path):
    picture = Image.fromarray(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3))
    picture.save(tmp_path / "a.png")
    by_path = vlm.encoder.images.read(tmp_path / "a.png")
    assert np.array_equal(by_path, vlm.encoder.images.read(picture))
    # SigLIP's processor: (x / 255 - 0.5) / 0.5, channels first.
    expected = np.asarray(picture, np.float32).transpose(2, 0, 1) / 255 * 2 - 1
    np.testing.assert_allclose(by_path, expected, atol=1e-5)


def test_missing_and_truncated_images_are_named(vlm, tmp_path):
    with pytest.raises(MixlabError, match=r"none\.png: the image is missing"):
        vlm.encoder.images.read(tmp_path / "none.png")
    path = tmp_path / "cut.png"
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(MixlabError, match=r"cut\.png: truncated or not an image"):
        vlm.encoder.images.read(path)


def test_a_changed_file_is_read_again(vlm, tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (16, 16), "red").save(path)
    first = vlm.encoder.images.read(path)
    Image.new("RGB", (17, 16), "blue").save(path)
    assert not np.array_equal(vlm.encoder.images.read(path), first)


def test_without_a_processor_the_error_says_how_to_mend(folders, tmp_path):
    folder = shutil.copytree(folders[1], tmp_path / "vlm")
    (folder / "preprocessor_config.json").unlink()
    encoder = load_encoder(folder)
    assert len(encoder.encode_prompt("hi").input_ids) > 0
    with pytest.raises(MixlabError, match=r"no image processor .*preprocessor_config\.json"):
        encoder.encode_prompt("hi", Image.new("RGB", (4, 4)))


@pytest.mark.parametrize("strategy", ["full", "default"])
def test_the_count_is_the_models_own(tmp_path, strategy):
    folder = write_pair(tmp_path)[1]
    config = json.loads((folder / "config.json").read_text())
    config["vision_feature_select_strategy"] = strategy
    (folder / "config.json").write_text(json.dumps(config))
    images = load_model(folder).encoder.images
    assert images.count(np.zeros((3, 16, 16), np.float32)) == (4 if strategy == "full" else 3)


def test_a_lying_count_is_found_at_the_first_image(folders, tmp_path):
    folder = shutil.copytree(folders[1], tmp_path / "vlm")
    (folder / "processor_config.json").write_text('{"num_additional_image_tokens": 1}')
    loaded = load_model(folder)
    with pytest.raises(MixlabError, match="takes 5 tokens, but the model gives 4 features"):
        loaded.encoder.encode_prompt("hi", Image.new("RGB", (4, 4)))
