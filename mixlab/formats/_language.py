"""A small language detector: offline, deterministic, and honest about what it can't tell.

Scripts decide where they can (Tamil script is Tamil); letters that only one of the candidate
languages uses come next; then counts of very common words. It knows the thirty languages that
IFEval asks for, and answers None where the evidence is thin. It is no general detector: a
Slovak text has no entry here and comes out as None or as its nearest relative.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_SCRIPTS = {
    "HANGUL": "ko",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "THAI": "th",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "MALAYALAM": "ml",
    "HEBREW": "he",
    "GREEK": "el",
    "CJK": "zh",
}

_LETTERS = {
    "ARABIC": {"ur": "ٹڈڑےںہھ", "fa": "پچژگکی", "ar": "ةىيكؤئإأ"},
    "CYRILLIC": {"uk": "іїєґ", "ru": "ыэё", "bg": "ъщ"},
}

_WORDS = {
    "en": "the of and to in is that it for was with as are this be have not you at from or by"
    " an they which we there can will what your if all has their would about do i my but",
    "es": "de la que el en y los se del las un por con no una su para es al lo como más o pero"
    " sus le ya este sí porque esta son entre está cuando muy sin sobre también me hay yo",
    "pt": "de que não do da em um para é com uma os no se na por mais as dos como mas foi ao ele"
    " das tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso",
    "fr": "de la le et les des en un une du que est pour qui dans a par plus pas au sur ne se ce"
    " il sont avec son aux cette ou mais nous vous elle je été leur être ont c'est tout",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch"
    " es an werden aus er hat dass sie nach wird bei einer um am sind noch wie ich haben wir",
    "it": "di che è la il un a per in una mi sono ho non ma lo ha le si i con della da come del"
    " nel alla più anche gli questo perché dei se o essere delle ci quando molto io",
    "pl": "w i z na się do nie to że jest o jak ale po co tak za od go czy tym przez dla są był"
    " być oraz lub jego jej które który może już tylko bardzo przy także",
    "vi": "và của là có không được cho trong một các với những người tôi này đã để khi từ đến"
    " như về cũng nhiều sẽ bạn ra trên rất nhưng làm chúng",
    "sw": "ya na wa kwa ni katika za la cha kama hii au lakini pia yake kuwa hiyo watu wake sana"
    " kila si mtu mimi wewe yeye sisi hili ambayo ili bila baada",
    "fi": "ja on ei se että oli hän mutta ovat myös kun niin kuin mitä joka tai jos olla ole sen"
    " voi minä sinä me tämä siitä nyt vain kanssa mukaan",
    "hi": "है के में की और से को का हैं यह पर एक नहीं कि भी था इस वह लिए करने हो थे ने",
    "mr": "आहे आणि या च्या ते मध्ये ही हे होते नाही एक आहेत तर केले की व साठी त्या मी होता",
    "ne": "छ र को मा हो का लागि यो पनि ले छन् गर्न भएको एक तथा गरेको हुन्छ भने थियो म",
    "ru": "и в не на я что он с как это по но из у за от так же для вы бы мы все его она к",
    "uk": "і в не на що з як це до та у за від але його для він ми ви є або про бути я",
    "bg": "и на да в се не за с че от са е по като но ще до си ги това има са или при",
}
_WORD_SETS = {language: frozenset(text.split()) for language, text in _WORDS.items()}
_LATIN = ("en", "es", "pt", "fr", "de", "it", "pl", "vi", "sw", "fi")
_BY_SCRIPT = {"DEVANAGARI": ("hi", "mr", "ne"), "CYRILLIC": ("ru", "uk", "bg"), "LATIN": _LATIN}
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?[\u0900-\u097f]*|[\u0900-\u097f]+")


def detect_language(text: str) -> str | None:
    """ISO 639-1 code of the text's language, or None where the text doesn't decide it.

    A Latin, Cyrillic or Devanagari text is named when its commonest-word count leads that of
    every other candidate language, with at least one such word in eight.
    """
    text = unicodedata.normalize("NFC", text)
    scripts = Counter(_script(char) for char in text if char.isalpha())
    scripts.pop("", None)
    if not scripts:
        return None
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > 0.1 * scripts.total():
        return "ja"  # Japanese mixes kana with Chinese characters.
    script = scripts.most_common(1)[0][0]
    if script in _SCRIPTS:
        return _SCRIPTS[script]
    if script in _LETTERS:
        return _by_letters(text, script) or _by_words(text, _BY_SCRIPT.get(script, ()))
    return _by_words(text, _BY_SCRIPT.get(script, ()))


def _script(char: str) -> str:
    return unicodedata.name(char, "").split(" ")[0].split("-")[0]


def _by_letters(text: str, script: str) -> str | None:
    # Urdu before Persian before Arabic: each later one's letters also occur in the earlier.
    for language, letters in _LETTERS[script].items():
        if any(letter in text.lower() for letter in letters):
            return language
    return None


def _by_words(text: str, candidates: tuple[str, ...]) -> str | None:
    tokens = [token.replace("’", "'") for token in _TOKEN.findall(text.lower())]
    counts = {
        language: sum(token in _WORD_SETS[language] for token in tokens) for language in candidates
    }
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    if len(ranked) < 2 or ranked[0][1] == ranked[1][1] or ranked[0][1] * 8 < len(tokens):
        return None
    return ranked[0][0]
