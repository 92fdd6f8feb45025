"""Check the images of a source once, before any training."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from ._rows import RowError


def picture_digest(path: Path) -> str:
    """Digest of an image file's bytes, after it was decoded in full.

    Raises:
        RowError: the file is missing, truncated or no image.
    """
    try:
        about = path.stat()
    except OSError:
        raise RowError(f"image {path} is missing; check the path (relative to the file)") from None
    return _checked(str(path.absolute()), about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=100_000)
def _checked(path: str, changed: int, size: int) -> str:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            image.verify()
        # `verify` leaves the image unusable and misses truncation in most formats.
        with Image.open(path) as image:
            image.load()
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise RowError(f"image {path} is truncated or no image ({error}); replace it") from error
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
