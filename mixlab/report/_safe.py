"""Text that others wrote, made fit to stand on a page: shown as written, never obeyed."""

from __future__ import annotations

import unicodedata

from markupsafe import Markup, escape

KEPT = {"\n", "\t"}
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}


def plain(value: object) -> str:
    """`value` as text with control, bidirectional, private and lone surrogate characters named.

    A character that would not show, or would turn the text around it, stands as its code point
    (U+202E becomes [U+202E]); line breaks and tabs stay. Joiners that scripts need (U+200C,
    U+200D) stay too. The result still has to be escaped for HTML.
    """
    out = []
    for ch in str(value):
        if ch in KEPT or ch in "\u200c\u200d" or unicodedata.category(ch) not in HIDDEN:
            out.append(ch)
        else:
            out.append(f"[U+{ord(ch):04X}]")
    return "".join(out)


def user(value: object) -> Markup:
    """`plain(value)` escaped, in a `<bdi>` so that its direction does not leak."""
    return Markup("<bdi>{}</bdi>").format(escape(plain(value)))


def arm(value: object) -> Markup:
    """A recipe's label inside a sentence."""
    return Markup('<i class="arm">{}</i>').format(user(value))
