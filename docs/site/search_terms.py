"""Sphinx extension: entries of the index, so that the search finds a page by the words that people use for it.

The search ranks an entry of the index above words of a text. ``PAGES`` names the page that a term belongs to: what
``check_browser.py`` asks the search of the built site, and other words for it.
"""

from __future__ import annotations

from typing import Any

from check_browser import QUERIES
from sphinx.application import Sphinx

PAGES = QUERIES | {
    "NER": "text",
    "sequence labeling": "chains",
    "part-of-speech tagging": "text",
    "sentence classification": "documents",
    "activity recognition": "sensors",
    "label errors": "labelling",
    "semi-supervised learning": "unlabelled",
    "conformal prediction": "prediction_sets",
    "CUDA": "engines",
    "pip": "install",
    "polars": "frames",
    "load model": "production",
    "ONNX": "production",
    "inter-annotator agreement": "annotators",
    "imbalanced": "rare_events",
    "sklearn-crfsuite": "migrating",
    "hidden Markov model": "migrating",
    "semi-Markov": "segments",
    "multi-label": "multilabel",
    "node classification": "graphs",
    "hyperparameters": "selection",
    "uncertainty": "uncertainty",
}


def add_terms(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the entries of a page at its end."""
    terms = [term for term, page in PAGES.items() if page == docname]
    if terms:
        # A main entry, as marked by "!", comes before all matches of words.
        source[0] += f"\n\n:::{{index}} {', '.join(f'! {term}' for term in terms)}\n:::\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Read the terms before each page is parsed."""
    app.connect("source-read", add_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
