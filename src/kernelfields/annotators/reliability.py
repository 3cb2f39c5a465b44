"""Reliability of annotators: how often each gives the label of the consensus.

    accuracy_r = sum_a share(a) pi^r(a, a),     share(a) = mean_t p(y_t = a | x, z)
    kappa_r    = (accuracy_r - chance_r) / (1 - chance_r),     chance_r = sum_a share(a) sum_a' share(a') pi^r(a', a)

Accuracy is that of a position drawn at random; kappa is what is left of it beyond giving labels as often without
looking. Both are estimates by the model: an error that annotators share cannot be recognised as one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import plot_heat_map
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Table, json_value

if TYPE_CHECKING:
    from kernelfields.reports.figures import AxesOrNone


@dataclass(frozen=True, eq=False)
class AnnotatorReliability:
    """The reliability of one annotator.

    Parameters
    ----------
    annotator : object
        The name.
    n_labelled : int
        The number of positions that the annotator labelled.
    accuracy : float
        The share of right labels at a position drawn at random, as the model estimates it.
    kappa : float
        What is left of the accuracy beyond giving labels as often without looking; 1 is the best.
    worst : tuple or None
        The label that is most often mistaken, what is said in its place, and how often; None for one label.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import AnnotatedCRF, ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
    >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
    >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
    >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
    >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
    >>> last = model.reliability().rows[-1]
    >>> last.annotator, last.n_labelled
    ('Bob', 18)
    """

    annotator: Hashable
    n_labelled: int
    accuracy: float
    kappa: float
    #: Label, what is said in its place, and how often of the positions with that label; None if there is but one.
    worst: tuple[Hashable, Hashable, float] | None

    @property
    def cells(self) -> tuple[object, ...]:
        """The cells of the table's row."""
        label, said, share = self.worst or ("", "", 0.0)
        mistaken = f"{label} as {said}: {share:.2f}" if self.worst else ""
        return (self.annotator, self.n_labelled, self.accuracy, self.kappa, mistaken)

    @classmethod
    def from_confusions(
        cls, annotator: Hashable, n_labelled: int, matrix: np.ndarray, shares: np.ndarray, labels: list
    ) -> AnnotatorReliability:
        """Compute the reliability from a confusion matrix.

        Parameters
        ----------
        annotator : object
            The name.
        n_labelled : int
            The number of positions that the annotator labelled.
        matrix : array (L, L)
            The probabilities p(said | label).
        shares : array (L,)
            The shares of the labels.
        labels : list
            The labels.

        Returns
        -------
        AnnotatorReliability
            The reliability.
        """
        accuracy = float(shares @ np.diag(matrix))
        chance = float(shares @ (shares @ matrix))
        kappa = (accuracy - chance) / (1.0 - chance) if chance < 1.0 else 0.0
        wrong = matrix - np.diag(np.diag(matrix))
        row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
        worst = (labels[row], labels[column], float(wrong[row, column])) if len(labels) > 1 else None
        return cls(annotator, n_labelled, accuracy, kappa, worst)


@dataclass(frozen=True, eq=False)
class AnnotatorTable(Shown):
    """The reliability of all annotators, in descending order.

    Print it, show it in a notebook, or ``plot()`` the confusions of one annotator.

    Parameters
    ----------
    rows : list of AnnotatorReliability
        The annotators, the best first.
    labels : list
        The labels.
    confusions : dict
        The array (L, L) of p(said | label) of each annotator, by name.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import AnnotatedCRF, ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])] * 3
    >>> right = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]] * 3
    >>> hasty = [["sun", "rain", "rain", "rain"], ["rain", None, "rain"]] * 3
    >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
    >>> model = AnnotatedCRF(field, cv=2).fit(X, {"Ada": right, "Bob": hasty, "Eve": right})
    >>> table = model.reliability()
    >>> print(str(table).splitlines()[0])
    3 annotators, 2 labels; as estimated by field and annotators together
    """

    rows: list[AnnotatorReliability]
    labels: list[Hashable]
    confusions: dict[Hashable, np.ndarray]

    def parts(self) -> list[str | Table]:
        """Yield the heading, and a table with a row for each annotator.

        Returns
        -------
        list of str and Table
            What is printed and shown.
        """
        heading = f"{inflect(len(self.rows), 'annotator')}, {inflect(len(self.labels), 'label')}"
        columns = ("annotator", "labelled", "accuracy", "kappa", "most often mistaken")
        formats = {"labelled": ",", "accuracy": ".3f", "kappa": ".3f"}
        table = Table(columns, [row.cells for row in self.rows], words=(0, 4), formats=formats)
        return [f"{heading}; as estimated by field and annotators together", table]

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON.

        Returns
        -------
        dict
            Labels, rows and confusions.
        """
        columns = ("annotator", "n_labelled", "accuracy", "kappa", "worst")
        values = {
            "labels": self.labels,
            "rows": [{name: getattr(row, name) for name in columns} for row in self.rows],
            "confusions": [[name, matrix] for name, matrix in self.confusions.items()],
        }
        return {name: json_value(value) for name, value in values.items()}

    def plot(self, annotator: Hashable | None = None, ax: AxesOrNone = None) -> Picture:
        """Plot the confusions p(given | label) of one annotator.

        Parameters
        ----------
        annotator : object or None, default None
            The name; None for the least reliable annotator.
        ax : Axes or None, default None
            Where to draw with matplotlib; None for a picture of its own.

        Returns
        -------
        Picture
            The picture.

        Raises
        ------
        ValueError
            If no annotator has that name.
        """
        chosen = self.rows[-1].annotator if annotator is None else annotator
        if chosen not in self.confusions:
            known = ", ".join(map(repr, self.confusions))
            raise ValueError(f"no annotator is called {chosen!r}: known are {known}")
        return plot_heat_map(
            self.confusions[chosen],
            self.labels,
            self.labels,
            ax,
            row_name="label",
            column_name=f"said by {chosen}",
            largest=1.0,
        )
