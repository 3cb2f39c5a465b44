"""The parameter ``features`` of estimators of sequences: transformers of inputs.

    "auto"          sequences of strings: words by TextFeatures, single characters of a small alphabet as symbols, texts
                    of several words by their words; other inputs unchanged
    a transformer   of sequences, or of scikit-learn and of rows, which is then applied to all positions
    a list          of transformers, whose columns are joined
    None            inputs unchanged

Raises TypeError for other objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from kernelfields.features.templates import TemplateFeatures, are_symbols, text_template
from kernelfields.features.text import TextFeatures, are_texts

# Texts begin with a capital, whose flag shows that a neighbour is there: beginning and end have fewer of them.
_PLACES = "".join(f":place[{row}]=%capital[{row},0]\n" for row in (-2, -1, 1, 2))


def check_transformers(features: object, name: str) -> None:
    """Raise unless ``features`` is a transformer or a list of transformers."""
    parts = features if isinstance(features, list | tuple) else [features]
    if not parts:
        raise ValueError(f"{name} holds no transformer: give one, or None")
    for part in parts:
        if isinstance(part, type) or not (hasattr(part, "fit_transform") and hasattr(part, "transform")):
            raise TypeError(f"{name} must be 'auto', None, a transformer or a list of them, got {part!r:.60}")


def resolve_features(features: Any) -> Any:
    """Return one unfitted transformer of sequences for a transformer or a list."""
    if not isinstance(features, list | tuple):
        return _as_sequence_transformer(clone(features))
    from kernelfields.features.sequencewise import SequenceUnion

    return SequenceUnion(
        [(f"part{number}", _as_sequence_transformer(part)) for number, part in enumerate(features, start=1)]
    )


def features_of_words(X: Sequence[Sequence[str]]) -> Any:
    """Return the transformer of strings that ``kernelfields train`` uses for a column of words."""
    words = {word for (column,) in TextFeatures(tag_columns=()).split_columns(X) for word in column}
    if are_texts(words):
        return _make_text_transformer()
    if are_symbols(words):
        return TemplateFeatures(text_template([[(symbol,) for symbol in words]], [0]).text)
    return TextFeatures()


def _make_text_transformer() -> Any:
    """Return a transformer of texts: tf-idf of words and word pairs, and the index of a text in its sequence."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    return resolve_features([words, TemplateFeatures(_PLACES)])


def _as_sequence_transformer(transformer: Any) -> Any:
    """Return a transformer of sequences, which applies a transformer of rows to all positions."""
    first = transformer.steps[0][1] if isinstance(transformer, Pipeline) else transformer
    if not type(first).__module__.startswith("sklearn."):
        return transformer
    from kernelfields.features.sequencewise import Sequencewise

    return Sequencewise(transformer)
