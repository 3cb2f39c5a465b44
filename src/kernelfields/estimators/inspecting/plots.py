"""Pictures of a fitted field, each by one call: its labels of an item, transitions, convergence, calibration, learning.

``crf.plot.transitions()`` asks the field for what a function of kernelfields.reports draws. Costs: an answer about the
data that are passed; a learning curve fits once for each size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.reading import random_generator
from kernelfields.evaluation.evaluation import evaluate
from kernelfields.numerics.parameters import is_real
from kernelfields.reports.curves import plot_convergence, plot_learning_curve, plot_reliability
from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import MOST_LABELS, plot_transitions
from kernelfields.reports.sequences import plot_sequence

if TYPE_CHECKING:
    from kernelfields.reports.figures import AxesOrNone

_SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)


class Plots:
    """The pictures of a field, as methods: ``crf.plot.transitions()``.

    Each draws with matplotlib, into the Axes passed as ``ax`` or into a new figure, and returns a Picture: a notebook
    shows it, ``picture.figure`` and ``picture.axes`` are matplotlib's own, and ``savefig`` writes a file.

    Parameters
    ----------
    model : fitted estimator
        The field.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> crf.plot.labels(X[0], y[0])
    Picture('marginal probabilities of 4 positions')
    """

    def __init__(self, model: Any):
        self._model = model

    def __repr__(self) -> str:
        names = ", ".join(name for name in dir(self) if not name.startswith("_"))
        return f"pictures of a {type(self._model).__name__}: {names}"

    def labels(
        self, x: object, y: Sequence | None = None, *, tokens: Sequence | None = None, ax: AxesOrNone = None
    ) -> Picture:
        """Plot the labels along one item, with the probabilities of all labels.

        Parameters
        ----------
        x : sequence or graph
            One item, in the form the model was fitted on.
        y : sequence of labels or None, default None
            Its true labels, to mark those that are wrong.
        tokens : sequence or None, default None
            What to write at each position, such as its word; None for the words of x.
        ax : matplotlib.axes.Axes or None, default None
            Where to draw; None for a new figure.

        Returns
        -------
        Picture
            The drawing.

        Raises
        ------
        TypeError
            If the items of the field are rows.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [["Ada", "slept"], ["Bob", "met", "Ada"]]
        >>> crf = ChainCRF(prior_variance=1.0, random_state=0).fit(X, [["B-PER", "O"], ["B-PER", "O", "B-PER"]])
        >>> picture = crf.plot.labels(["Bob", "slept"])
        >>> [label.get_text() for label in picture.axes[0].get_xticklabels()]
        ['Bob', 'slept']
        """
        if not hasattr(self._model, "show"):
            raise TypeError(f"a {type(self._model).__name__} labels rows, which have no order that could be drawn")
        return plot_sequence(self._model.show(x, y, tokens=tokens), ax=ax)

    def transitions(self, *, most: int = MOST_LABELS, ax: AxesOrNone = None) -> Picture:
        """Plot the scores of pairs of neighbouring labels, from row to column.

        Parameters
        ----------
        most : int, default 50
            Of more labels those with the strongest scores are shown.
        ax : matplotlib.axes.Axes or None, default None
            Where to draw; None for a new figure.

        Returns
        -------
        Picture
            The drawing.

        Raises
        ------
        ValueError
            If the field has no transitions that are the same for all inputs.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [["Ada", "slept"], ["Bob", "met", "Ada"]]
        >>> crf = ChainCRF(prior_variance=1.0, random_state=0).fit(X, [["B-PER", "O"], ["B-PER", "O", "B-PER"]])
        >>> [label.get_text() for label in crf.plot.transitions().axes[0].get_yticklabels()]
        ['B-PER', 'O']
        """
        return plot_transitions(self._model, ax=ax, most=most)

    def convergence(self, *, ax: AxesOrNone = None) -> Picture:
        """Plot the value of the fit, its lower bound and the relative gap against passes over the data.

        Parameters
        ----------
        ax : Axes, pair of Axes or None, default None
            One takes the upper panel alone, two take both; None for a new figure.

        Returns
        -------
        Picture
            The drawing.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [["Ada", "slept"], ["Bob", "met", "Ada"]]
        >>> crf = ChainCRF(prior_variance=1.0, random_state=0).fit(X, [["B-PER", "O"], ["B-PER", "O", "B-PER"]])
        >>> len(crf.plot.convergence().axes)
        2
        """
        return plot_convergence(self._model, ax)

    def calibration(self, X: object, y: object, *, ax: AxesOrNone = None) -> Picture:
        """Plot the share of right labels against the predicted probability, on data outside the fit.

        Parameters
        ----------
        X : inputs
            Items, in a form that ``fit`` takes.
        y : labels
            Their true labels.
        ax : matplotlib.axes.Axes or None, default None
            Where to draw; None for a new figure.

        Returns
        -------
        Picture
            The drawing.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [["Ada", "slept"], ["Bob", "met", "Ada"]]
        >>> crf = ChainCRF(prior_variance=1.0, random_state=0).fit(X, [["B-PER", "O"], ["B-PER", "O", "B-PER"]])
        >>> crf.plot.calibration([["Bob", "slept"]], [["B-PER", "O"]]).axes[0].get_ylabel()
        'share of right labels'
        """
        return plot_reliability(evaluate(self._model, X, y, random_state=0), ax)

    def learning_curve(
        self,
        X: Any,
        y: Any,
        X_test: object,
        y_test: object,
        *,
        shares: Sequence[float] = _SHARES,
        random_state: object = 0,
        ax: AxesOrNone = None,
    ) -> Picture:
        """Plot the score on test data against the number of training items.

        The field is fitted anew for each share of the items, with the parameters of the estimator; what is left to the
        data is chosen for each. The score is F1 if labels are those of entities, else accuracy, with its interval.

        Parameters
        ----------
        X : inputs
            Training items, in a form that ``fit`` takes.
        y : labels
            Their labels.
        X_test : inputs
            Items to be judged on.
        y_test : labels
            Their true labels.
        shares : sequence of float, default (0.1, 0.2, 0.4, 0.7, 1.0)
            The shares of the training items.
        random_state : int, Generator, RandomState or None, default 0
            The seed of the order in which items come to the training data.
        ax : matplotlib.axes.Axes or None, default None
            Where to draw; None for a new figure.

        Returns
        -------
        Picture
            The drawing.

        Raises
        ------
        ValueError
            If a share is not above 0 and at most 1.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> random = np.random.default_rng(0)
        >>> X = [random.normal(size=(5, 1)) for _ in range(20)]
        >>> y = [(x[:, 0] > 0).astype(int) for x in X]
        >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False, window=1).fit(X[:10], y[:10])
        >>> picture = crf.plot.learning_curve(X[:10], y[:10], X[10:], y[10:], shares=(0.5, 1.0))
        >>> picture.axes[0].lines[0].get_xdata().tolist()
        [5, 10]
        """
        check_is_fitted(self._model)
        for share in shares:
            if not is_real(share) or not 0 < share <= 1:
                raise ValueError(f"shares must be above 0 and at most 1, got {share!r}")
        n_items = X.shape[0] if hasattr(X, "shape") else len(X)
        order = random_generator(random_state).permutation(n_items)
        sizes = sorted({max(1, round(share * n_items)) for share in shares})
        figures = []
        for size in sizes:
            chosen = np.sort(order[:size])
            field = clone(self._model).fit(_safe_indexing(X, chosen), _safe_indexing(y, chosen))
            figures.append(evaluate(field, X_test, y_test, random_state=0))
        name, _ = figures[-1].headline
        whole, _ = figures[-1].nouns
        return plot_learning_curve(sizes, [each.headline[1] for each in figures], ax, score=name, item=whole)
