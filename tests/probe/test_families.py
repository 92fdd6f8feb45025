"""A frozen backbone in every family, in both layouts, and a stranger of its shape."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_vlms import FAMILIES, write_model, write_vlm

from mixlab.probe import find_lineage


@pytest.mark.parametrize("layout", ["saved", "hub"])
@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.natural])
def test_frozen_and_stranger(tmp_path: Path, name: str, layout: str) -> None:
    family = FAMILIES[name]
    tied = family.ties[0]
    vlm = family.make(tied)
    if layout == "hub" and family.hub_layout(vlm.state_dict()) is None:
        pytest.skip("the hub's layout is the same")
    own, stranger = family.reference(vlm), family.reference(vlm, seed=5)
    own.load_state_dict(family.natural_state(vlm), strict=False)
    found = find_lineage(
        write_vlm(tmp_path / "vlm", family, layout, vlm=vlm),
        [write_model(tmp_path / "own", own), write_model(tmp_path / "stranger", stranger)],
    )
    assert [v.verdict for v in found.verdicts] == ["ancestor", "stranger"], found.verdicts
    assert found.verdicts[0].rule == "frozen"
