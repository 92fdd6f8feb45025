"""A page as a reader without JavaScript has it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input"}


@dataclass(frozen=True)
class Number:
    """One keyed number: its exact value and what is printed."""

    key: str
    value: float
    printed: str


def answer(page: str) -> str:
    """The text of headline and answer, tags taken away, spaces made single."""
    start, end = page.index('<p class="headline">'), page.index("<h3>At a glance")
    return plain_text(page[start:end])


def plain_text(markup: str) -> str:
    """Text without tags, spaces made single."""
    bare = html.unescape(re.sub(r"<[^>]+>", "", markup))
    return re.sub(r"\s+", " ", bare.replace("\u00a0", " "))


def numbers(page: str) -> list[Number]:
    """All keyed numbers, in order."""
    found = re.findall(r'<data value="([^"]+)" data-key="([^"]+)">([^<]*)</data>', page)
    return [Number(html.unescape(k), float(v), p) for v, k, p in found]


class Balance(HTMLParser):
    """Checks that tags are closed in order, and collects names, ids and attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        self.ids += [v or "" for k, v in attrs if k == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()


def parse(page: str) -> Balance:
    """The page parsed."""
    found = Balance()
    found.feed(page)
    found.close()
    return found
