"""Questions and files once more, with words as inputs: every answer takes what the fit was given.

An estimator of sequences has a twin whose items are words, of which it makes features by itself. Laws of labels follow
from coefficients and from features that are looked up by their names here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kernelfields import TextFeatures
from tests.campaigns.cells import questions, tools
from tests.campaigns.cells.features import FEATURES, OF_WORDS, Feature, feature
from tests.campaigns.cells.subjects import (
    Annotated,
    Chain,
    ChainSearch,
    Item,
    Ring,
    Scores,
    Segments,
    Subject,
    Whole,
    in_form,
)
from tests.campaigns.cells.verdicts import Inexpressible

_TAKE_WORDS = (Chain, Ring, Segments, Whole, Annotated, ChainSearch)
_TOOLS = ("Pipeline", "cross_val_score", "GridSearchCV", "save, load", "pickle", "load_chain (NumPy alone)", "ONNX")


class OfWords(Subject):
    """Items whose inputs are words, one for each position."""

    of_words = True

    def pack(self, items: Sequence[Item], form: str = "arrays") -> Any:
        """Return sequences of words."""
        return [in_form(item.x, "words") for item in items]

    def scores(self, model: Any, item: Item) -> Scores:
        """Return the scores of labels, from the features of words and their coefficients."""
        places = {name: place for place, name in enumerate(self.field(model).feature_names_in_)}
        (made,) = TextFeatures().transform(self.pack([item]))
        x = np.zeros((len(item.x), len(places)))
        for row, names in zip(x, made, strict=True):
            row[[places[name] for name in names if name in places]] = 1.0
        return super().scores(model, replace(item, x=x))


@cache
def twin(kind: type[Subject]) -> Subject:
    """Return the subject of words."""
    return type(f"{kind.__name__}OfWords", (OfWords, kind), {})()


def _enter(row: Feature) -> None:
    def ask(s: Subject) -> None:
        if type(s) not in _TAKE_WORDS:
            raise Inexpressible("words are the inputs of sequences; a table has columns of text")
        row.ask(twin(type(s)))

    ask.__doc__ = row.ask.__doc__
    feature("questions about words", f"{row.name}{OF_WORDS}", quick=row.quick)(ask)


for _row in list(FEATURES):
    _home = _row.ask.__module__
    if _home == questions.__name__ or (_home == tools.__name__ and _row.name in _TOOLS):
        _enter(_row)
