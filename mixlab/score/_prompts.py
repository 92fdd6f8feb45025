"""Questions to token ids under a protocol, each text encoded once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from mixlab.score._conditions import image_digest
from mixlab.score._protocol import Protocol
from mixlab.spec import MixlabError


class Prompts:
    """The ids of prompts and choices for one encoder; remembers texts and image digests."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self._ids: dict[tuple[str, str, str | None, int | None], np.ndarray] = {}
        self._digests: dict[Path, tuple[tuple[int, int], str]] = {}
        self._counts: dict[str, int] = {}

    def image(self, path: Path) -> str:
        """Digest of an image file's bytes, read again only if the file changed."""
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._digests.get(path)
        if known is None or known[0] != stamp:
            known = (stamp, image_digest(path))
            self._digests[path] = known
        return known[1]

    def ids(
        self, question: str, protocol: Protocol, template: str, image: Path | None
    ) -> np.ndarray:
        """Prompt ids int32 [tokens]; the image's tokens stand in them.

        Raises MixlabError from the encoder (too long, bad image, no chat template), with the
        question it failed on.
        """
        count = None if image is None else self._count(image)
        text = protocol.ask(question)
        key = (text, template, protocol.system, count)
        if key not in self._ids:
            try:
                self._ids[key] = self._encode(text, protocol.system, template, image)
            except MixlabError as error:
                shown = text if len(text) <= 120 else text[:117] + "..."
                raise MixlabError(f"cannot ask {shown!r}: {error}") from error
        return self._ids[key]

    def with_choice(
        self, question: str, choice: str, prompt: np.ndarray, protocol: Protocol, template: str
    ) -> np.ndarray:
        """Ids int32 of prompt and choice.

        chat: the choice begins the assistant's turn. plain: one blank joins question and choice
        (none where the question ends in one) and both are tokenised together, because a
        delimiter left open has moved such scores from .11 to .74 (lm-evaluation-harness#3399).
        """
        tokenizer = self.encoder.tokenizer
        if template == "chat":
            tail = tokenizer(choice, add_special_tokens=False)["input_ids"]
            whole = np.concatenate([prompt, np.asarray(tail, np.int32)])
        else:
            text = self._plain_text(protocol.ask(question), protocol.system)
            blank = "" if text[-1:].isspace() else " "
            whole = self._plain(text + blank + choice, None)
        if len(whole) <= len(prompt):
            raise MixlabError(f"the choice {choice!r} adds no token; give a choice with text")
        return whole

    def key(self, ids: np.ndarray, image: Path | None, *more: Any) -> str:
        """Digest of what the model reads and of `more`, the settings of the answer."""
        parts = hashlib.sha256(np.ascontiguousarray(ids, np.int32).tobytes())
        parts.update(f"\0{'' if image is None else self.image(image)}\0{more!r}".encode())
        return parts.hexdigest()[:32]

    def _encode(
        self, text: str, system: str | None, template: str, image: Path | None
    ) -> np.ndarray:
        if template == "plain":
            return self._plain(self._plain_text(text, system), image)
        messages = [{"role": "user", "content": text}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        ids: np.ndarray = self.encoder.encode_prompt(messages, image).input_ids
        return ids

    @staticmethod
    def _plain_text(text: str, system: str | None) -> str:
        return text if system is None else f"{system}\n\n{text}"

    def _plain(self, text: str, image: Path | None) -> np.ndarray:
        tokenizer = self.encoder.tokenizer
        ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if image is not None:
            ids = [self.encoder.image_token_id] * self._count(image) + ids
        bos = tokenizer.bos_token_id
        adds = bos is not None and tokenizer("a")["input_ids"][:1] == [bos]
        if adds and ids[:1] != [bos]:
            ids = [bos, *ids]
        limit = self.encoder.max_length
        if limit is not None and len(ids) > limit:
            raise MixlabError(f"{len(ids)} tokens, more than the context of {limit}")
        return np.asarray(ids, np.int32)

    def _count(self, image: Path) -> int:
        name = self.image(image)
        if name not in self._counts:
            images = self.encoder.images
            if images is None:
                raise MixlabError(f"{image}: this model reads text only")
            self._counts[name] = images.count(images.read(image))
        return self._counts[name]
