import os

import pytest

from mixlab.merge.planning._side_files import side_files
from mixlab.spec import MixlabError

CARRIED = [
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "qwen.tiktoken", "tekken.json",
    "spiece.model", "chat_template.jinja", "chat_template.json",
    "additional_chat_templates/rag.jinja",
    "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
    "generation_config.json", "modeling_x.py", "tokenization_x.py", "LICENSE", "LICENSE.txt",
    "USE_POLICY.md",
]  # fmt: skip
LEFT = [
    "config.json", "model.safetensors", "model-00001-of-00002.safetensors", "pytorch_model.bin",
    "model.safetensors.index.json", "pytorch_model.bin.index.json", "README.md", ".gitattributes",
    ".cache/tokenizer.json", "optimizer.pt", "tokenizer.pt", "vocab.npy", "model.gguf",
    "tf_model.h5",
    "flax_model.msgpack", "consolidated.00.pth", "training_args.bin", "trainer_state.json",
    "merge.json", "notes.txt", "sub/tokenizer.json", "sub/x.py", "onnx/model.onnx",
    "additional_chat_templates/notes.txt", "additional_chat_templates/x.bin", ".tokenizer.json",
    "additional_chat_templates/deep/x.jinja",
]  # fmt: skip


def fill(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_what_is_carried_and_what_is_left(tmp_path):
    fill(tmp_path, CARRIED + LEFT)
    found = side_files(tmp_path)
    assert sorted(found) == sorted(CARRIED)
    assert all(path.read_text() == name for name, path in found.items())


def test_a_link_that_leaves_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    fill(folder, ["tokenizer.json"])
    (tmp_path / "secret").write_text("secret")
    (folder / "vocab.json").symlink_to("tokenizer.json")
    assert sorted(side_files(folder)) == ["tokenizer.json", "vocab.json"]
    (folder / "notes.txt").symlink_to("../secret")  # carried by nobody, so nobody's business
    assert sorted(side_files(folder)) == ["tokenizer.json", "vocab.json"]
    (folder / "x.py").symlink_to("../secret")
    with pytest.raises(MixlabError, match=r"x\.py is a link that leaves its folder"):
        side_files(folder)
    (folder / "x.py").unlink()
    (folder / "x.py").symlink_to("nowhere")
    with pytest.raises(MixlabError, match=r"x\.py: cannot be read"):
        side_files(folder)
    (folder / "x.py").unlink()
    fill(tmp_path / "elsewhere", ["a.jinja"])
    (folder / "additional_chat_templates").symlink_to("../elsewhere")
    with pytest.raises(MixlabError, match=r"a\.jinja is a link that leaves"):
        side_files(folder)


def test_a_snapshot_of_the_hub_is_carried(tmp_path):
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    for name in ("tokenizer.json", "additional_chat_templates/rag.jinja"):
        path = snapshot / name
        blob = tmp_path / "models--org--name" / "blobs" / path.name
        fill(tmp_path, [str(blob.relative_to(tmp_path))])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(blob, path.parent))
    assert sorted(side_files(snapshot)) == ["additional_chat_templates/rag.jinja", "tokenizer.json"]


def test_a_file_that_refuses_reading_is_told_before_the_merge(tmp_path, monkeypatch):
    fill(tmp_path, ["LICENSE"])
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(MixlabError, match="LICENSE cannot be read"):
        side_files(tmp_path)


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "chat_template.jinja", "generation_config.json"]
)
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused_and_not_left_out_in_silence(tmp_path, name, make):
    make(tmp_path / name)
    with pytest.raises(MixlabError, match=rf"{name}: is a folder, pipe or device, expected a file"):
        side_files(tmp_path)


def test_folders_with_names_of_folders_are_left(tmp_path):
    fill(tmp_path, ["tokenizer/tokenizer.json", "LICENSES/MIT", "vocab.json"])
    assert sorted(side_files(tmp_path)) == ["vocab.json"]
