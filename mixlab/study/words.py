"""The answer of a page as plain text, for the terminal."""

import textwrap
from html.parser import HTMLParser
from pathlib import Path

_BLOCKS = {"p", "li", "dt", "dd"}
_SILENT = {"svg", "style", "script", "table", "figure"}


class _Answer(HTMLParser):
    """Collects `p.headline` and the blocks of `dl.answer`."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = ""
        self.blocks: list[tuple[str, str]] = []
        self._in_headline = False
        self._depth = 0
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "p" and known.get("class") == "headline":
            self._in_headline = True
        if tag == "dl" and (self._depth or known.get("class") == "answer"):
            self._depth += 1
        if tag in _SILENT:
            self._silent += 1
        if self._depth and tag in _BLOCKS:
            self.blocks.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._in_headline = False
        if tag == "dl" and self._depth:
            self._depth -= 1
        if tag in _SILENT:
            self._silent -= 1

    def handle_data(self, data: str) -> None:
        if self._in_headline:
            self.headline += data
        elif self._depth and self.blocks and not self._silent:
            tag, text = self.blocks[-1]
            self.blocks[-1] = (tag, text + data)


def answer_words(page: Path, width: int = 100) -> list[str]:
    """Lines of the page's headline and answer; none if it has no answer."""
    reader = _Answer()
    reader.feed(page.read_text(encoding="utf-8"))
    lines = textwrap.wrap(" ".join(reader.headline.split()), width)
    for tag, text in reader.blocks:
        words = " ".join(text.split())
        if not words:
            continue
        if tag == "dt":
            lines += ["", words]
        else:
            lines += textwrap.wrap(words, width, initial_indent="  ", subsequent_indent="  ")
    return lines
