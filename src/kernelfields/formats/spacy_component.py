"""A component of spaCy's pipelines that finds entities by a field, with exact probabilities.

    nlp = spacy.blank("en")
    nlp.add_pipe("kernelfields", config={"model": "names.safetensors"})
    doc = nlp("Anna lives in Zurich")
    doc.ents                               the entities of predict_entities
    doc.spans["kernelfields"]              the same, with their probabilities in attrs["scores"]
    doc.ents[0]._.probability

The model is a file of ``kernelfields.save``: a field that was fitted to words, or a pipeline of ``TextFeatures`` and a
field, fitted to ``to_sequences(...)`` of documents or to the words of Docs. Its words are the tokens of spaCy except
spaces. ``to_disk`` writes the model into the folder of the pipeline, so that ``spacy.load`` needs no
other file.

Cost: one ``predict_entities`` for each batch of ``nlp.pipe``. Raises ValueError when a component without a model is
called; ``from_disk`` may load one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sklearn.base import BaseEstimator
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import minibatch

from kernelfields.files import load, save
from kernelfields.models.wrapped_field import get_field

GROUP = "kernelfields"
_MODEL_FILE = "model.kfm"


class FieldComponent:
    """A spaCy component that sets ``doc.ents`` and ``doc.spans["kernelfields"]`` by a fitted model of words.

    Parameters
    ----------
    model : a fitted field or pipeline that takes words, the path of its file, or None for ``from_disk``
    least : the least probability of an entity; those below are left out
    """

    def __init__(self, model: BaseEstimator | None = None, *, least: float = 0.0):
        if not 0.0 <= least <= 1.0:
            raise ValueError(f"least must be a probability from 0 to 1, got {least!r}")
        self._missing = str(model) if isinstance(model, str | Path) and not Path(model).exists() else ""
        self.model = None if self._missing else load(model) if isinstance(model, str | Path) else model
        self.least = least
        if not Span.has_extension("probability"):
            Span.set_extension("probability", default=None)

    def __call__(self, doc: Doc) -> Doc:
        """Set the entities of one Doc."""
        self.set_entities([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the entities of Docs in batches."""
        for batch in minibatch(stream, size=batch_size):
            self.set_entities(batch)
            yield from batch

    def set_entities(self, docs: Sequence[Doc]) -> None:
        """Set the entities of Docs and their probabilities."""
        if self.model is None:
            missing = f": there is no file {self._missing}" if self._missing else ""
            raise ValueError(f'no model{missing}; nlp.add_pipe("kernelfields", config={{"model": path}}) needs one')
        words = [[token for token in doc if not token.text.isspace()] for doc in docs]
        texts = [[token.text for token in tokens] for tokens in words]
        found = get_field(self.model).predict_entities(texts)
        for doc, tokens, entities in zip(docs, words, found, strict=True):
            chosen = [entity for entity in entities if entity.probability >= self.least]
            spans = [Span(doc, tokens[one.begin].i, tokens[one.end - 1].i + 1, label=str(one.label)) for one in chosen]
            doc.set_ents(spans, default="outside")
            scores = [float(one.probability) for one in chosen]
            doc.spans[GROUP] = SpanGroup(doc, name=GROUP, attrs={"scores": scores}, spans=spans)
            for span, score in zip(spans, scores, strict=True):
                span._.probability = score

    def to_disk(self, path: str | Path, exclude: Iterable[str] = ()) -> None:
        """Write the model into a folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        if self.model is not None:
            save(self.model, folder / _MODEL_FILE)

    def from_disk(self, path: str | Path, exclude: Iterable[str] = ()) -> FieldComponent:
        """Read the model from a folder."""
        self.model = load(Path(path) / _MODEL_FILE)
        return self


@Language.factory(
    "kernelfields",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={"model": None, "least": 0.0},
)
def make_component(nlp: Language, name: str, model: str | None, least: float) -> FieldComponent:
    """Return the component for ``nlp.add_pipe("kernelfields", config={"model": path})``."""
    return FieldComponent(model, least=least)
