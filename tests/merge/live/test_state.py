import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mergekit.merge_methods import merge_state_dicts as mergekit_merge

import mixlab.merge
from mixlab.merge import MergePath, fisher, get_method, merge_state_dicts
from mixlab.merge.live._writing import PIECE
from mixlab.spec import MixlabError

LAYERS = 3


def model(seed: int, dtype: torch.dtype = torch.float32, tied: bool = False) -> dict:
    made = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=made).to(dtype)

    state = {"model.embed_tokens.weight": values(9, 4)}
    for i in range(LAYERS):
        state[f"model.layers.{i}.self_attn.q_proj.weight"] = values(4, 4)
        state[f"model.layers.{i}.mlp.up_proj.weight"] = values(5, 4)
        state[f"model.layers.{i}.input_layernorm.weight"] = values(4)
    state["model.norm.weight"] = values(4)
    state["lm_head.weight"] = state["model.embed_tokens.weight"] if tied else values(9, 4)
    state["visual.blocks.0.mlp.fc1.weight"] = values(3, 3)
    state["visual.position_ids"] = torch.arange(5)
    return state


def same(a: dict, b: dict) -> bool:
    return list(a) == list(b) and all(torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("method", "base", "given"),
    [
        ("linear", False, {"weight": [0.3, 0.9]}),
        ("linear", False, {"weight": [0.3, 0.9], "normalize": False}),
        ("slerp", True, {"t": 0.3}),
        ("task_arithmetic", True, {"weight": [0.3, 0.9]}),
        ("ties", True, {"weight": [0.5, 0.7], "density": 0.4}),
        ("karcher", False, {}),
    ],
)
def test_values_are_mergekits(method, base, given, dtype):
    theirs = dict(given)
    states = {"a": model(0, dtype), "b": model(1, dtype)}
    origin = model(2, dtype) if base else None
    if method == "slerp":
        states, origin = {"b": states["b"]}, states["a"]
    elif base:
        weights = dict(zip("ab", given["weight"], strict=True))
        theirs["weight"] = {**weights, "o": 0.0}
        if "density" in given:
            theirs["density"] = {"a": given["density"], "b": given["density"], "o": 1.0}
    expected = mergekit_merge(
        {**({"o": origin} if base else {}), **states},
        method,
        parameters=theirs,
        base="o" if base else None,
        dtype=torch.float32,
    )
    found = merge_state_dicts(method, states, base=origin, settings=given)
    # Both compute in float32; ours is rounded once to the input's dtype.
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for name, tensor in found.items():
        assert tensor.dtype == states["b"][name].dtype
        torch.testing.assert_close(
            tensor.to(torch.float32),
            expected[name].to(torch.float32),
            rtol=tolerance,
            atol=tolerance,
        )


def test_a_schedule_gives_each_tensor_its_setting_and_keeps_the_rest():
    tuned, base = model(0), model(1)
    found = merge_state_dicts("wise_ft", [tuned], base=base, settings={"alpha": [0.0, 1.0]})
    for i, alpha in enumerate([0, 0.5, 1]):
        for leaf in ("self_attn.q_proj", "mlp.up_proj", "input_layernorm"):
            name = f"model.layers.{i}.{leaf}.weight"
            assert torch.equal(found[name], torch.lerp(base[name], tuned[name], float(alpha)))
    for name in ("lm_head.weight", "model.norm.weight", "visual.blocks.0.mlp.fc1.weight"):
        assert found[name].data_ptr() == tuned[name].data_ptr()


def test_a_module_rule_and_a_scope_leave_the_tower_alone():
    tuned, base = model(0), model(1)
    rule = {"module": "mlp", "value": 0.0}
    for found in (
        merge_state_dicts("wise_ft", [tuned], base=base, settings={"alpha": rule}),
        merge_state_dicts(
            "wise_ft", [tuned], base=base, settings={"alpha": 0}, scope="model.*.mlp.*"
        ),
    ):
        changed = {n for n in found if not torch.equal(found[n], tuned[n])}
        assert changed == {f"model.layers.{i}.mlp.up_proj.weight" for i in range(LAYERS)}
        assert all(torch.equal(found[n], base[n]) for n in changed)


