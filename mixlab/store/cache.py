"""Where things that can be made again are kept."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """The cache folder: MIXLAB_HOME, else XDG_CACHE_HOME/mixlab, else ~/.cache/mixlab.

    Not created here: the first writer does that.
    """
    home = os.environ.get("MIXLAB_HOME")
    if home:
        return Path(home).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base).expanduser() if base else Path.home() / ".cache"
    return root / "mixlab"
