"""What every registered method keeps to, whoever wrote it."""

import contextlib
import inspect
import itertools
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch

from mixlab.merge import Context, MergeMethod, get_method, method_names
from mixlab.merge._method import spelled
from mixlab.spec import MixlabError, registered

# Beside the defaults; a method with required settings must stand here.
SETTINGS: dict[str, dict[str, Any]] = {
    "dare_linear": {"density": 0.5},
    "dare_ties": {"density": 0.5},
    "della": {"density": 0.5},
    "della_linear": {"density": 0.5},
    "breadcrumbs": {"density": 0.5},
    "breadcrumbs_ties": {"density": 0.5},
    "ties": {"density": 0.5, "weight": [0.5, 1.0]},
    "linear": {"weight": [0.75, 0.5]},
    "lines": {"alpha": 0.5, "beta": 0.5, "weight": [0.75, 0.5]},
    "fisher": {"weight": [0.75, 0.5]},
    "multislerp": {"weight": [0.75, 0.5]},
    "nearswap": {"t": 0.01},
    "nuslerp": {"weight": [0.75, 0.5]},
    "slerp": {"t": 0.25},
    "star": {"weight": [0.75, 0.5]},
    "task_arithmetic": {"weight": [0.5, 1.0]},
    "wise_ft": {"alpha": 0.25},
}
SHAPE = (12, 16)


@pytest.fixture(params=method_names())
def method(request: pytest.FixtureRequest) -> MergeMethod:
    found = get_method(request.param)
    models = (found.shared.model_fields | found.each.model_fields).items()
    required = {spelled(key) for key, field in models if field.is_required()}
    unknown = required - set(SETTINGS.get(found.name, {}))
    assert not unknown, f"name {unknown} of {found.name} in SETTINGS"
    return found


