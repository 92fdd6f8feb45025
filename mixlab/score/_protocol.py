"""Protocols: how a model is asked, how it decodes and how its answer is read, with digests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from mixlab.spec import MixlabError, Settings, register
from mixlab.store import digest

# Raised when the decoding loop changes what it generates, so that old caches are not read.
GENERATION = 1
JUDGING = 1


class Protocol(Settings):
    """One way to measure. Every field is a measurement choice, except `system`.

    Fields that decide the generated text: `template` (chat: the model's own; plain: the bare
    text), `system` (a system turn; added information, see the design), `wording` (wraps the
    question; holds "{question}"), `max_new_tokens` (None: the task's own), `decoding`.

    Fields that decide how it is read: `extractor` (strict or semantic; metric `exact` only),
    `case` (strict only: exact, or fold to ignore case), `loose` (metric `form` only: IFEval's
    loose reading), `choice` (log-likelihood of a choice: raw sum, or per character).
    """

    name: str
    template: Literal["chat", "plain"] = "chat"
    system: str | None = None
    wording: str = "{question}"
    max_new_tokens: int | None = Field(default=None, ge=1)
    decoding: Literal["greedy"] = "greedy"
    extractor: Literal["strict", "semantic"] = "strict"
    case: Literal["exact", "fold"] = "exact"
    loose: bool = False
    choice: Literal["raw", "per_character"] = "raw"

    @field_validator("wording")
    @classmethod
    def _holds_question(cls, wording: str) -> str:
        if "{question}" not in wording:
            raise ValueError(f"wording {wording!r} has no {{question}}")
        return wording

    def ask(self, question: str) -> str:
        """The question in this protocol's wording."""
        return self.wording.replace("{question}", question)

    @property
    def generation_digest(self) -> str:
        """Digest of what decides the generated text; extractor and metric play no part."""
        return digest(
            [
                GENERATION,
                self.template,
                self.system,
                self.wording,
                self.max_new_tokens,
                self.decoding,
            ]
        )

    @property
    def digest(self) -> str:
        """Digest of everything but the name."""
        reading = [JUDGING, self.extractor, self.case, self.loose, self.choice]
        return digest([self.generation_digest, reading])


PROTOCOLS: dict[str, Protocol] = {
    "strict": Protocol(name="strict"),
    "semantic": Protocol(
        name="semantic", extractor="semantic", case="fold", loose=True, choice="per_character"
    ),
}
"""The protocols that every sweep may name."""

register("score.protocol", Protocol)


def protocol(given: str | Protocol) -> Protocol:
    """The protocol itself, or the built-in one of that name."""
    if isinstance(given, Protocol):
        return given
    if given not in PROTOCOLS:
        raise MixlabError(f"no protocol {given!r}; expected one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[given]
