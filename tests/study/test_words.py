from pathlib import Path

from mixlab.study.words import answer_words

PAGE = """<html><body><p class="headline">Text <b>lost</b> 3&nbsp;points.</p>
<section id="other"><p>not this</p></section>
<section id="answer"><h2>The answer</h2><dl class="answer"><dt>What was lost</dt>
<dd><p>Format lost <span>12</span>
points.</p><table><tr><td>99</td></tr></table></dd></dl><h3>At a glance</h3><p>no</p></section>
<p>nor this</p></body></html>"""


def test_headline_and_answer_without_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    assert answer_words(page) == [
        "Text lost 3 points.",
        "",
        "What was lost",
        "  Format lost 12 points.",
    ]


def test_a_page_without_an_answer(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html></html>")
    assert answer_words(page) == []
