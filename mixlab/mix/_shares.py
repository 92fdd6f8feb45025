"""What each (source, format) should hold, from source weights and format shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mixlab.spec import MixlabError

from ._source import Source

_ROUNDS = 2_000
_CLOSE = 1e-9


def cell_shares(
    sources: Sequence[Source], formats: Mapping[str, float], modality: str
) -> np.ndarray:
    """Shares float64 [sources, formats] within one modality, summing to 1.

    Columns sum to the format shares and rows to the source weights, with zeros where a source
    offers no row in a format; found by iterative proportional fitting (Deming and Stephan 1940).
    If no source has a weight and equal weights can't be met, only the format shares are.

    Raises:
        MixlabError: a format that no source offers, or weights that the formats rule out.
    """
    names = list(formats)
    offers = np.array([[fmt in source.offered for fmt in names] for source in sources], dtype=float)
    columns = np.array([formats[name] for name in names])
    for name, offering in zip(names, offers.sum(axis=0).tolist(), strict=True):
        if not offering:
            raise MixlabError(
                f"no {modality} source can give output format {name!r} (share "
                f"{formats[name]:g}): {_offers(sources)}; set its share to 0 or add such rows"
            )
    given = [source.spec.weight for source in sources]
    weights = np.array([1.0 if weight is None else weight for weight in given])
    weights /= weights.sum()
    fitted = _fit(offers, weights, columns)
    if fitted is not None:
        return fitted
    if all(weight is None for weight in given):
        return offers / offers.sum(axis=0) * columns
    wanted = ", ".join(
        f"{source.name} {weight:.3g}" for source, weight in zip(sources, weights, strict=True)
    )
    raise MixlabError(
        f"the {modality} sources can't meet their weights ({wanted}) and the format shares "
        f"({', '.join(f'{name} {share:.3g}' for name, share in formats.items())}) at once: "
        f"{_offers(sources)}; change the shares, or leave the weights out"
    )


def _fit(offers: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    table = offers * rows[:, None] * columns[None, :]
    for _ in range(_ROUNDS):
        sums = table.sum(axis=1)
        if (sums == 0).any():
            return None
        table *= (rows / sums)[:, None]
        sums = table.sum(axis=0)
        if (sums == 0).any():
            return None
        table *= (columns / sums)[None, :]
        if np.abs(table.sum(axis=1) - rows).max() < _CLOSE:
            return table / table.sum()
    return None


def _offers(sources: Sequence[Source]) -> str:
    return "; ".join(
        f"{source.name} offers {', '.join(source.offered) or 'nothing'}" for source in sources
    )
