"""JSON files of our own, read with a clear word where one is damaged."""

import json
import os
from pathlib import Path
from typing import Any

from mixlab import MixlabError


def read_json(path: str | os.PathLike[str], mend: str) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        mend: what to do about a damaged file, as the end of a sentence.

    Raises:
        MixlabError: the file is missing, or its content is no JSON object.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise MixlabError(f"{path} cannot be read ({error.strerror}); {mend}") from error
    except ValueError as error:
        raise MixlabError(f"{path} is damaged: it is no JSON ({error}); {mend}") from error
    if not isinstance(found, dict):
        raise MixlabError(f"{path} is damaged: expected an object, found {found!r:.40}; {mend}")
    return found