def test_each_model_may_have_its_own_schedule():
    a, b = model(0), model(1)
    found = merge_state_dicts(
        "linear",
        [a, b],
        settings={"weight": [[1.0, 0.0], [0.0, 1.0]], "normalize": {"value": True}},
        scope="model.layers.*",
    )
    for i, share in enumerate([0, 0.5, 1]):
        name = f"model.layers.{i}.mlp.up_proj.weight"
        torch.testing.assert_close(found[name], (1 - share) * a[name] + share * b[name])
    with pytest.raises(MixlabError, match="end its schedule with a rule"):
        merge_state_dicts("linear", [a, b], settings={"weight": [1.0, [0, 1]]})
    with pytest.raises(MixlabError, match="3 values for 2 models"):
        merge_state_dicts("linear", [a, b], settings={"weight": [1.0, 2.0, 3.0]})


def test_tied_tensors_are_merged_once_and_stay_tied():
    a, b = model(0, tied=True), model(1, tied=True)
    found = merge_state_dicts("linear", [a, b])
    assert found["lm_head.weight"] is found["model.embed_tokens.weight"]
    assert list(found) == list(a)
    torch.testing.assert_close(
        found["lm_head.weight"], (a["lm_head.weight"] + b["lm_head.weight"]) / 2
    )
    del b["lm_head.weight"]
    assert same(found, merge_state_dicts("linear", [a, b]))
    with pytest.raises(MixlabError, match="separate in model 1"):
        merge_state_dicts("linear", [a, model(1)])


def test_integer_buffers_are_copied_when_equal_and_refused_when_not():
    a, b = model(0), model(1)
    assert torch.equal(merge_state_dicts("linear", [a, b])["visual.position_ids"], torch.arange(5))
    b["visual.position_ids"] = torch.arange(5) + 1
    with pytest.raises(MixlabError, match=r"position_ids: torch\.int64 values differ in model 1"):
        merge_state_dicts("linear", [a, b])
    assert torch.equal(
        merge_state_dicts("linear", [a, b], scope="model.*")["visual.position_ids"], torch.arange(5)
    )


def test_every_misfit_is_listed_at_once():
    a, b = model(0), model(1)
    del b["model.norm.weight"]
    b["model.extra.weight"] = torch.zeros(2)
    b["lm_head.weight"] = torch.zeros(8, 4)
    with pytest.raises(MixlabError) as error:
        merge_state_dicts("linear", [a, b])
    text = str(error.value)
    assert "3 places" in text
    assert "model.norm.weight: model 1 lacks it" in text
    assert "model.extra.weight: the target lacks it (model 1)" in text
    assert "lm_head.weight: [9, 4] in the target, [8, 4] in model 1" in text
    b["lm_head.weight"] = torch.zeros(9, 4)
    found = merge_state_dicts("linear", [a, b], strict=False)
    assert torch.equal(found["model.norm.weight"], a["model.norm.weight"])
    assert "model.extra.weight" not in found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scope": "modle.*"}, "scope 'modle.*' matches no tensor"),
        ({"scope": []}, "scope is empty"),
        ({"settings": {"wieght": 1}}, "did you mean 'weight'"),
        ({"settings": {"weight": {"match": "mlp", "value": 1}}}, "matches nothing"),
        ({"target": 2}, "target is 2; there are 2 models"),
        ({"target": "c"}, "target 'c' is no model"),
        ({"target": "base"}, "no base is given"),
        ({"threads": 0}, "threads is 0"),
        ({"dtype": torch.int8}, "dtype is torch.int8; merged tensors need a floating dtype"),
        ({"base": model(2)}, "linear has no base"),
        ({"models": model(0)}, "this is one state dict"),
        ({"models": []}, "expected a sequence"),
        ({"models": [{"a": 1}]}, "is no model"),
    ],
)
def test_mistakes_are_told(changes, message):
    with pytest.raises(MixlabError, match=message):
        merge_state_dicts("linear", **{"models": [model(0), model(1)], **changes})


