"""Results of evaluations: figures with their intervals, as plain values, as tables and as a map of confusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelfields.evaluation.calibration import Calibration
from kernelfields.evaluation.label_scores import Scores
from kernelfields.evaluation.resampling import ResampledFigures
from kernelfields.numerics.wording import inflect
from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import MOST_LABELS, plot_heat_map
from kernelfields.reports.tables import Estimate, PlainValues, Result, Table

_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1", "support": "support"}
_FORMATS = {"precision": ".3f", "recall": ".3f", "F1": ".3f", "support": ","}
_INTERVALS = "by Wilson's method for shares, else from {:,} resamples of {}s"
#: Labels of which a matrix in text shows all confusions, and how many are listed of more labels.
_MATRIX_LABELS, _MOST_CONFUSIONS = 8, 10


@dataclass(frozen=True)
class EntityScores(Result):
    """Scores of entities by type, and averages.

    Parameters
    ----------
    scheme : str
        The scheme by which labels were read.
    per_type : dict
        Scores by type.
    averages : dict
        Scores by "micro", "macro" and "weighted".

    Examples
    --------
    >>> from kernelfields.evaluation import evaluate
    >>> entities = evaluate([["B-PER", "O"], ["B-LOC"]], [["B-PER", "O"], ["O"]], random_state=0).entities
    >>> entities.scheme, entities.per_type["PER"].f1.value
    ('bio', 1.0)
    """

    scheme: str
    per_type: dict[str, Scores]
    averages: dict[str, Scores]

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The scheme, a list of types with their scores, and the averages.
        """
        figures = super().to_dict()
        types = [{"type": kind, **scores} for kind, scores in figures["per_type"].items()]
        return {"scheme": self.scheme, "types": types, "averages": figures["averages"]}


@dataclass(frozen=True)
class LogLikelihood(Result):
    """The mean log p(y | x).

    Parameters
    ----------
    per_sequence : Estimate
        The mean over sequences.
    per_token : Estimate
        The mean over positions.
    n_impossible : int
        How many sequences have the probability zero; with any, the means are minus infinity.

    Examples
    --------
    >>> from kernelfields.evaluation import evaluate
    >>> result = evaluate([["a", "b"], ["a"]], [["a", "a"], ["a"]], log_likelihood=[-1.0, -0.5], random_state=0)
    >>> result.log_likelihood.per_sequence.value
    -0.75
    """

    per_sequence: Estimate
    per_token: Estimate
    n_impossible: int


@dataclass(frozen=True)
class DecodingScores(Result):
    """The main figures of one decoding.

    Parameters
    ----------
    accuracy : Estimate
        The share of right positions.
    sequence_accuracy : Estimate
        The share of sequences without an error.
    entity_f1 : Estimate or None
        The F1 of entities, None if there are none.
    n_changed : int
        How many positions have another label than in the evaluated decoding.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.evaluation import evaluate
    >>> marginals = [np.array([[0.9, 0.1], [0.3, 0.7]])]
    >>> result = evaluate([["a", "b"]], [["a", "a"]], marginals=marginals, classes=["a", "b"])
    >>> {name: scores.accuracy.value for name, scores in result.decodings.items()}
    {'predicted': 0.5, 'posterior': 1.0}
    """

    accuracy: Estimate
    sequence_accuracy: Estimate
    entity_f1: Estimate | None
    n_changed: int


