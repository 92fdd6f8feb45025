import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.checkpoint import digest_state
from mixlab.merge import MergePath, wise_ft
from mixlab.spec import MixlabError


def state(seed: int, rows: int = 6, dtype: torch.dtype = torch.float32) -> dict:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(rows, 4, generator=generator).to(dtype)
    return {
        "model.embed_tokens.weight": table,
        "model.layers.0.mlp.up_proj.weight": torch.randn(3, 4, generator=generator).to(dtype),
        "model.norm.weight": torch.randn(4, generator=generator).to(dtype),
        "lm_head.weight": table,
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_back_and_forth_is_exact(dtype):
    live, reference = state(0, dtype=dtype), state(1, dtype=dtype)
    tuned = {n: t.clone() for n, t in live.items()}
    path = MergePath(live, reference)
    seen: dict[float, str] = {}
    for alpha in (0.5, 0, 1, 0.25, 0.5, 1, 0, 0.25):
        path.set_alpha(alpha)
        assert seen.setdefault(alpha, digest_state(live)) == digest_state(live)
    path.set_alpha(0)
    assert all(torch.equal(live[n], reference[n]) for n in live)
    path.set_alpha(0.25)
    assert torch.equal(
        live["model.norm.weight"],
        wise_ft([tuned["model.norm.weight"]], reference["model.norm.weight"], alpha=0.25),
    )
    path.restore()
    assert all(torch.equal(live[n], tuned[n]) for n in live)
    assert path.alpha == 1


def test_tied_weights_are_mixed_once_and_stay_tied():
    live = state(0)
    path = MergePath(live, state(1))
    path.set_alpha(0.5)
    assert live["lm_head.weight"].data_ptr() == live["model.embed_tokens.weight"].data_ptr()
    report = {entry.name: entry for entry in path.report}
    assert report["model.embed_tokens.weight"].tied == ("lm_head.weight",)
    assert "lm_head.weight" not in report
    assert len(path.report) == 3


def test_a_reference_from_disk_lacks_the_tied_name():
    reference = state(1)
    expected = reference.pop("lm_head.weight")
    live = state(0)
    MergePath(live, reference).set_alpha(0)
    assert torch.equal(live["lm_head.weight"], expected)


def test_rows_beyond_the_references_stay():
    live, reference = state(0, rows=8), state(1, rows=6)
    before = live["lm_head.weight"].clone()
    path = MergePath(live, reference)
    path.set_alpha(0)
    assert torch.equal(live["lm_head.weight"][:6], reference["lm_head.weight"])
    assert torch.equal(live["lm_head.weight"][6:], before[6:])
    assert (path.report[0].mixed_rows, path.report[0].kept_rows) == (6, 2)


def test_every_misfit_is_listed_and_nothing_written():
    live, reference = state(0), state(1)
    reference["model.norm.weight"] = torch.zeros(5)
    reference["model.layers.1.mlp.up_proj.weight"] = torch.zeros(3, 4)
    del reference["model.layers.0.mlp.up_proj.weight"]
    before = digest_state(live)
    with pytest.raises(MixlabError) as error:
        MergePath(live, reference)
    text = str(error.value)
    assert "3 places" in text
    assert "model.norm.weight: [4] in the model, [5]" in text
    assert "model.layers.1.mlp.up_proj.weight: the model lacks it" in text
    assert "model.layers.0.mlp.up_proj.weight: the reference lacks it" in text
    assert digest_state(live) == before


def test_a_shorter_vocabulary_and_an_untied_reference_are_refused():
    with pytest.raises(MixlabError, match=r"\[5, 4\] in the model, \[6, 4\]"):
        MergePath(state(0, rows=5), state(1, rows=6))
    reference = state(1)
    reference["lm_head.weight"] = reference["lm_head.weight"] + 1
    with pytest.raises(MixlabError, match="separate in the reference"):
        MergePath(state(0), reference)


def test_the_context_restores_after_an_error():
    live = state(0)
    before = digest_state(live)

    def walk() -> None:
        with MergePath(live, state(1)) as path:
            path.set_alpha(0.5)
            path.set_alpha(2)

    with pytest.raises(MixlabError, match="alpha is 2"):
        walk()
    assert digest_state(live) == before


def blocks(seed: int, layers: int = 4, dtype: torch.dtype = torch.bfloat16) -> dict:
    made = torch.Generator().manual_seed(seed)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=made).to(dtype)

    table = values(9, 4)
    state = {"lm_head.weight": table, "model.embed_tokens.weight": table}
    for i in range(layers):
        state[f"model.layers.{i}.self_attn.q_proj.weight"] = values(4, 4)
        state[f"model.layers.{i}.mlp.up_proj.weight"] = values(5, 4)
    return state


