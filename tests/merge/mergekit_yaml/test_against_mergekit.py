"""The same file through mergekit and through us gives the same tensors, to rounding."""

from __future__ import annotations

import pytest
import torch

from mixlab.merge import method_names
from tests.merge.mergekit_yaml.conftest import Run

FILES = {
    "linear": """
merge_method: linear
models:
  - {model: a, parameters: {weight: 0.5}}
  - {model: b, parameters: {weight: [0.1, 0.9]}}
dtype: float32
""",
    "linear, the base among the inputs": """
merge_method: linear
base_model: c
models: [{model: a}, {model: b}]
parameters: {weight: 0.7, normalize: false}
""",
    "ties with filters": """
merge_method: ties
base_model: a
models:
  - model: b
    parameters:
      density: [1, 0.7, 0.1]
      weight: 1.0
  - model: c
    parameters:
      density: 0.33
      weight:
        - {filter: mlp, value: 0.5}
        - {value: 0.25}
  - model: a
parameters: {normalize: true, int8_mask: true}
""",
    "slerp with gradients": """
slices:
  - sources:
      - {model: a, layer_range: [0, 4]}
      - {model: b, layer_range: [0, 4]}
merge_method: slerp
base_model: a
parameters:
  t:
    - {filter: self_attn, value: [0, 0.5, 0.3, 0.7, 1]}
    - {filter: mlp, value: [1, 0.5, 0.7, 0.3, 0]}
    - {value: 0.5}
dtype: float32
""",
    "passthrough of slices": """
slices:
  - sources: [{model: a, layer_range: [0, 3]}]
  - sources:
      - model: b
        layer_range: [1, 4]
        parameters: {scale: [{filter: o_proj, value: 0.0}, {filter: mlp, value: 2}, {value: 1}]}
  - sources: [{model: c, layer_range: [3, 4]}]
merge_method: passthrough
base_model: b
""",
    "slices of several sources at other depths": """
slices:
  - sources:
      - {model: a, layer_range: [0, 2], parameters: {weight: [0, 1]}}
      - {model: b, layer_range: [2, 4], parameters: {weight: 0.4}}
    parameters: {weight: 17}
  - sources:
      - {model: c, layer_range: [1, 2]}
      - {model: d, layer_range: [0, 1]}
    parameters: {weight: {filter: layers.2, value: [0.2, 0.9]}}
merge_method: linear
parameters: {weight: 0.3}
""",
    "a module": """
modules:
  default:
    slices:
      - sources: [{model: a, layer_range: [0, 2]}, {model: b, layer_range: [0, 2]}]
      - base_model: b
        sources: [{model: b, layer_range: [2, 4]}, {model: a, layer_range: [2, 4]}]
    parameters: {t: 0.2}
merge_method: slerp
base_model: a
parameters: {t: 0.9}
""",
    "task arithmetic": """
merge_method: task_arithmetic
base_model: a
models: [{model: b, parameters: {weight: 0.3}}, {model: c, parameters: {weight: -0.2}}]
parameters: {lambda: 1.5}
""",
    "task arithmetic of the base alone in one slice": """
merge_method: task_arithmetic
base_model: a
slices:
  - sources: [{model: a, layer_range: [0, 2]}, {model: b, layer_range: [0, 2]}]
  - sources: [{model: a, layer_range: [2, 4]}]
parameters: {weight: 0.4}
""",
    "an untied and a tied model": """
merge_method: linear
models: [{model: a}, {model: tied}]
parameters: {weight: 0.5}
""",
    "tied models": """
merge_method: linear
models: [{model: tied}]
parameters: {weight: 0.5}
""",
    "model stock": """
merge_method: model_stock
base_model: a
models: [{model: b}, {model: c}, {model: d}]
""",
    "nuslerp": """
merge_method: nuslerp
models: [{model: b, parameters: {weight: [0.2, 0.8]}}, {model: c, parameters: {weight: 0.6}}]
""",
    "multislerp": """
merge_method: multislerp
base_model: a
models: [{model: b}, {model: c}, {model: d}]
parameters: {weight: [{filter: mlp, value: 0.2}, {value: 0.4}]}
""",
    "karcher": """
merge_method: karcher
models: [{model: a}, {model: b}]
parameters: {max_iter: 5}
""",
    "sce": """
merge_method: sce
base_model: a
models: [{model: b}, {model: c}]
parameters: {select_topk: 0.3}
""",
    "nearswap": """
merge_method: nearswap
base_model: a
models: [{model: b}]
parameters: {t: 0.02}
""",
    "arcee fusion": "{merge_method: arcee_fusion, base_model: a, models: [{model: b}]}",
    "breadcrumbs": """
merge_method: breadcrumbs
base_model: a
models: [{model: b}, {model: c}]
parameters: {weight: 0.5, density: 0.7, gamma: 0.1}
""",
    "breadcrumbs ties": """
merge_method: breadcrumbs_ties
base_model: a
models: [{model: b}, {model: c}]
parameters: {weight: 0.5, density: [0.5, 0.9], gamma: 0.05}
""",
    "dare at density 1": """
merge_method: dare_ties
base_model: a
models: [{model: b}, {model: c}]
parameters: {weight: [0.1, 0.5], density: 1}
""",
    "della at density 1": """
merge_method: della_linear
base_model: a
models: [{model: b}, {model: c}]
parameters: {weight: 0.4, density: 1.0, epsilon: 0.0}
""",
    "ram": "{merge_method: ram, base_model: a, models: [{model: b}, {model: c}]}",
    "ramplus": """
merge_method: ramplus_tl
base_model: a
models: [{model: b}]
parameters: {r: 0.2}
""",
}


@pytest.mark.parametrize("kind", FILES)
def test_tensors_and_config_are_those_of_mergekit(kind: str, theirs: Run, ours: Run) -> None:
    expected, about = theirs(FILES[kind])
    found, config = ours(FILES[kind])
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        torch.testing.assert_close(
            found[name], tensor, rtol=2e-5, atol=2e-6, msg=lambda text, n=name: f"{n}: {text}"
        )
    for key in ("num_hidden_layers", "vocab_size", "hidden_size"):
        assert config[key] == about[key]


def test_half_precision_is_rounded_once_to_out_dtype(theirs: Run, ours: Run) -> None:
    text = FILES["task arithmetic"] + "dtype: torch.float32\nout_dtype: bfloat16\n"
    expected, about = theirs(text)
    found, config = ours(text)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype == torch.bfloat16
        torch.testing.assert_close(found[name], tensor, rtol=2**-7, atol=2e-6)
    assert config["dtype"] == about["dtype"] == "bfloat16"


def test_every_method_of_mergekit_is_known_with_its_settings() -> None:
    from mergekit.merge_methods import registered_methods

    from mixlab.merge import get_method
    from mixlab.merge._method import spelled
    from mixlab.merge.mergekit_yaml._parameters import _IGNORED, _REQUIRED

    for method in registered_methods():
        assert method.spec.name in method_names()
        ours = get_method(method.spec.name)
        known = {spelled(key) for key in (*ours.shared.model_fields, *ours.each.model_fields)}
        theirs = {parameter.name: parameter for parameter in method.spec.parameters}
        # mergekit's task arithmetic knows two settings of a sparsification that it has not.
        idle = {"density", "rescale"} if method.spec.name == "task_arithmetic" else set()
        assert set(theirs) - _IGNORED - idle <= known, method.spec.name
        assert {key for key in theirs if theirs[key].required} == known & _REQUIRED
