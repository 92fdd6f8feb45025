"""The keys of a mergekit document as settings models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mixlab.merge.mergekit_yaml._references import Model
from mixlab.spec import Settings

Parameters = dict[str, Any] | None
Dtype = Annotated[
    Literal["float32", "float16", "bfloat16", "float64"],
    BeforeValidator(lambda v: v.removeprefix("torch.") if isinstance(v, str) else v),
]
# Text is taken for a model only where it is none of the words.
_FIRST = Field(union_mode="left_to_right")
TokenizerChoice = Annotated[Literal["union", "base"] | Model, _FIRST]


class InputModel(Settings):
    """One of `models`."""

    model: Model
    parameters: Parameters = None


class InputSlice(Settings):
    """One source of a slice: blocks `layer_range[0]` up to but without `layer_range[1]`."""

    model: Model
    layer_range: tuple[Annotated[int, Field(ge=0)], int]
    parameters: Parameters = None


class OutputSlice(Settings):
    """A run of the output's blocks."""

    sources: list[InputSlice] = Field(min_length=1)
    base_model: Model | None = None
    parameters: Parameters = None


class OutputModule(Settings):
    """One entry of `modules`."""

    slices: list[OutputSlice] | None = None
    models: list[InputModel] | None = None
    parameters: Parameters = None

    @model_validator(mode="after")
    def _one(self) -> OutputModule:
        if bool(self.slices) == bool(self.models):
            raise ValueError("expected either models: or slices: in a module")
        return self


class ModelToken(Settings):
    """The row of one token of one model."""

    kind: Literal["model_token"]
    model: Model
    token_id: int | None = None
    token: str | None = None

    @model_validator(mode="after")
    def _one(self) -> ModelToken:
        if (self.token_id is None) == (self.token is None):
            raise ValueError("expected token_id: or token:, one of them")
        return self


class Zero(Settings):
    """A row of zeros."""

    kind: Literal["zero"]


class TokenSource(Settings):
    """Where the row of one token comes from; `force` uses it for models that have the token too."""

    source: Annotated[ModelToken | Zero | Model | None, _FIRST] = None
    force: bool = False


class TokenizerSettings(Settings):
    """The output's tokenizer and how rows are found for it."""

    source: TokenizerChoice = "union"
    tokens: dict[str, TokenSource] | None = None
    pad_to_multiple_of: Annotated[int, Field(ge=1)] | None = None


class MergekitSettings(Settings):
    """One document of a mergekit file."""

    name: str | None = None
    modules: dict[str, OutputModule] | None = None
    slices: list[OutputSlice] | None = None
    models: list[InputModel] | None = None
    merge_method: str
    base_model: Model | None = None
    dtype: Dtype | None = None
    out_dtype: Dtype | None = None
    tokenizer_source: TokenizerChoice | None = None
    tokenizer: TokenizerSettings | None = None
    chat_template: str | None = None
    parameters: Parameters = None

    @model_validator(mode="after")
    def _check(self) -> MergekitSettings:
        given = [key for key in ("models", "slices", "modules") if getattr(self, key)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"expected one of models:, slices: and modules:, found {found}")
        if self.tokenizer_source and self.tokenizer:
            raise ValueError("tokenizer_source: and tokenizer: exclude each other; remove one")
        return self
