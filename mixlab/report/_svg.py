"""Altair charts as SVG, offline, with colours that the page's style sheet decides."""

from __future__ import annotations

import re
from typing import Any

PALETTE = {
    "#1b1b1a": "var(--ink)",
    "#6f6e69": "var(--muted)",
    "#e6e3dc": "var(--line)",
    "#efece4": "var(--band)",
    "#2b5f8f": "var(--blue)",
    "#b5591c": "var(--rust)",
    "#44753f": "var(--green)",
    "#fefdfb": "var(--paper)",
}
INK, MUTED, LINE, BAND, BLUE, RUST, GREEN, PAPER = PALETTE
FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"


def config() -> dict[str, Any]:
    """Vega-Lite configuration of all charts: thin rules, no frame, no legend colour alone."""
    return {
        "background": None,
        "aria": False,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "domainColor": MUTED,
            "tickColor": MUTED,
            "gridColor": LINE,
            "labelColor": INK,
            "titleColor": MUTED,
            "titleFontWeight": "normal",
            "titleFontSize": 11,
            "labelFontSize": 11,
            "labelLimit": 190,
            "tickSize": 4,
        },
        "axisY": {"domain": False, "ticks": False, "labelPadding": 8},
        "title": {
            "anchor": "start",
            "color": INK,
            "fontSize": 12,
            "fontWeight": 600,
            "offset": 8,
            "frame": "group",
        },
        "legend": {
            "orient": "top",
            "labelColor": INK,
            "titleColor": MUTED,
            "labelFontSize": 11,
            "title": None,
            "columnPadding": 14,
            "labelLimit": 220,
        },
    }


def svg(chart: Any, prefix: str) -> str:
    """Render an Altair chart. `prefix` keeps ids apart when several charts stand on one page.

    Nothing is fetched: vl-convert runs the bundled Vega. Fixed hex colours of `PALETTE` become CSS
    variables, so that the page's light and dark schemes hold for charts too.
    """
    import vl_convert

    spec = {**chart.to_dict(validate=False), "config": config()}
    text = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    text = re.sub(r'(?:href)="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    for fixed, variable in PALETTE.items():
        text = text.replace(f'"{fixed}"', f'"{variable}"')
    text = re.sub(r"(\d+\.\d{2})\d+", r"\1", text)
    width = re.search(r'<svg[^>]*?width="([\d.]+)"', text)
    text = re.sub(r"(<svg[^>]*?) width=\"[\d.]+\" height=\"[\d.]+\"", r"\1", text, count=1)
    limit = f"max-width:{float(width.group(1)):.0f}px" if width else ""
    head = f'<svg aria-hidden="true" focusable="false" style="{limit}"'
    return re.sub(r"<svg\b", head, text, count=1)
