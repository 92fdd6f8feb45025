"""Methods that users define."""

import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import mixlab
from mixlab.merge import Context, get_method, linear, merge_method, merge_state_dicts, method_names
from mixlab.merge._method import _registry as methods
from mixlab.spec import MixlabError, registry


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    return


def define(factor: float):
    @merge_method(source="a test", base="none", models=(1, 1))
    def own(tensors, base=None, *, by: float = factor) -> torch.Tensor:
        """theta = by * x"""
        return tensors[0] * by

    return own


def test_a_method_of_ones_own_is_known_by_name_and_may_be_defined_again():
    own = define(2.0)
    x = torch.tensor([1.0, 3.0])
    assert own([x]).tolist() == [2, 6]
    assert "own" in method_names()
    assert merge_state_dicts("own", [{"w": x}], settings={"by": 3})["w"].tolist() == [3, 9]
    define(5.0)  # as a notebook's cell that is run twice
    assert get_method("own").function([x]).tolist() == [5, 15]


def test_a_name_that_is_taken_is_refused_and_nothing_is_changed():
    before = get_method("linear")
    with pytest.raises(MixlabError, match=r"'linear' is defined by mixlab\.merge\.methods"):

        @merge_method(source="a test", base="none")
        def linear(tensors, base=None, *, other: float = 1.0) -> torch.Tensor:
            return tensors[0]

    assert get_method("linear") is before


def test_signatures_that_would_be_misread_are_refused():
    def no_base(tensors, *, by: float = 1.0) -> torch.Tensor: ...
    def no_star(tensors, base=None, by: float = 1.0) -> torch.Tensor: ...
    def no_type(tensors, base=None, *, by=1.0) -> torch.Tensor: ...

    for formula, message in (
        (no_base, r"expected `no_base\(tensors, base, \*, …\)`"),
        (no_star, r"put `\*` before 'by'"),
        (no_type, "'by' needs a type"),
    ):
        with pytest.raises(MixlabError, match=message):
            merge_method(source="a test", base="none")(formula)


def test_what_is_no_dense_tensor_is_refused():
    x = torch.ones(2, 2)
    for given, message in (
        (x, "put this one in a list"),
        ([1.0, 2.0], "found float; expected a tensor"),
        ([x, x.numpy()], "found ndarray; expected a tensor"),
        ([x.to_sparse(), x.to_sparse()], "quantised or sparse"),
    ):
        with pytest.raises(MixlabError, match=message):
            linear(given)


def test_a_view_of_an_input_is_not_handed_out():
    @merge_method(source="a test", base="none")
    def view(tensors, base=None) -> torch.Tensor:
        return tensors[0].flatten()[:4].view(2, 2).T

    x = torch.arange(4.0).view(2, 2)
    view([x]).fill_(7)
    assert x.flatten().tolist() == [0, 1, 2, 3]


def test_settings_given_again_are_the_same_and_nobody_shares_them():
    method = get_method("ties")
    first = method.settings({"density": [0.2, 0.5]}, 2)
    first["density"] = "written over"
    assert method.settings({"density": (0.2, 0.5)}, 2)["density"] == (0.2, 0.5)
    assert method.settings({"density": 0.2}, 3)["density"] == (0.2, 0.2, 0.2)
    assert method.settings({"normalize": True}, 1)["normalize"] is True
    for value in (True, 1, 1.0):  # equal in Python, but only one is a share
        given = {"weight": value}
        assert [type(w) for w in method.settings(given, 1)["weight"]] == [float]
    zero, minus = (method.settings({"weight": w}, 1)["weight"][0] for w in (0.0, -0.0))
    assert (math.copysign(1, zero), math.copysign(1, minus)) == (1, -1)
    for _ in range(2):  # what is refused once is refused again
        with pytest.raises(MixlabError, match=r"density: .*found 2"):
            method.settings({"density": 2}, 1)


def test_float8_is_mixed_in_float32_by_the_formula():
    x, y = (torch.tensor([1.0, v], dtype=torch.float8_e4m3fn) for v in (-2.0, 4.0))
    theta = linear([x, y])
    assert (theta.dtype, theta.float().tolist()) == (torch.float8_e4m3fn, [1, 1])
    method = get_method("ties")
    settings = method.settings({}, 1)
    wide = method.apply([y], x, settings, Context(), dtype=torch.float32)
    assert wide.tolist() == [1, 4]
    assert merge_state_dicts("linear", [{"w": x}, {"w": y}])["w"].float().tolist() == [1, 1]


@pytest.mark.slow
def test_a_users_script_passes_mypy_strict(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch

            from mixlab.merge import MergePath, PerModel, Tensors, merge_method, ties


            @merge_method(source="mine", base="required")
            def mine(
                tensors: Tensors, base: torch.Tensor | None, *, weight: PerModel[float] = 1.0
            ) -> torch.Tensor:
                assert base is not None
                return base + torch.stack([x - base for x in tensors]).sum(0)


            a, b = torch.zeros(3), torch.ones(3)
            merged: torch.Tensor = ties([a, b], a, density=[0.2, 0.5], elect="unweighted")
            own: torch.Tensor = mine([b], a, weight=0.5)
            with MergePath({"w": a}, {"w": b}) as path:
                path.set_alpha(0.5)
            """
        )
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # mypy does not look into every form of an editable installation.
        env={**os.environ, "MYPYPATH": str(Path(mixlab.__file__).parents[1])},
    )
    assert run.returncode == 0, run.stdout
