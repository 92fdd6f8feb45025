from pathlib import Path

import pytest

from mixlab.merge.planning._folders import model_folder
from mixlab.merge.planning._planning import plan_merge
from mixlab.merge.planning._recipe import Recipe, load_recipe
from mixlab.spec import MixlabError, SpecError

GOOD = """\
method: linear
models:
  - {model: a, weight: 0.25}
  - model: b
    weight: 0.75
settings: {normalize: true}
seed: 3
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_recipe(write(folder, text))
    return str(caught.value)


def test_a_file_and_the_same_as_a_mapping_are_one_recipe(tmp_path: Path) -> None:
    from_file = load_recipe(write(tmp_path, GOOD))
    mapping = {
        "method": "linear",
        "models": [{"model": Path("a"), "weight": 0.25}, {"model": "b", "weight": 0.75}],
        "settings": {"normalize": True},
        "seed": 3,
    }
    assert from_file.plain() == load_recipe(mapping).plain()
    assert from_file.models[1].settings == {"weight": 0.75}
    assert load_recipe(from_file.plain()).plain() == from_file.plain()


def test_a_model_alone_may_be_its_folder() -> None:
    recipe = load_recipe({"method": "linear", "models": ["a", Path("b")], "scope": "model.*"})
    assert [entry.model for entry in recipe.models] == ["a", "b"]
    assert recipe.scope == ["model.*"]


def test_overrides_reach_lists_and_name_themselves(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert load_recipe(path, overrides=["models.0.weight=0.5"]).models[0].settings["weight"] == 0.5
    with pytest.raises(SpecError, match=r"--set models\.0\.weight=x: linear: weight"):
        load_recipe(path, overrides=["models.0.weight=x"])


@pytest.mark.parametrize(
    ("change", "line", "told"),
    [
        (("seed: 3", "sed: 3"), 7, "unknown key 'sed'; did you mean 'seed'?"),
        (("method: linear", "method: linaer"), 1, "did you mean 'linear'?"),
        (
            ("    weight: 0.75", "    wieght: 0.75"),
            5,
            "unknown key 'wieght'; did you mean 'weight'",
        ),
        (("    weight: 0.75", "    normalize: true"), 5, "put it under `settings:`"),
        (("normalize: true", "normalise: true"), 6, "did you mean 'normalize'?"),
        (("    weight: 0.75", "    weight: heavy"), 5, "weight: "),
        (("    weight: 0.75", "    weight: .nan"), 5, "expected a finite number"),
        (("method: linear", "method: wise_ft"), 1, "'alpha' is missing"),
        (("method: linear", "method: wise_ft"), 2, "wise_ft merges 1 models beside the base"),
        (("seed: 3", "out_dtype: int8"), 7, "out_dtype"),
        (("seed: 3", "scope: []"), 7, "scope"),
        (("seed: 3", "base: a"), 2, "has no base"),
        (("seed: 3", "seed: -1"), 7, "seed"),
    ],
)
def test_mistakes_name_line_and_mend(
    tmp_path: Path, change: tuple[str, str], line: int, told: str
) -> None:
    message = refused(tmp_path, GOOD.replace(*change))
    assert any(
        one.startswith(f"{tmp_path}/recipe.yaml:{line}: ") and told in one
        for one in message.splitlines()
    ), message


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    message = refused(tmp_path, GOOD.replace("0.25", "x").replace("normalize", "norm"))
    assert len(message.splitlines()) == 2


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system ['true']", "!custom x"])
def test_tags_are_refused(tmp_path: Path, tag: str) -> None:
    message = refused(tmp_path, GOOD.replace("seed: 3", f"name: {tag}"))
    assert "recipe.yaml:7" in message
    assert "not valid YAML" in message


def test_a_mergekit_file_is_told_apart(tmp_path: Path) -> None:
    assert "mergekit" in refused(tmp_path, "merge_method: linear\nmodels: [{model: a}]\n")


def test_placeholders_are_filled(tmp_path: Path) -> None:
    recipe = load_recipe(
        {
            "method": "wise_ft",
            "base": "reference",
            "models": ["vlm"],
            "settings": {"alpha": 0.5},
            "target": "vlm",
        },
        models={"vlm": tmp_path / "v", "reference": "r"},
    )
    assert recipe.folder("vlm") == str(tmp_path / "v")
    plain = recipe.plain()
    assert (plain["base"], plain["target"]) == ("r", str(tmp_path / "v"))
    assert plain["models"] == [{"model": str(tmp_path / "v")}]


def test_an_unknown_placeholder_is_named() -> None:
    with pytest.raises(SpecError, match=r"--model vml=x: .*did you mean 'vlm'"):
        load_recipe({"method": "linear", "models": ["vlm", "b"]}, models={"vml": "x"})


def test_packaged_recipes_ask_for_their_folders() -> None:
    from mixlab.merge.recipes import named_recipes

    for name in named_recipes():
        with pytest.raises(SpecError, match=r"--model vlm=DIR"):
            load_recipe(name)
        text = named_recipes()[name].read_text()
        roles = [role for role in ("vlm", "reference", "ancestor") if f": {role}" in text]
        recipe = load_recipe(name, models={role: role[0] for role in roles})
        assert recipe.plain()["models"][0]["model"] == "v"
    with pytest.raises(SpecError, match="neither a file nor a packaged recipe"):
        load_recipe("no_such_recipe")


def test_a_missing_file_is_no_packaged_recipe(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        load_recipe(tmp_path / "missing.yaml")


def test_a_method_given_for_a_recipe_is_told() -> None:
    with pytest.raises(SpecError, match="ties: is a method; write a file with `method: ties`"):
        load_recipe("ties")


def test_an_adapter_behind_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match=r"MODEL\+ADAPTER\) is for mergekit's files alone"):
        model_folder(f"{tmp_path}+{tmp_path}/adapter")


@pytest.mark.parametrize("name", ["a+b", "a@main", "org/a+b@c", "with space"])
def test_local_paths_may_hold_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert model_folder(name) == Path(name)


def test_only_what_reads_as_a_hub_id_goes_to_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []

    def fetch(name: str, revision: str | None = None, **_: object) -> str:
        asked.append((name, revision))
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for given in ["missing", "./org/name", "/no/such", "models/name", "a/b/c", "../x/y"]:
        with pytest.raises(MixlabError, match="no such model folder"):
            model_folder(given)
    assert asked == []
    for given in ["org/name", "org/name@v1"]:
        with pytest.raises(MixlabError, match=r"no network.*path of a folder"):
            model_folder(given)
    assert asked == [("org/name", None), ("org/name", "v1")]


def test_a_bare_word_may_be_a_placeholder() -> None:
    with pytest.raises(MixlabError, match="--model vlm=DIR"):
        model_folder("vlm", placeholders=True)
    with pytest.raises(MixlabError, match=r"check the path$"):
        model_folder("vlm")  # as in mergekit's files, which have none


def test_a_folder_that_a_placeholder_was_filled_with_is_told_by_it(tmp_path: Path) -> None:
    models = {"vlm": tmp_path / "no", "reference": tmp_path / "none"}
    with pytest.raises(MixlabError) as caught:
        plan_merge(load_recipe("audit-uniform", models=models))
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        f"--model {name}={folder}" for name, folder in models.items()
    ]


def test_offline_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(MixlabError, match=r"org/name: .* cannot be fetched"):
        model_folder("org/name")
    assert list(tmp_path.iterdir()) == []


def test_settings_of_a_method_do_not_hide_keys_of_a_model() -> None:
    from mixlab.merge import get_method, method_names
    from mixlab.merge._method import spelled

    for name in method_names():
        method = get_method(name)
        own = {spelled(key) for key in (*method.each.model_fields, *method.shared.model_fields)}
        assert not own & {"model", "names"}
        assert not own & set(Recipe.model_fields)
