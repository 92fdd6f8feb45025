"""mixlab: a model-merging and mixture-ablation lab for vision-language models."""

__version__ = "0.1.0"


class MixlabError(ValueError):
    """A mistake that the user can mend: the message says what was found and how to mend it.

    Stands here, above the rooms, because `spec` and `store` both raise it and neither imports the
    other; `mixlab.spec` exports it too. The command line prints it without a traceback.
    """


__all__ = ["MixlabError", "__version__"]