def test_the_target_gives_names_dtypes_and_what_is_kept():
    a, b, base = model(0), model(1, torch.bfloat16), model(2)
    found = merge_state_dicts("linear", {"a": a, "b": b}, target="b", scope="model.*")
    assert found["model.norm.weight"].dtype == torch.bfloat16
    assert found["lm_head.weight"].data_ptr() == b["lm_head.weight"].data_ptr()
    found = merge_state_dicts("wise_ft", [a], base=base, target="base", settings={"alpha": [1, 1]})
    assert found["lm_head.weight"].data_ptr() == base["lm_head.weight"].data_ptr()
    assert torch.equal(
        found["model.layers.0.mlp.up_proj.weight"], a["model.layers.0.mlp.up_proj.weight"]
    )
    keyed = merge_state_dicts("wise_ft", {"a": a, "o": base}, base="o", settings={"alpha": [1, 1]})
    assert torch.equal(keyed["lm_head.weight"], a["lm_head.weight"])
    of_base = merge_state_dicts(
        "wise_ft", {"a": a, "o": base}, base="o", target="o", settings={"alpha": [1, 1]}
    )
    assert torch.equal(of_base["lm_head.weight"], base["lm_head.weight"])
    half = merge_state_dicts("linear", [a, b], dtype=torch.float16)
    assert {t.dtype for t in half.values()} == {torch.float16, torch.int64}


def test_modules_and_meta_tensors():
    one, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    found = merge_state_dicts("linear", [one, other])
    torch.testing.assert_close(found["weight"], (one.weight + other.weight).detach() / 2)
    assert not found["weight"].requires_grad
    meta = merge_state_dicts("linear", [one.to("meta"), other.to("meta")], dtype=torch.bfloat16)
    assert meta["weight"].is_meta
    assert meta["weight"].shape == (2, 3)
    assert meta["weight"].dtype == torch.bfloat16


METHODS = [
    ("linear", {"weight": [0.3, 0.9]}),
    ("ties", {"density": 0.5}),
    ("dare_ties", {"density": 0.5}),
    ("della", {"density": 0.5, "epsilon": 0.1}),
    ("sce", {}),
]


@given(
    st.permutations(list(model(0))), st.sampled_from(METHODS), st.integers(1, 4), st.integers(0, 3)
)
@settings(max_examples=30, deadline=None)
def test_order_and_threads_change_no_bit(order, chosen, threads, seed):
    method, given = chosen
    states = {"a": model(0, torch.bfloat16), "b": model(1, torch.bfloat16)}
    base = model(2, torch.bfloat16) if get_method(method).base == "required" else None
    plain = merge_state_dicts(method, states, base=base, settings=given, seed=seed, threads=1)
    mixed = {key: {n: state[n] for n in order} for key, state in states.items()}
    found = merge_state_dicts(method, mixed, base=base, settings=given, seed=seed, threads=threads)
    assert list(found) == list(order)
    assert all(torch.equal(found[n], plain[n]) for n in plain)


def test_pieces_of_a_large_tensor_change_no_bit_and_threads_are_restored():
    made = torch.Generator().manual_seed(0)
    a, b = ({"w": torch.randn(PIECE + 7, generator=made)} for _ in range(2))
    before, seen = torch.get_num_threads(), []
    found = merge_state_dicts(
        "linear", [a, b], threads=3, progress=lambda done, total: seen.append((done, total))
    )
    assert torch.equal(found["w"], mixlab.merge.linear([a["w"], b["w"]]))
    assert torch.get_num_threads() == before
    assert seen[-1] == (4 * PIECE + 28, 4 * PIECE + 28)
    assert len(seen) == 2


