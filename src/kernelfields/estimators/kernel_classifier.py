"""KernelClassifier: kernel logistic regression, the field of a single node, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from kernelfields.data.cliques import USUAL
from kernelfields.data.graphs import Graphs
from kernelfields.data.table_reader import TableReader
from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators import library
from kernelfields.estimators.answering.decisions import DecodeRule
from kernelfields.estimators.answering.formats import SingleFormat
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.inspecting.inspection import RowInspection
from kernelfields.estimators.kept_field import KernelLike, TiesLike
from kernelfields.inference.single import softmax
from kernelfields.numerics.parameters import (
    check_tolerance,
    declares_parameters,
    parameter,
    variances_or_auto,
)
from kernelfields.structures.rows import RowStructure
from kernelfields.structures.structure import Data


@declares_parameters
class TableField(ClassifierMixin, FieldEstimator[Data, TableReader]):
    """A field on the rows of a table: the common part of KernelClassifier and MultiLabelCRF.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable or scikit-learn kernel, default "auto"
        The kernel on rows. "auto" is "linear" for wide sparse inputs, else "rbf".
    """

    kernel: KernelLike = parameter("auto", first=True, usual="rbf")

    @available_if(lambda estimator: library.has_partial_fit(estimator))
    def partial_fit(
        self, X: object, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one more batch of rows, with the posterior so far as the prior.

        It is there for kernels without explicit features, and not after :meth:`fit`, which keeps no curvature. See
        docs/partial_fit.md.

        Parameters
        ----------
        X : array (n, d)
            The rows of the batch.
        y : labels
            The labels of the batch, in a form that :meth:`fit` takes.
        classes : sequence of labels or None, default None
            All labels there are, or those that are to come; labels that are new in a later batch join them.
        sample_weight : array (n,) or None, default None
            One weight for each row.

        Returns
        -------
        Self
            The fitted estimator.

        Examples
        --------
        >>> from kernelfields import KernelClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelClassifier("rbf", prior_variance=10.0, scale=False, random_state=0)
        >>> model = model.partial_fit(X[::6], y[::6]).partial_fit(X[3::6], y[3::6])
        >>> round(model.score(X[1::3], y[1::3]), 2)
        0.96
        """
        return super().partial_fit(X, y, classes, sample_weight)

    def score(  # type: ignore[override]  # rows have no lengths
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of rows with all labels right.

        For several labels it is the subset accuracy, as in scikit-learn. Labels that are not known do not count, nor
        rows without any known one.

        Parameters
        ----------
        X : array (n, d)
            The rows.
        y : labels
            The true labels, in a form that :meth:`fit` takes.
        sample_weight : array (n,) or None, default None
            One weight for each row.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            As in :meth:`predict`; without effect for one label.

        Returns
        -------
        float
            The share, between 0 and 1.

        Examples
        --------
        >>> from kernelfields import KernelClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelClassifier("rbf", prior_variance=10.0, scale=True, random_state=0).fit(X[::3], y[::3])
        >>> round(model.score(X[1::3], y[1::3]), 2)
        0.92
        """
        return self._answer_format.score(self, X, y, sample_weight, decode)


@declares_parameters
class KernelClassifier(TableField[Graphs]):
    """Kernel logistic regression: p(y | x) proportional to exp f(x, y), f from a Gaussian process.

    It is the field of a single node: Gaussian process classification with the softmax likelihood, at the maximum a
    posteriori. With two classes the log-odds f(x, 1) - f(x, 0) have the prior variance 2 * prior_variance * k(x, x).
    docs/single_labels.md.

    Parameters
    ----------
    prior_variance : "auto", float or tuple, default "auto"
        The variance of the Gaussian prior on f; a tuple has one for each part of a sum of kernels, and the constants
        have the first. "auto" chooses a power of ten by held-out data.
    tol : float, default 1e-4
        The relative duality gap at which a fit ends.
    class_weight : dict, "balanced" or None, default None
        The weight of each class; "balanced" gives each class the same total weight.
    bias : bool, default True
        Whether each class has a constant of its own beside f, with the same prior variance.
    ties : LabelSymmetry, list of LabelSymmetry or None, default None
        Labels that share weights by a symmetry of labels and columns; docs/ties.md.

    See Also
    --------
    MultiLabelCRF : Several labels for each row.

    References
    ----------
    .. [1] C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning", MIT Press, 2006, chapter 3.

    Examples
    --------
    >>> from kernelfields import KernelClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelClassifier("rbf", prior_variance=10.0, scale=True, random_state=0).fit(X[::3], y[::3])
    >>> round(model.score(X[1::3], y[1::3]), 2)
    0.92
    >>> model.predict_proba(X[[0, 70]]).round(2)
    array([[0.99, 0.01, 0.01],
           [0.03, 0.41, 0.56]])
    """

    _kind = "KernelClassifier"
    _structures = RowStructure
    _answer_format = SingleFormat(RowStructure.item_names, ("sample", ""))
    # The largest score, whatever rounding does to probabilities.
    _decision_rule = DecodeRule(jointly=True)
    _inspection = RowInspection()

    bias: bool = parameter(True)
    prior_variance: float | str | Sequence[float] = parameter("auto", variances_or_auto, usual=USUAL["prior_variance"])
    class_weight: Mapping[object, float] | str | None = parameter(
        None, lambda value, name: library.check_class_weight(value)
    )
    tol: float = parameter(1e-4, lambda value, name: check_tolerance(value))
    ties: TiesLike | None = parameter(None, lambda value, name: library.resolve_ties(value))

    def _scores(self, X: object, known: object = None) -> np.ndarray:
        """Return f(x, y) of new inputs, (n, L), plus the log-weights of known labels."""
        return np.vstack([answers.node for answers in self.answers(X, known=known)])

    def decision_function(self, X: object) -> np.ndarray:
        """Return the scores f(x, y) of classes.

        Parameters
        ----------
        X : array (n, d)
            The rows.

        Returns
        -------
        ndarray (n, L) or (n,)
            The scores, columns as in ``classes_``; for two classes the log-odds of the second.

        Examples
        --------
        >>> from kernelfields import KernelClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelClassifier("rbf", prior_variance=10.0, scale=True, random_state=0).fit(X[::3], y[::3])
        >>> model.decision_function(X[:2]).round(1)
        array([[ 3.3, -1.4, -1.9],
               [ 2.6, -0.8, -1.9]])
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @accept_collections_by_item
    def predict_proba(self, X: object, *, uncertainty: bool = False, known: object = None) -> np.ndarray:
        """Return the probabilities p(y | x) of classes.

        Parameters
        ----------
        X : array (n, d)
            The rows.
        uncertainty : bool, default False
            After :meth:`laplace`, allow for doubt about the coefficients, as in :meth:`predict_marginals`.
        known : labels or None, default None
            What is known of the classes, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        ndarray (n, L)
            The probabilities, columns as in ``classes_``.

        Examples
        --------
        >>> from kernelfields import KernelClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelClassifier("rbf", prior_variance=10.0, scale=True, random_state=0).fit(X[::3], y[::3])
        >>> model.predict_proba(X[[0, 70]]).round(2)
        array([[0.99, 0.01, 0.01],
               [0.03, 0.41, 0.56]])
        """
        return self.predict_marginals(X, uncertainty=uncertainty, known=known)

    def predict_log_proba(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the logarithms of the probabilities of classes.

        Parameters
        ----------
        X : array (n, d)
            The rows.
        known : labels or None, default None
            What is known of the classes, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        ndarray (n, L)
            The values of log p(y | x), columns as in ``classes_``.

        Examples
        --------
        >>> from kernelfields import KernelClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelClassifier("rbf", prior_variance=10.0, scale=True, random_state=0).fit(X[::3], y[::3])
        >>> model.predict_log_proba(X[[0, 70]]).round(1)
        array([[-0. , -4.8, -5.2],
               [-3.6, -0.9, -0.6]])
        """
        scores = self._scores(X, known)
        return scores - softmax(scores)[0][:, None]
