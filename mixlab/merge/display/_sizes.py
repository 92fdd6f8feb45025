"""Sizes as people write them."""

from __future__ import annotations

import re

from mixlab.spec import MixlabError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def parse_size(given: int | str) -> int:
    """Bytes of `5GB`, `500MB`, `2GiB` or a number of bytes; powers of 1000, of 1024 with an i.

    Raises:
        MixlabError: it is no positive size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?)?B?\s*", str(given).upper())
    size = int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if size < 1:
        raise MixlabError(f"{given!r} is no size; expected one such as 5GB or 500MB")
    return size
