import pytest
import torch

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
