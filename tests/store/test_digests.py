from pathlib import Path

import numpy as np
import pytest

from mixlab import MixlabError
from mixlab.store import canonical_json, digest, digest_arrays, digest_file


def test_equal_content_equal_digest() -> None:
    assert digest({"a": 1.0, "b": (1, 2)}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})
    assert digest(np.float64(0.5)) == digest(0.5)
    assert digest({}) == "44136fa355b3678a"  # sha256 of "{}"


def test_what_has_no_canonical_text_is_refused() -> None:
    for bad in ({1, 2}, float("nan"), object()):
        with pytest.raises(MixlabError, match="cannot digest"):
            canonical_json(bad)


def test_arrays_ignore_order_but_not_names_shapes_or_types() -> None:
    a, b = np.arange(6, dtype=np.float32), np.ones(2, np.int64)
    base = digest_arrays([("a", a), ("b", b)])
    assert digest_arrays([("b", b), ("a", a)]) == base
    assert digest_arrays([("a", a.reshape(2, 3)), ("b", b)]) != base
    assert digest_arrays([("a", b), ("b", a)]) != base
    assert digest_arrays([("a", a.astype(np.float64)), ("b", b)]) != base


def test_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"{}")
    assert digest_file(tmp_path / "x") == digest({})
