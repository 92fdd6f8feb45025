"""Settings that rooms declare beside their use, found by name."""

from pydantic import BaseModel

from mixlab import MixlabError
from mixlab.spec.errors import nearest

_MODELS: dict[str, type[BaseModel]] = {}


def register(name: str, model: type[BaseModel]) -> None:
    """Make `model` known under `name` (dotted, such as `train.arm`).

    A model that is defined again in the same place takes the place of the first.

    Raises:
        MixlabError: another model holds the name.
    """
    known = _MODELS.setdefault(name, model)
    if known is model:
        return
    if (known.__module__, known.__qualname__) != (model.__module__, model.__qualname__):
        raise MixlabError(
            f"settings {name!r} are registered by {known.__module__}.{known.__qualname__} already; "
            "choose another name"
        )
    _MODELS[name] = model


def registered(name: str) -> type[BaseModel]:
    """The model registered under `name`.

    Raises:
        MixlabError: nothing is; the nearest name is shown.
    """
    try:
        return _MODELS[name]
    except KeyError:
        raise MixlabError(f"no settings named {name!r}{nearest(name, _MODELS)}") from None


def registered_names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_MODELS)
