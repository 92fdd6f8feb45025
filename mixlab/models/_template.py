"""A chat template, with what it does learnt by trying it on short probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixlab.spec import MixlabError

# Letters and digits only, so that no template, filter or lower-casing changes it.
_PROBE = "probe7x"


class ChatTemplate:
    """Renders messages with a tokenizer's template.

    Some templates take a message's content as a string, some as a list of parts, some as both. A
    string is used where it works. An image is a part where the template writes the image token for
    it, else the token and a newline before the text (LLaVA's convention).
    """

    def __init__(self, tokenizer: Any, image_token: str | None, where: str) -> None:
        self._tokenizer = tokenizer
        self._image_token = image_token
        self._where = where
        self.text: str = tokenizer.chat_template or ""
        if not self.text:
            raise MixlabError(
                f"{where}: no chat template; put one into the folder as chat_template.jinja"
            )
        self._parts = not self._renders(_PROBE)
        text_part = {"type": "text", "text": _PROBE}
        if self._parts and not self._renders([text_part]):
            raise MixlabError(f"{where}: the chat template does not render the text of a user turn")
        self._image_part = image_token is not None and self._renders(
            [{"type": "image"}, text_part], image_token
        )
        self.stop_token, self._tail = self._find_stop()

    def render(
        self, messages: Sequence[dict[str, Any]], *, prompt: bool = False, image: bool = False
    ) -> str:
        """Text of the messages; with `prompt`, up to where the assistant begins to speak."""
        shaped = []
        for message in messages:
            content: Any = message["content"]
            here = image and message["role"] == "user"
            if here:
                image = False
            token = self._image_token
            if here and isinstance(content, str) and token is not None and token not in content:
                content = self._with_image(content)
            elif self._parts and isinstance(content, str):
                content = [{"type": "text", "text": content}]
            shaped.append({**message, "content": content})
        if image:
            raise MixlabError("the row has an image, but no user turn to show it in")
        return self._apply(shaped, prompt)

    def supervise(
        self, messages: Sequence[dict[str, Any]], *, image: bool = False
    ) -> tuple[str, list[tuple[int, int]]]:
        """The text up to the last assistant turn's stop token, and the spans of what is learnt.

        A span runs from where the assistant begins to speak to the end of its stop token.
        """
        last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
        text = self.render(messages[: last + 1], image=image)
        spans = []
        for i, message in enumerate(messages[: last + 1]):
            if message["role"] != "assistant":
                continue
            before = self.render(messages[:i], prompt=True, image=image) if i else ""
            answer = str(message["content"]).strip()
            at = text.find(answer, len(before))
            if not text.startswith(before) or at < 0:
                raise MixlabError(
                    f"{self._where}: the chat template does not write a conversation as its prompt "
                    "followed by the answer, so it cannot be supervised; use a template that does"
                )
            stop = at + len(answer)
            if text.startswith(self._tail, stop):
                stop += len(self._tail)
            spans.append((len(before), stop))
        text = text[: spans[-1][1]]
        if not text.endswith(self.stop_token):
            text += self.stop_token
            spans[-1] = (spans[-1][0], len(text))
        return text, spans

    def _with_image(self, content: str) -> Any:
        if self._image_part:
            return [{"type": "image"}, {"type": "text", "text": content}]
        text = f"{self._image_token}\n{content}"
        return [{"type": "text", "text": text}] if self._parts else text

    def _find_stop(self) -> tuple[str, str]:
        """The token that ends an assistant turn, and the text from the answer to its end."""
        answer: Any = [{"type": "text", "text": _PROBE}] if self._parts else _PROBE
        question: Any = [{"type": "text", "text": "q"}] if self._parts else "q"
        turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        tail = self._apply(turns, False).rpartition(_PROBE)[2]
        special = {str(t) for t in self._tokenizer.get_added_vocab()}
        special |= set(self._tokenizer.all_special_tokens)
        found = [(tail.index(token), -len(token), token) for token in special if token in tail]
        if found:
            at, _, token = min(found)
            return token, tail[: at + len(token)]
        if self._tokenizer.eos_token is None:
            raise MixlabError(
                f"{self._where}: neither the chat template nor the tokenizer ends an answer with a "
                "special token; set eos_token in tokenizer_config.json"
            )
        return self._tokenizer.eos_token, tail.rstrip()

    def _renders(self, content: Any, token: str | None = None) -> bool:
        try:
            text = self._apply([{"role": "user", "content": content}], True)
        except MixlabError:
            return False
        # A template that only prints its content shows a list as Python does, quotes and all.
        plain = _PROBE in text and f"'{_PROBE}'" not in text and "'type'" not in text
        return plain and (token is None or text.count(token) == 1)

    def _apply(self, messages: list[dict[str, Any]], prompt: bool) -> str:
        try:
            return self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=prompt
            )
        except Exception as error:  # Jinja raises TemplateError, and whatever a template's code may
            raise MixlabError(f"{self._where}: the chat template failed: {error}") from error