class Case:
    """Drawn models for a method, as many as it takes, and the base if it has one."""

    def __init__(self, method: MergeMethod, shape: tuple[int, ...] = SHAPE) -> None:
        low, high = method.models
        self.count = min(max(low, 2), high or 2)
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(shape, generator=generator)
        moves = [0.1 * torch.randn(shape, generator=generator) for _ in range(self.count)]
        self.method = method
        self.tensors = [start + move for move in moves]
        self.base = None if method.base == "none" else start
        self.extras = [move.abs() for move in moves] if method.extra else []
        self.settings = {
            key: value[: self.count] if isinstance(value, list) else value
            for key, value in SETTINGS.get(method.name, {}).items()
        }
        self.context = Context(
            "model.layers.1.mlp.up_proj.weight",
            tuple("abc"[: self.count]),
            seed=3,
            layer=1,
            layers=4,
        )

    def to(self, *args: Any) -> "Case":
        """The same models in another dtype or on another device."""
        self.tensors = [x.to(*args) for x in self.tensors]
        self.base = None if self.base is None else self.base.to(*args)
        self.extras = [x.to(*args) for x in self.extras]
        return self

    def inputs(self) -> list[torch.Tensor]:
        return [*self.tensors, *([] if self.base is None else [self.base]), *self.extras]

    def merge(self, **options: Any) -> torch.Tensor:
        settings = self.method.settings(self.settings, self.count)
        return self.method.apply(
            self.tensors, self.base, settings, self.context, extras=self.extras, **options
        )


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same_bits(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.dtype == expected.dtype
    assert bits(found) == bits(expected), (found - expected).abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_result_is_new_and_like_the_first_and_inputs_stay(method, dtype):
    case = Case(method).to(dtype)
    before = [bits(x) for x in case.inputs()]
    for plain in (False, True):
        theta = case.merge(plain=plain)
        assert (theta.shape, theta.dtype, theta.device.type) == (SHAPE, dtype, "cpu")
        assert bool(theta.isfinite().all())
        theta.fill_(7)
        assert [bits(x) for x in case.inputs()] == before


def test_half_precision_is_rounded_once(method):
    case = Case(method).to(torch.bfloat16)
    wide = Case(method).to(torch.bfloat16).to(torch.float32).merge(plain=True)
    assert_same_bits(case.merge(plain=True), wide.bfloat16())
    # The fast path may round sums in another order before: a unit in the last place.
    torch.testing.assert_close(case.merge(), wide.bfloat16(), rtol=2**-7, atol=1e-6)


def test_out_dtype_is_rounded_to_once(method):
    case = Case(method).to(torch.bfloat16)
    wide = case.merge(dtype=torch.float32)
    torch.testing.assert_close(wide, case.merge(dtype=torch.float32, plain=True))
    assert_same_bits(case.merge(), wide.bfloat16())


def test_fast_path_is_the_formula_in_float32(method):
    case = Case(method)
    torch.testing.assert_close(case.merge(), case.merge(plain=True), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("plain", [False, True])
def test_a_model_merged_with_itself_is_itself_bit_for_bit(method, dtype, plain):
    if not method.identity:
        pytest.skip("the formula does not say so")
    case = Case(method).to(dtype)
    x = case.tensors[0]
    x[0, :3] = torch.tensor([-0.0, 0.0, 1e-30], dtype=dtype)
    case.tensors = [x.clone() for _ in case.tensors]
    case.base = None if case.base is None else x.clone()
    assert_same_bits(case.merge(plain=plain), x)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("of_base", [False, True])
def test_nan_is_never_hidden(method, plain, of_base):
    case = Case(method)
    if of_base and case.base is None:
        pytest.skip("has no base")
    (case.base if of_base else case.tensors[-1])[2, 5] = torch.nan
    # Chosen so that a part of the elements is dropped.
    for settings in ({}, {"density": 0.1}, {"density": 0.1, "which": "near", "unit": "row"}):
        known = method.shared.model_fields | method.each.model_fields
        case.settings |= settings if set(settings) <= set(known) else {}
        if method.name.startswith("della"):
            case.settings |= {"epsilon": 0.05}
        with contextlib.suppress(MixlabError):  # no decomposition
            theta = case.merge(plain=plain)
            assert bool(theta.isnan().any())
            assert bool(theta[2, 5].isnan()) or method.name == "permuted_direction"


def test_an_infinity_that_all_models_share_stays(method):
    if not method.identity or method.base != "required":
        pytest.skip("the formula does not say so")
    case = Case(method)
    for x in case.inputs():
        x[2, 5], x[3, 0] = -torch.inf, torch.inf
    known = method.shared.model_fields
    case.settings |= {"rescale": False} if "rescale" in known else {}
    for plain in (False, True):
        with contextlib.suppress(MixlabError):  # no decomposition
            theta = case.merge(plain=plain)
            assert (theta[2, 5].item(), theta[3, 0].item()) == (-torch.inf, torch.inf)


def test_values_near_the_end_of_the_float_range_are_no_accident(method):
    shapes = ((1,), (3, 4), (4, 1), (5000,))
    for shape, scale in itertools.product(shapes, (3e38, 1e-40, torch.inf)):
        case = Case(method, shape)
        for x in (*case.tensors, *([] if case.base is None else [case.base])):
            x.clamp_(-1, 1).mul_(scale)
        for plain in (False, True):
            with warnings.catch_warnings(), contextlib.suppress(MixlabError):
                warnings.simplefilter("error")
                case.merge(plain=plain)


def test_order_of_models_does_not_matter(method):
    if not method.symmetric:
        pytest.skip("the formula does not say so")
    case = Case(method)
    expected = case.merge(plain=True)
    case.tensors.reverse()
    case.extras.reverse()
    case.context = replace(case.context, models=case.context.models[::-1])
    case.settings = {k: v[::-1] if isinstance(v, list) else v for k, v in case.settings.items()}
    for plain in (False, True):
        torch.testing.assert_close(case.merge(plain=plain), expected, rtol=2e-6, atol=2e-6)


def test_random_bits_are_keyed_by_the_seed_and_the_name(method):
    case = Case(method)
    theta = case.merge()
    assert_same_bits(case.merge(), theta)
    name = replace(case.context, name="model.layers.2.mlp.up_proj.weight")
    for context in (replace(case.context, seed=4), name):
        case.context = context
        assert torch.equal(case.merge(), theta) != method.random


def test_threads_change_no_bit(method):
    if method.kernel is None:
        pytest.skip("sums of torch depend on threads; the engine gives a formula one")
    if method.name in ("star", "tsv"):
        pytest.skip("LAPACK's last bits follow its thread count; the engine gives each tensor one")
    case = Case(method, (300, 1024)).to(torch.bfloat16)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = case.merge()
        torch.set_num_threads(2)
        assert_same_bits(case.merge(), one)
    finally:
        torch.set_num_threads(threads)


def test_a_kernel_of_elements_does_not_see_where_it_was_cut(method):
    if method.kernel is None or method.kernel[1] != "element":
        pytest.skip("not a kernel of elements")
    case = Case(method).to(torch.bfloat16)
    settings = method.settings(case.settings, case.count)
    out = torch.empty(case.tensors[0].numel(), dtype=torch.bfloat16)
    for start, stop in ((0, 33), (33, 100), (100, out.numel())):
        method.kernel[0](
            [x.flatten()[start:stop] for x in case.tensors],
            None if case.base is None else case.base.flatten()[start:stop],
            out[start:stop],
            settings,
            case.context,
            start,
        )
    assert_same_bits(out.view(SHAPE), case.merge())


def test_strides_do_not_matter(method):
    case = Case(method)
    expected = case.merge()
    case.tensors = [x.T.contiguous().T for x in case.tensors]
    case.base = None if case.base is None else case.base.T.contiguous().T
    assert not case.tensors[0].is_contiguous()
    torch.testing.assert_close(case.merge(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (5,), (2, 3, 4)])
def test_any_shape(method, shape):
    case = Case(method, shape)
    for plain in (False, True):
        assert case.merge(plain=plain).shape == shape


def test_meta_tensors_give_meta(method):
    theta = Case(method).to("meta").merge(dtype=torch.bfloat16)
    assert (theta.shape, theta.dtype, theta.device.type) == (SHAPE, torch.bfloat16, "meta")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_what_the_cpu_gives(method):
    theta = Case(method).to("cuda").merge()
    assert theta.device.type == "cuda"
    torch.testing.assert_close(theta.cpu(), Case(method).merge(), rtol=1e-4, atol=1e-5)


def test_integers_are_copied_when_equal_and_refused_when_not(method):
    case = Case(method)
    case.extras = []
    if method.extra:
        case.extras = [torch.ones(3) for _ in case.tensors]
    case.tensors = [torch.arange(3) for _ in case.tensors]
    case.base = None if case.base is None else torch.arange(3)
    theta = case.merge()
    assert theta.tolist() == [0, 1, 2]
    assert theta.data_ptr() not in [x.data_ptr() for x in case.inputs()]
    if len(case.inputs()) - len(case.extras) > 1:
        case.tensors[0] = torch.tensor([0, 1, 3])
        with pytest.raises(MixlabError, match=r"up_proj.*differ and cannot be averaged"):
            case.merge()


def test_other_shapes_are_refused(method):
    case = Case(method)
    if len(case.inputs()) == 1:
        pytest.skip("takes one tensor")
    case.tensors[0] = torch.zeros(5)
    with pytest.raises(MixlabError, match=r"up_proj.*shapes differ: \[5\]"):
        case.merge()


def test_unknown_settings_are_refused_with_the_nearest(method):
    known = [spelled(k) for k in (method.shared.model_fields | method.each.model_fields)]
    wrong = known[0] + "s" if known else "weights"
    with pytest.raises(MixlabError, match=f"{method.name}: unknown setting '{wrong}'") as failure:
        method.settings({**SETTINGS.get(method.name, {}), wrong: 1}, 2)
    assert not known or f"'{known[0]}'" in str(failure.value)


@pytest.mark.parametrize("value", [1e300, -(10**400), "1e39", float("nan"), float("-inf")])
def test_numbers_that_float32_does_not_hold_are_refused(method, value):
    case = Case(method)
    for key in map(spelled, (*method.shared.model_fields, *method.each.model_fields)):
        with pytest.raises(MixlabError, match=f"^{method.name}: {key}"):
            method.settings({**case.settings, key: value}, case.count)


def test_the_number_of_models_and_the_base_are_checked(method):
    case = Case(method)
    with pytest.raises(MixlabError, match=f"{method.name} merges .* found 0"):
        method.check(0, True)
    if method.base == "required":
        with pytest.raises(MixlabError, match="give `base`"):
            method.check(case.count, False)
    if method.base == "none":
        with pytest.raises(MixlabError, match="has no base"):
            method.check(case.count, True)


def test_documented_and_registered(method):
    assert registered(f"merge.{method.name}") is method.shared
    assert registered(f"merge.{method.name}.model") is method.each
    text = inspect.getdoc(method.formula) or ""
    for section in ("Args:", "Returns:", "Raises:"):
        assert section in text, section
    arguments = text.partition("Args:")[2].partition("Returns:")[0]
    for name in inspect.signature(method.formula).parameters:
        assert name in ("context",) or f"{name}" in arguments, name
    assert len(method.source) > 5
    assert len(method.summary) > 10


@pytest.mark.parametrize("name", ["linear", "task_arithmetic", "slerp"])
def test_gradients_are_those_of_the_formula(name):
    case = Case(get_method(name), (2, 3)).to(torch.float64)
    for x in case.tensors:
        x.requires_grad_()

    def merged(*tensors: torch.Tensor) -> torch.Tensor:
        case.tensors = list(tensors)
        return case.merge()

    assert torch.autograd.gradcheck(merged, case.tensors)
    # Models that agree share the gradient, though the value is copied from the first.
    case = Case(get_method(name), (2, 3))
    case.tensors = [case.tensors[0].clone().requires_grad_() for _ in case.tensors]
    case.merge().sum().backward()
    assert all(bool((x.grad != 0).all()) for x in case.tensors)


@pytest.mark.filterwarnings("error")
def test_gradients_reach_every_model(method):
    if method.name in ("star", "tsv"):
        pytest.skip("the spectrum's gradient is not defined where singular values are equal")
    case = Case(method)
    for x in case.tensors:
        x.requires_grad_()
    case.merge().square().sum().backward()
    for x in case.tensors:
        assert x.grad is not None
        assert bool(x.grad.isfinite().all())
        assert bool(x.grad.any())


def test_every_method_of_mergekit_is_here():
    from mergekit.merge_methods import registered_methods

    missing = {m.spec.name for m in registered_methods()} - set(method_names())
    assert not missing


def test_import_is_light():
    code = (
        "import sys, time, torch; start = time.perf_counter(); import mixlab.merge;"
        "print(time.perf_counter() - start,"
        " *({'transformers', 'mergekit', 'pandas'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *loaded = out.stdout.split()
    assert not loaded
    assert float(seconds) < 1
