"""A run whose numbers ran away."""

from mixlab.spec import MixlabError


class Diverged(MixlabError):
    """Loss or gradient became NaN or infinite; the message names the last good checkpoint."""