STEPS = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0, 1]),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
    st.builds(lambda v, f: {"late": v, "from": f}, st.floats(0, 1), st.floats(0, 0.7)),
    st.builds(lambda v: [{"module": "mlp", "value": v}], st.floats(0, 1)),
    st.builds(lambda v: {"lines": {"alpha": v}}, st.floats(0, 1)),
)


@given(st.lists(STEPS, max_size=4), STEPS, st.sampled_from([torch.float32, torch.bfloat16]))
@settings(max_examples=60, deadline=None)
def test_no_order_of_visits_matters(before, last, dtype):
    live, reference = blocks(0, dtype=dtype), blocks(1, dtype=dtype)
    tuned = {n: t.clone() for n, t in live.items()}
    kept = digest_state(reference)
    path = MergePath(live, reference)
    for step in before:
        path.set_alpha(step)
    path.set_alpha(last)
    fresh = {n: t.clone() for n, t in blocks(0, dtype=dtype).items()}
    fresh["lm_head.weight"] = fresh["model.embed_tokens.weight"]
    MergePath(fresh, reference, threads=1).set_alpha(last)
    assert digest_state(fresh) == digest_state(live)
    for name, alpha in path.alphas.items():
        assert torch.equal(live[name], wise_ft([tuned[name]], reference[name], alpha=alpha))
    path.restore()
    assert all(torch.equal(live[n], tuned[n]) for n in live)
    assert digest_state(reference) == kept


def test_a_schedule_leaves_what_it_does_not_name_the_tuned_models():
    live, reference = blocks(0), blocks(1)
    tuned = {n: t.clone() for n, t in live.items()}
    path = MergePath(live, reference)
    path.set_alpha(0.5)
    path.set_alpha({"late": 0, "from": 0.5})
    for name, tensor in live.items():
        late = name.startswith(("model.layers.2", "model.layers.3"))
        assert torch.equal(tensor, (reference if late else tuned)[name])
    path.set_alpha([{"module": "embeddings", "value": 0}, {"module": "mlp", "value": [0, 1]}])
    assert torch.equal(live["lm_head.weight"], reference["lm_head.weight"])
    assert path.alphas == {
        "model.embed_tokens.weight": 0,
        **{f"model.layers.{i}.self_attn.q_proj.weight": 1 for i in range(4)},
        **{f"model.layers.{i}.mlp.up_proj.weight": pytest.approx(i / 3) for i in range(4)},
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([0, 1.5], "expected 0"),
        ({"layers": [1, 1, 1]}, "3 values, the model has 4 layers"),
        ({"match": "mlp", "value": 0}, "did you mean"),
        ({"module": "lm_head", "value": 0}, "matches nothing"),
        (True, "expected 0"),
        ("half", "expected 0"),
        (-0.1, "expected 0"),
        (float("nan"), "not finite"),
    ],
)
def test_a_wrong_schedule_writes_nothing(wrong, message):
    live = blocks(0)
    before = digest_state(live)
    path = MergePath(live, blocks(1))
    with pytest.raises(MixlabError, match=message):
        path.set_alpha(wrong)
    assert digest_state(live) == before
    assert path.alpha == 1


