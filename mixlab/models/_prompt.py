"""Messages to token ids, as training and generation both need them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mixlab.models._images import ImageInput, ImageReader
from mixlab.models._template import ChatTemplate
from mixlab.spec import MixlabError
from mixlab.store import digest

Messages = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Example:
    """A training row: ids int32 [T], supervised bool [T], pixels float32 [C, H, W] or None."""

    input_ids: np.ndarray
    supervised: np.ndarray
    pixel_values: np.ndarray | None = None


@dataclass(frozen=True)
class Prompt:
    """What a model continues: ids int32 [T], pixel_values float32 [C, H, W] or None."""

    input_ids: np.ndarray
    pixel_values: np.ndarray | None = None


class PromptEncoder:
    """The chat template, tokenizer and image processor of one model folder.

    The beginning-of-sequence token stands once: the template's own if it writes one, else the
    tokenizer's if the tokenizer adds one to plain text.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        images: ImageReader | None = None,
        context: int | None = None,
        stop_ids: Iterable[int] = (),
        where: str = "the tokenizer",
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise MixlabError(f"{where}: needs a fast tokenizer (a tokenizer.json)")
        self.tokenizer = tokenizer
        self.images = images
        self.where = where
        image_id = images.token_id if images is not None else None
        self.image_token: str | None = None
        if image_id is not None:
            self.image_token = tokenizer.convert_ids_to_tokens(image_id)
        self.image_token_id: int | None = image_id
        self.template = ChatTemplate(tokenizer, self.image_token, where)
        ids = {*stop_ids, tokenizer.eos_token_id}
        ids.add(tokenizer.convert_tokens_to_ids(self.template.stop_token))
        self.stop_ids: tuple[int, ...] = tuple(sorted(i for i in ids if i is not None))
        pad = tokenizer.pad_token_id
        self.pad_id: int = self.stop_ids[0] if pad is None else pad
        limits = [n for n in (context, tokenizer.model_max_length) if n and n < 10**9]
        self.max_length: int | None = min(limits) if limits else None
        plain = tokenizer("a").input_ids
        adds_bos = bool(plain) and plain[0] == tokenizer.bos_token_id
        self._bos: int | None = tokenizer.bos_token_id if adds_bos else None

    @cached_property
    def digest(self) -> str:
        """Digest of all that decides ids and pixels: tokenizer, template, image processor."""
        images = self.images.settings() if self.images is not None else None
        text = self.tokenizer.backend_tokenizer.to_str()
        return digest([text, self.template.text, self.stop_ids, self.max_length, images])

    def encode_prompt(self, question: str | Messages, image: ImageInput | None = None) -> Prompt:
        """Ids of a question (or of messages), up to where the assistant begins to speak.

        Args:
            question: text of one user turn, or messages ending with a user turn.
            image: a path or PIL image, put before the text of the first user turn.

        Raises:
            MixlabError: the prompt is longer than the model's context, or the image is bad.
        """
        messages = (
            [{"role": "user", "content": question}] if isinstance(question, str) else question
        )
        pixels, count = self._image(image)
        text = self.template.render(messages, prompt=True, image=count > 0)
        ids, _ = self._tokenise(text, [], count)
        self._check_length(len(ids))
        return Prompt(ids, pixels)

    def encode_example(self, messages: Messages, image: ImageInput | None = None) -> Example:
        """Ids and supervision of a row: every assistant turn with its stop token, nothing else.

        Raises:
            MixlabError: no assistant turn or an empty one (no token would be supervised), a row
                longer than the model's context, or a bad image.
        """
        answers = [m for m in messages if m["role"] == "assistant"]
        if not answers or not all(str(m["content"]).strip() for m in answers):
            raise MixlabError(
                "the row has no supervised token: "
                + ("an assistant turn is empty" if answers else "it has no assistant turn")
                + "; give every row a non-empty answer, or leave it out"
            )
        pixels, count = self._image(image)
        text, spans = self.template.supervise(messages, image=count > 0)
        ids, supervised = self._tokenise(text, spans, count)
        self._check_length(len(ids))
        return Example(ids, supervised, pixels)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of generated ids up to the first stop token, special tokens left out, stripped."""
        kept: list[int] = []
        for token in ids:
            if int(token) in self.stop_ids:
                break
            kept.append(int(token))
        return self.tokenizer.decode(kept, skip_special_tokens=True).strip()

    def _image(self, image: ImageInput | None) -> tuple[np.ndarray | None, int]:
        if image is None:
            return None, 0
        if self.images is None:
            raise MixlabError(f"{self.where}: the row has an image, but this model takes text only")
        if self.image_token is None:
            raise MixlabError(
                f"{self.where}: the tokenizer has no token for the config's image_token_id "
                f"{self.image_token_id}; give it the tokenizer that belongs to this VLM"
            )
        pixels = self.images.read(image)
        return pixels, self.images.count(pixels)

    def _tokenise(
        self, text: str, spans: list[tuple[int, int]], image_tokens: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids int32 [T] and whether each lies in one of the character `spans`, bool [T]."""
        coded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = list(coded["input_ids"]), coded["offset_mapping"]
        cuts = {cut for span in spans for cut in span}
        if any(start < cut < stop for start, stop in offsets for cut in cuts):
            # A token that reaches over the end of a prompt never follows that prompt when the model
            # generates, so the pieces are tokenised apart, as they will be then.
            ids, supervised = self._tokenise_pieces(text, spans)
        else:
            supervised = [any(a <= s and e <= b and e > s for a, b in spans) for s, e in offsets]
        if self._bos is not None and (not ids or ids[0] != self._bos):
            ids, supervised = [self._bos, *ids], [False, *supervised]
        array, mask = np.asarray(ids, np.int32), np.asarray(supervised, bool)
        if self.image_token_id is not None:
            at = np.flatnonzero(array == self.image_token_id)
            if len(at) != int(image_tokens > 0):
                raise MixlabError(
                    f"{self.where}: the text holds {len(at)} image tokens {self.image_token!r}, "
                    f"expected {int(image_tokens > 0)}; take the token out of the row's text"
                )
            if image_tokens > 1:
                repeats = np.where(array == self.image_token_id, image_tokens, 1)
                array, mask = np.repeat(array, repeats), np.repeat(mask, repeats)
        return array, mask

    def _tokenise_pieces(
        self, text: str, spans: list[tuple[int, int]]
    ) -> tuple[list[int], list[bool]]:
        ids: list[int] = []
        supervised: list[bool] = []
        at = 0
        for start, stop in [*spans, (len(text), len(text))]:
            for piece, inside in ((text[at:start], False), (text[start:stop], True)):
                new = self.tokenizer(piece, add_special_tokens=False).input_ids if piece else []
                ids += new
                supervised += [inside] * len(new)
            at = stop
        return ids, supervised

    def _check_length(self, length: int) -> None:
        if self.max_length is not None and length > self.max_length:
            raise MixlabError(
                f"{self.where}: {length} tokens, more than the context of {self.max_length}; "
                "shorten the text or leave the row out"
            )
