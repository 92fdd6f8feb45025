"""Any nesting of filters and gradients resolves to the value that mergekit resolves it to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import get_method
from mixlab.merge.mergekit_yaml import read_documents
from mixlab.merge.mergekit_yaml._parameters import Resolver
from mixlab.merge.mergekit_yaml._slices import slices_of
from mixlab.spec import MixlabError

NAMES = ("model.layers.1.mlp.up_proj.weight", "model.layers.10.self_attn.q_proj.weight")
number = st.integers(-3, 3) | st.floats(-2, 2, width=16)
gradient = st.lists(number, min_size=1, max_size=5)
condition = st.fixed_dictionaries(
    {"value": number | gradient},
    optional={"filter": st.sampled_from(["mlp", "self_attn", "layers.1", "*", "nothing"])},
)
setting = number | gradient | condition | st.lists(condition, min_size=1, max_size=3)
flags = st.booleans() | st.lists(st.booleans(), min_size=1, max_size=3)


def parameters(**own: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any] | None]:
    return st.none() | st.fixed_dictionaries({}, optional=own)


both = parameters(weight=setting, **{"lambda": setting, "normalize": flags})


@settings(max_examples=200, deadline=None)
@given(
    sources=st.tuples(parameters(weight=setting), parameters(weight=setting), both),
    of_slice=both,
    of_module=both,
    of_all=both,
    share=st.none() | st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.99, 1.0]),
    name=st.sampled_from(NAMES),
)
def test_values_are_those_of_mergekit(
    sources: tuple[Any, ...],
    of_slice: Any,
    of_module: Any,
    of_all: Any,
    share: float | None,
    name: str,
) -> None:
    from mergekit.common import ModelReference
    from mergekit.config import ConfigReader, MergeConfiguration
    from mergekit.merge_methods import get
    from mergekit.parameter_resolver import resolve_parameters

    models = ("a", "b", "base")
    data = {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "parameters": of_all,
        "modules": {
            "default": {
                "parameters": of_module,
                "slices": [
                    {
                        "parameters": of_slice,
                        "sources": [
                            {"model": model, "layer_range": [0, 4], "parameters": own}
                            for model, own in zip(models, sources, strict=True)
                        ],
                    }
                ],
            }
        },
    }
    config = MergeConfiguration.model_validate(data)
    assert config.modules is not None
    module = config.modules["default"]
    assert module.slices is not None
    reader = ConfigReader(config=config, slice_out=module.slices[0], t=share or 0, module=module)
    theirs: Any
    try:
        shared, each = resolve_parameters(
            get("task_arithmetic").spec,
            tensor_name=name,
            inputs={ModelReference.parse(model): name for model in models},
            sources=reader.parameter_sources,
            base_model=config.base_model,
            t=share or 0,
        )
    except RuntimeError:  # a weight is given nowhere
        theirs = None
    else:
        weights = [each[ModelReference.parse(model)]["weight"] for model in ("a", "b")]
        theirs = {"weight": weights, "lambda": shared["lambda"], "normalize": shared["normalize"]}
    (document,) = read_documents(data)
    (part,) = slices_of(document)
    resolver = Resolver(document, get_method("task_arithmetic"))
    resolver.check([part])
    inputs = {source.model: name for source in part.sources[:2]}
    if theirs is None:
        with pytest.raises(MixlabError, match="needs 'weight'"):
            resolver.resolve(part, name, inputs, share)
        return
    found = {"lambda": 1.0, "normalize": False, **resolver.resolve(part, name, inputs, share)}
    assert found == theirs