def test_integers_that_differ_are_refused_before_anything_is_written():
    live, reference = state(0), state(1)
    live["model.steps"], reference["model.steps"] = torch.tensor([1]), torch.tensor([1])
    MergePath(live, reference).set_alpha(0.5)
    assert live["model.steps"].item() == 1
    reference["model.steps"] = torch.tensor([2])
    with pytest.raises(MixlabError, match=r"steps: torch\.int64 values differ"):
        MergePath(live, reference)


def test_live_parameters_transposed_and_of_another_precision():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 5).T)
            self.scale = torch.nn.Parameter(torch.randn(7, dtype=torch.float64))

    torch.manual_seed(0)
    net, other = Net(), Net().to(torch.bfloat16)
    tuned = {n: t.detach().clone() for n, t in net.state_dict().items()}
    with MergePath(net, other) as path:
        path.set_alpha(0.25)
        assert not net.weight.is_contiguous()
        expected = torch.lerp(other.weight.float(), tuned["weight"], 0.25)
        torch.testing.assert_close(net.weight.detach(), expected.detach())
        path.set_alpha(0)
        assert torch.equal(net.scale, other.scale.double())
        assert net.weight.requires_grad
    assert all(torch.equal(t, tuned[n]) for n, t in net.state_dict().items())


def test_a_model_that_was_moved_or_cast_is_told():
    net = torch.nn.Linear(3, 2)
    path = MergePath(net, {n: torch.zeros_like(t) for n, t in net.state_dict().items()})
    net.to(torch.bfloat16)
    with pytest.raises(
        MixlabError, match=r"2 tensors of the model have moved.*first (weight|bias)"
    ):
        path.set_alpha(0)
    assert bool(net.weight.any())


def test_tensors_that_cannot_be_written_to_are_told_before_anything_is():
    with torch.inference_mode():
        frozen = torch.ones(3)
    live = {"a": torch.ones(1, 3).expand(2, 3), "b": frozen, "c": torch.ones(2)}
    reference = {name: torch.zeros(tensor.shape) for name, tensor in live.items()}
    with pytest.raises(MixlabError, match=r"(?s)a: an expanded view.*b: made in .*inference_mode"):
        MergePath(live, reference)


def test_a_reference_without_values_is_refused():
    live = state(0)
    with pytest.raises(MixlabError, match="the reference is on the meta device"):
        MergePath(live, {name: tensor.to("meta") for name, tensor in live.items()})


@pytest.mark.parametrize("alpha", [np.float32(0.5), np.float64(0.5), np.array([0.5])[0]])
def test_alphas_of_numpy(alpha):
    live, reference = state(0), state(1)
    with MergePath(live, reference) as path:
        path.set_alpha(np.int64(0))
        assert torch.equal(live["model.norm.weight"], reference["model.norm.weight"])
        path.set_alpha(alpha)
        assert (path.alpha, type(path.alpha)) == (0.5, float)


def test_a_step_makes_no_second_copy_of_the_weights():
    live, reference = ({"w": torch.full((1 << 22,), float(i))} for i in (0, 1))
    path = MergePath(live, reference, threads=1)
    with torch.profiler.profile(profile_memory=True) as seen:
        path.set_alpha(0.5)
    most = max((event.self_cpu_memory_usage for event in seen.events()), default=0)
    assert most < (1 << 22) * 4 / 8
    assert torch.equal(live["w"], torch.full((1 << 22,), 0.5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_on_a_gpu_with_its_reference_on_the_cpu():
    live = {n: t.cuda() for n, t in state(0).items()}
    reference = state(1)
    tuned = {n: t.clone() for n, t in live.items()}
    with MergePath(live, reference) as path:
        path.set_alpha(0.5)
        expected = wise_ft(
            [state(0)["model.norm.weight"]], reference["model.norm.weight"], alpha=0.5
        )
        torch.testing.assert_close(live["model.norm.weight"].cpu(), expected)
        path.set_alpha(0)
        assert all(torch.equal(live[n].cpu(), reference[n]) for n in live if n != "lm_head.weight")
    assert all(torch.equal(live[n], tuned[n]) for n in live)
