"""The base of every settings model."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Settings read from a file: unknown keys are an error, values do not change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
