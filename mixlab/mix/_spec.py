"""Settings of a data mix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mixlab.formats import FORMATS
from mixlab.spec import Fraction, MixlabError, Settings, Shares, nearest

MODALITIES: tuple[str, ...] = ("vision", "text")
"""The two modalities of a row, in the order of tables."""


def _by_modality(value: Any) -> Any:
    """One table of shares stands for both modalities."""
    if isinstance(value, Mapping) and not set(value) & set(MODALITIES):
        value = {modality: dict(value) for modality in MODALITIES}
    if isinstance(value, Mapping):
        for table in value.values():
            for name in table if isinstance(table, Mapping) else ():
                if name not in FORMATS:
                    raise ValueError(f"unknown output format {name!r}{nearest(name, FORMATS)}")
    return value


class FormatShares(Settings):
    """Shares of output formats in supervised tokens, within vision and within text rows."""

    vision: Shares = Field(default_factory=lambda: {"short": 1.0})
    text: Shares = Field(default_factory=lambda: {"short": 1.0})


class SourceSpec(Settings):
    """One source of rows.

    Attributes:
        name: unique within the mix.
        modality: `vision` (every row has an image) or `text` (none has).
        path: a JSONL file; ``prefix:relative`` is looked up in the roots given at loading.
        weight: share within its modality, relative to the other sources'. Where no source of
            the modality has one they count equally, as far as the format shares allow.
        phrasebook: YAML file of wordings for rows without explicit renderings; English if None.
    """

    name: str = Field(min_length=1)
    modality: Literal["vision", "text"]
    path: str = Field(min_length=1)
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    phrasebook: str | None = None


class MixSpec(Settings):
    """A data mix: sources, the share of text, the shares of output formats.

    Attributes:
        text_fraction: share of supervised tokens that come from text-only rows.
        formats: shares of output formats in supervised tokens; one table, or one each for
            `vision` and `text`.
        unit: what shares are counted in.
        drops: `error` stops at a row that is longer than the model's context, `allow` leaves it
            out and counts it in the receipt.
    """

    name: str = Field(min_length=1)
    sources: list[SourceSpec] = Field(min_length=1)
    text_fraction: Fraction = 0.0
    formats: Annotated[FormatShares, BeforeValidator(_by_modality)] = FormatShares()
    unit: Literal["supervised_tokens"] = "supervised_tokens"
    drops: Literal["error", "allow"] = "error"

    @model_validator(mode="after")
    def _check(self) -> MixSpec:
        names = [source.name for source in self.sources]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"source names must differ; given more than once: {repeated}")
        for modality, share in self.modality_shares().items():
            if share > 0 and not any(source.modality == modality for source in self.sources):
                raise ValueError(
                    f"text_fraction {self.text_fraction:g} asks for {modality} rows, but no source "
                    f"has modality {modality!r}; add one, or set text_fraction to "
                    f"{0 if modality == 'text' else 1}"
                )
        return self

    def modality_shares(self) -> dict[str, float]:
        """Shares of supervised tokens by modality."""
        return {"vision": 1.0 - self.text_fraction, "text": self.text_fraction}

    def format_shares(self, modality: str) -> dict[str, float]:
        """Shares of the formats within one modality, in the order of `FORMATS`, zeros left out."""
        shares = getattr(self.formats, modality)
        return {name: shares[name] for name in FORMATS if shares.get(name, 0.0) > 0}


def text_twin(spec: MixSpec) -> MixSpec:
    """The arm's text twin: only text rows, with the format shares of the whole arm.

    Planned with the same steps and tokens a step it differs from its arm in modality alone.

    Raises:
        MixlabError: the mix has no text source.
    """
    if not any(source.modality == "text" for source in spec.sources):
        raise MixlabError(
            f"mix {spec.name!r} has no text source, so it has no text twin; add a source with "
            "modality: text"
        )
    blend = {
        name: math.fsum(
            share * spec.format_shares(modality).get(name, 0.0)
            for modality, share in spec.modality_shares().items()
        )
        for name in FORMATS
    }
    shares = {name: share for name, share in blend.items() if share > 0}
    formats = FormatShares(vision=spec.formats.vision, text=shares)
    return spec.model_copy(update={"text_fraction": 1.0, "formats": formats})


def dilution(spec: MixSpec, fraction: float) -> tuple[MixSpec, float]:
    """The dilution arm of a text fraction: (the mix without text, its `vision_scale`).

    `make_plan(..., vision_scale=scale)` then keeps the tokens of a step and takes fewer steps, so
    that the arm sees as many supervised vision tokens as the mix with text does, and fewer
    supervised tokens in total.

    Raises:
        MixlabError: the fraction is outside [0, 1), or nothing is left to train on.
    """
    if not 0.0 <= fraction < 1.0:
        raise MixlabError(
            f"dilution by a text fraction of {fraction:g}; expected at least 0 and below 1"
        )
    return spec.model_copy(update={"text_fraction": 0.0}), 1.0 - fraction