def test_many_small_tensors_are_one_job_beside_the_large_ones():
    made = torch.Generator().manual_seed(0)
    a, b = (
        {f"w.{i}": torch.randn(1 << 15 if i % 5 == 0 else 7, generator=made) for i in range(20)}
        for _ in range(2)
    )
    seen = []
    found = merge_state_dicts(
        "linear", [a, b], threads=2, progress=lambda done, total: seen.append((done, total))
    )
    assert all(torch.equal(found[n], mixlab.merge.linear([a[n], b[n]])) for n in a)
    assert len(seen) == 4 + 1
    assert seen[-1] == (4 * (4 << 15) + 16 * 28,) * 2


def test_errors_name_the_tensor():
    with pytest.raises(MixlabError, match=r"model\.embed_tokens\.weight.*sum to 0"):
        merge_state_dicts(
            "linear", [model(0), model(1)], settings={"weight": [1.0, -1.0]}, threads=1
        )


def test_a_method_that_takes_a_further_tensor_of_each_model():
    a, b = ({"w": torch.randn(5)} for _ in range(2))
    importance = [{"w": torch.tensor([1.0, 0, 1, 3, 1])}, {"w": torch.tensor([0.0, 1, 1, 1, 3])}]
    found = merge_state_dicts("fisher", [a, b], extras=importance)
    assert torch.equal(
        found["w"], fisher([a["w"], b["w"]], importance=[i["w"] for i in importance])
    )
    with pytest.raises(
        MixlabError, match=r"fisher takes `importance` of each of the 2 models.* found 0"
    ):
        merge_state_dicts("fisher", [a, b])
    with pytest.raises(MixlabError, match="linear takes no `extras`; found 2"):
        merge_state_dicts("linear", [a, b], extras=importance)


def test_the_methods_remarks_are_gathered():
    a, notes = model(0), []
    near = {n: t + 1e-6 if t.is_floating_point() else t for n, t in a.items()}
    merge_state_dicts("slerp", [near], base=a, settings={"t": 0.5}, notes=notes, threads=2)
    assert notes
    assert notes == sorted(notes)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", ["linear", "ties"])
def test_on_a_gpu_the_formula_agrees_with_the_cpu(method):
    base = None if method == "linear" else model(2)
    here = merge_state_dicts(method, [model(0), model(1)], base=base)
    states = [{n: t.cuda() for n, t in model(seed).items()} for seed in (0, 1, 2)]
    there = merge_state_dicts(method, states[:2], base=states[2] if base else None)
    for name, tensor in here.items():
        torch.testing.assert_close(there[name].cpu(), tensor)


@pytest.mark.parametrize(
    "alpha",
    [
        0.3,
        [0, 1],
        {"layers": [0.1, None, 0.9]},
        {"lines": {"alpha": 0.2}},
        {"late": 0, "from": 0.6},
        [{"module": "mlp", "value": [1, 0]}, {"match": "lm_head.*", "value": 0.5}],
    ],
)
@pytest.mark.parametrize("tied", [True, False])
def test_a_state_dict_and_a_path_agree_on_every_schedule(alpha, tied):
    if tied and isinstance(alpha, list) and isinstance(alpha[0], dict):
        alpha = [alpha[0], {"module": "embeddings", "value": 0.5}]
    tuned, reference = model(0, torch.bfloat16, tied), model(1, torch.bfloat16, tied)
    found = merge_state_dicts("wise_ft", [tuned], base=reference, settings={"alpha": alpha})
    untouched = {n: t.clone() for n, t in tuned.items()}
    path = MergePath(tuned, reference)
    copies = {n: t.clone() for n, t in found.items()}
    path.set_alpha(alpha)
    assert same(tuned, copies)
    kept = [n for n, share in path.alphas.items() if share == 1]
    assert all(torch.equal(copies[n], untouched[n]) for n in kept)