@dataclass(frozen=True)
class Evaluation(ResampledFigures):
    """The result of :func:`evaluate`.

    Parameters
    ----------
    n_sequences : int
        The number of sequences.
    n_tokens : int
        The number of positions.
    n_resamples : int
        The number of resamples for intervals.
    confidence : float
        The coverage of intervals.
    accuracy : Estimate
        The share of right positions.
    sequence_accuracy : Estimate
        The share of sequences without an error.
    per_label : dict
        Scores by label.
    averages : dict
        Scores by "micro", "macro" and "weighted".
    entities : EntityScores or None
        Scores of entities.
    log_likelihood : LogLikelihood or None
        The mean log-likelihood, None if it was not requested.
    calibration : Calibration or None
        How far probabilities are from shares, None without marginals.
    decodings : dict or None
        DecodingScores by name if other ways to decide give other labels.
    confusions : dict
        How often each pair of a true and a predicted label occurs.
    unseen : dict
        True labels that the fit of the model never saw, and how often they occur.
    nouns : tuple of str, default ("sequence", "position")
        What an item and a position of it are called.

    Examples
    --------
    >>> from kernelfields.evaluation import evaluate
    >>> result = evaluate([["a", "b"], ["a", "a"]], [["a", "a"], ["a", "a"]], random_state=0)
    >>> result.confusion_matrix
    array([[3, 0],
           [1, 0]])
    """

    accuracy: Estimate
    sequence_accuracy: Estimate
    per_label: dict[object, Scores]
    averages: dict[str, Scores]
    entities: EntityScores | None = None
    log_likelihood: LogLikelihood | None = None
    calibration: Calibration | None = None
    decodings: dict[str, DecodingScores] | None = None
    confusions: dict[tuple[object, object], int] = field(default_factory=dict)
    unseen: dict[object, int] = field(default_factory=dict)

    @property
    def headline(self) -> tuple[str, Estimate]:
        """The name and value of the main figure: F1 of entities if there are any, else accuracy."""
        if self.entities is None:
            return "accuracy", self.accuracy
        return f"entity F1 ({self.entities.scheme})", self.entities.averages["micro"].f1

    @property
    def size(self) -> str:
        """A description of the size of the data and the method of the intervals."""
        return self._size(_INTERVALS, self.unseen)

    @property
    def lead(self) -> str:
        """A sentence about the main figure."""
        name, figure = self.headline
        return f"{name[0].upper()}{name[1:]} {figure:.3f} on {inflect(self.n_sequences, self.nouns[0])}."

    @property
    def confusion_matrix(self) -> np.ndarray:
        """Counts of true labels (rows) by predicted labels (columns), in the order of ``per_label``."""
        places = {label: place for place, label in enumerate(self.per_label)}
        matrix = np.zeros((len(places), len(places)), dtype=np.int64)
        for (true, predicted), count in self.confusions.items():
            matrix[places[true], places[predicted]] = count
        return matrix

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The figures, with lists of labels with their scores and of pairs of labels with their counts.
        """
        figures = super().to_dict()
        figures["confusions"] = [
            {"true": true, "predicted": predicted, "count": count}
            for (true, predicted), count in self.confusions.items()
        ]
        figures["unseen"] = [{"label": label, "count": count} for label, count in self.unseen.items()]
        sizes = {name: figures.pop(name) for name in ("n_sequences", "n_tokens", "n_resamples", "confidence")}
        labels = [{"label": label, **scores} for label, scores in figures.pop("per_label").items()]
        return {**sizes, "labels": labels, "averages": figures.pop("averages"), **figures}

    def tables(self) -> dict[str, Table]:
        """Return the tables by caption.

        Returns
        -------
        dict of Table
            Figures, decodings, entities, labels, confusions.
        """
        figures = list(self._figures().items())
        tables = {"Figures": Table(("figure", "value"), figures, formats={"value": "z.4f"})}  # z: no -0.0000
        if self.decodings is not None:
            tables["Decoded in other ways"] = self._decoding_table(self.decodings)
        if (entities := self.entities) is not None:
            caption, head = f"Entities in the scheme {entities.scheme}", f"entity ({entities.scheme})"
            tables[caption] = _score_table(head, entities.per_type, entities.averages)
        tables["Labels"] = _score_table("label", self.per_label, self.averages)
        return tables | self._confusion_tables()

    def parts(self) -> list[str | Table]:
        """Yield the size of the data, and the tables.

        Returns
        -------
        list of str and Table
            What is printed.
        """
        return [self.size, *self.tables().values()]

    def _figures(self) -> dict[str, Estimate | str]:
        """Return accuracies, likelihoods and calibration by name, the main figure first."""
        (name, figure), (whole, part) = self.headline, self.shown_nouns
        figures: dict[str, Estimate | str] = {name: figure, "accuracy": self.accuracy}
        if part:  # an item of one label is right where its label is
            figures[f"{whole} accuracy"] = self.sequence_accuracy
        if (likelihood := self.log_likelihood) is not None:
            units = {whole: likelihood.per_sequence} | ({part: likelihood.per_token} if part else {})
            count = likelihood.n_impossible
            words = f"minus infinity: {inflect(count, whole)} {'have' if count > 1 else 'has'} probability zero"
            figures |= {f"log-likelihood per {noun}": words if count else own for noun, own in units.items()}
        if self.calibration is not None:
            figures["expected calibration error"] = self.calibration.expected_error
            figures["Brier score"] = self.calibration.brier
        return figures

    def _decoding_table(self, decodings: dict[str, DecodingScores]) -> Table:
        rows = [
            (name, scores.entity_f1, scores.accuracy, scores.sequence_accuracy, scores.n_changed or "as above")
            for name, scores in decodings.items()
        ]
        columns = ("decoding", "entity F1", "accuracy", f"{self.nouns[0]} accuracy", "other labels")
        formats = dict.fromkeys(columns[1:4], ".3f") | {"other labels": ","}
        return Table(columns, rows, formats=formats, optional=columns[1:2])

    def _confusion_tables(self) -> dict[str, Table]:
        """Return the confusion matrix of few labels, or the most frequent confusions of many; empty without errors."""
        wrong = [(pair, count) for pair, count in self.confusions.items() if pair[0] != pair[1]]
        if not wrong:
            return {}
        labels = list(self.per_label)
        if len(labels) <= _MATRIX_LABELS:
            names = [str(label) for label in labels]
            rows = [(name, *line) for name, line in zip(names, self.confusion_matrix.tolist(), strict=True)]
            formats = dict.fromkeys(names, ",")
            return {"True labels and predicted ones": Table(("true \\ predicted", *names), rows, formats=formats)}
        wrong.sort(key=lambda entry: (-entry[1], *map(labels.index, entry[0])))
        listed = [
            (true, predicted, count, count / self.per_label[true].support)
            for (true, predicted), count in wrong[:_MOST_CONFUSIONS]
        ]
        head = ("true", "predicted", "count", "share of the true label")
        formats = {"count": ",", "share of the true label": ".3f"}
        return {"Most frequent confusions": Table(head, listed, words=(0, 1), formats=formats)}

    def confusion_picture(self) -> Picture | None:
        """Return the shares of predicted labels by true label as a heat map.

        Returns
        -------
        Picture or None
            The picture; None for too many labels, or no errors.
        """
        labels, matrix = list(self.per_label), self.confusion_matrix
        if matrix.sum() == np.trace(matrix) or len(labels) > MOST_LABELS:
            return None
        shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
        return plot_heat_map(shares, labels, labels, row_name="true", column_name="predicted", largest=1.0)


def _score_table(head: str, named: Mapping[Any, Scores], averages: dict[str, Scores]) -> Table:
    """Return precision, recall, F1 and support by name, followed by averages."""
    averaged = {f"{kind} average": scores for kind, scores in averages.items()}
    listed, below = (
        [(name, *(getattr(scores, part) for part in _SCORES)) for name, scores in group.items()]
        for group in (named, averaged)
    )
    return Table((head, *_SCORES.values()), [*listed, (), *below], formats=_FORMATS)
