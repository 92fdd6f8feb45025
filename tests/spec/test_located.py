from pathlib import Path

import pytest

from mixlab.spec import SpecError, load_documents, load_yaml


def write(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text)
    return path


def test_lines_of_keys_and_items(tmp_path: Path) -> None:
    located = load_yaml(write(tmp_path, "name: x\narm:\n  steps: 3\nlist:\n  - a: 1\n  - b: 2\n"))
    assert located.data == {"name": "x", "arm": {"steps": 3}, "list": [{"a": 1}, {"b": 2}]}
    assert located.line_of(("arm", "steps")) == 3
    assert located.line_of(("list", 1, "b")) == 6
    assert located.line_of(("arm", "absent")) == 2
    assert located.at("arm").line_of(("steps",)) == 3


def test_scientific_numbers_without_a_dot_are_numbers(tmp_path: Path) -> None:
    assert load_yaml(write(tmp_path, "a: 1e-3\nb: 5.0e-4\nc: 1.5\nd: v1e3\n")).data == {
        "a": 0.001,
        "b": 0.0005,
        "c": 1.5,
        "d": "v1e3",
    }


def test_duplicate_key_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"a\.yaml:4: key 'steps' is given twice .*line 3"
    ) as caught:
        load_yaml(write(tmp_path, "name: x\narm:\n  steps: 1\n  steps: 2\n"))
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("- a\n- b\n", "expected a mapping"),
        ("a: [1, 2\nb: 3\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "not valid YAML"),
        ("a: &x\n  b: *x\n", "refers to itself"),
        ("a: 2001-99-99\n", "not valid YAML: month must be"),
        ("a: !!int abc\n", "not valid YAML"),
        ("a: !!bool abc\n", "'abc' is no value of its tag"),
        ("a: " + "1" * 5000 + "\n", "not valid YAML"),
        ("a: " + "[" * 3000 + "]" * 3000 + "\n", "nested too deeply"),
        ("a: \0\n", "not valid YAML: unacceptable character"),
    ],
)
def test_bad_yaml_is_a_spec_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_yaml(write(tmp_path, text))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        load_yaml(tmp_path / "none.yaml")


def test_alias_bomb_is_refused(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(SpecError, match="entries, aliases counted"):
        load_yaml(write(tmp_path, "\n".join(levels)))


def test_documents_keep_the_lines_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "---\na: 1\n---\n---\nb:\n  c: 2\n")
    first, second = load_documents(path)
    assert (first.data, second.data) == ({"a": 1}, {"b": {"c": 2}})
    assert second.line_of(("b", "c")) == 6
    with pytest.raises(SpecError, match=r"a\.yaml:5: holds 2 documents"):
        load_yaml(path)
    with pytest.raises(SpecError, match=r"a\.yaml:3: expected a mapping"):
        load_documents(write(tmp_path, "a: 1\n---\n- b\n"))
