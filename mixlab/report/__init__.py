"""One HTML file that answers a study's question. Imports no torch."""

from mixlab.report._page import build_report

__all__ = ["build_report"]
