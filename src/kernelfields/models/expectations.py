"""Expectation constraints: target proportions of labels.

    LabelShares({"O": 0.4, ("B-NP", "I-NP"): 0.5})          4 in 10 tokens are outside, 5 in 10 in a noun phrase

They enter a fit as divergences of the shares that the field expects, objective/likelihoods/expectations.py. Labels that
are not named share what is left. Where an instance has several yes-or-no labels, each has a share of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.data.reading import find_place
from kernelfields.engines.engine import PackedData
from kernelfields.numerics.parameters import check_penalty, is_real
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.likelihoods.expectations import Expectation

Label: TypeAlias = str | int | float | bool
Shares: TypeAlias = Mapping[Label | tuple[Label, ...], float]

# Shares are written by hand: 0.33, 0.33, 0.34.
_ROUNDING = 1e-6


@SETTINGS.register("label shares")
class LabelShares(BaseEstimator):
    """Target share of labels among all positions, labelled or not.

    Parameters
    ----------
    shares : dict of label or tuple of labels to float
        Numbers between 0 and 1. Labels in a tuple have the share together; those that are not named have what is left.
    weight : float or None, default None
        The number of labels, drawn with these shares, that it counts as; None for the number of positions.

    See Also
    --------
    kernelfields.PartialLabels : Takes expectations.

    References
    ----------
    .. [1] G. S. Mann and A. McCallum, "Generalized expectation criteria for semi-supervised learning with weakly
       labeled data", Journal of Machine Learning Research 11, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, PartialLabels
    >>> from kernelfields.estimators import LabelShares
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> shares = LabelShares({"sun": 0.45, "rain": 0.55})
    >>> partial = PartialLabels(expectations=[shares])
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, partial_labels=partial, random_state=0)
    >>> crf.fit(X, [["sun", None, None, "rain"], [None, None, None]]).predict(X)
    [['sun', 'sun', 'rain', 'rain'], ['rain', 'rain', 'sun']]
    """

    def __init__(self, shares: Shares, *, weight: float | None = None):
        self.shares = shares
        self.weight = weight

    def check(self) -> None:
        """Raise an error if shares or weight are invalid for any labels.

        Raises
        ------
        ValueError
            If a share is not between 0 and 1, or the weight is negative.
        """
        if not isinstance(self.shares, Mapping) or not self.shares:
            raise ValueError(f"LabelShares needs a dict of labels and their shares, got {self.shares!r:.60}")
        for label, share in self.shares.items():
            if not is_real(share) or not 0 <= share <= 1:
                raise ValueError(f"LabelShares: the share of {label!r} is {share!r}, and must be between 0 and 1")
        if self.weight is not None:
            check_penalty(self.weight, "weight of LabelShares")

    def make_expectations(self, data: PackedData, classes: np.ndarray, *, is_part: bool = False) -> list[Expectation]:
        """Return the expectations for some data.

        Parameters
        ----------
        data : PackedData
            The data.
        classes : array (L,)
            The labels.
        is_part : bool, default False
            Whether the data are a part of all: then nothing may count, and the weight is known when the parts are added
            up.

        Returns
        -------
        list of Expectation
            The expectations.

        Raises
        ------
        ValueError
            If the labels do not have the names.
        """
        places = {label: place for place, label in enumerate(classes.tolist())}
        weigh = (lambda own: self.weight) if is_part else (lambda own: self._weight_of(data, own))
        if isinstance(data, LabelledInstances):
            own = [self._label_share(data, label, float(share), places) for label, share in self.shares.items()]
            return [replace(each, weight=weigh(each.rows)) for each in own]
        groups = np.full(len(classes), len(self.shares))
        for group, labels in enumerate(self.shares):
            for label in labels if isinstance(labels, tuple) else (labels,):
                place = find_place(label, places, "LabelShares names")
                if groups[place] < len(self.shares):
                    raise ValueError(f"LabelShares names {label!r} twice: a label has one share")
                groups[place] = group
        shares = np.array([*self.shares.values(), 0.0])
        shares[-1] = 1.0 - shares.sum()
        if shares[-1] < -_ROUNDING:
            raise ValueError(f"LabelShares: shares add up to {1.0 - shares[-1]:.4g}, which is more than one")
        if shares[-1] > _ROUNDING and groups.max() < len(self.shares):
            raise ValueError(
                f"LabelShares names every label, and their shares add up to {1.0 - shares[-1]:.4g}: they must add up "
                "to one, or leave out a label that has the rest"
            )
        shares = np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum()
        return [Expectation(groups, shares, weigh(None), None, "LabelShares")]

    def _label_share(self, data: LabelledInstances, label: object, share: float, places: dict) -> Expectation:
        """Return the share of instances with a label."""
        nodes = data.rows_of_label(find_place(label, places, "LabelShares names"))
        return Expectation(np.arange(2), np.array([1.0 - share, share]), None, nodes, f"LabelShares of {label!r}")

    def _weight_of(self, data: PackedData, rows: np.ndarray | None) -> float:
        weights = data.position_weights if rows is None else data.position_weights[rows]
        if not weights.any():
            raise ValueError("LabelShares counts positions whose weights are all zero")
        return float(weights.sum()) if self.weight is None else float(self.weight)


def check_expectations(expectations: object) -> None:
    """Raise unless the values are valid expectations."""
    if not isinstance(expectations, list | tuple) or not all(isinstance(part, LabelShares) for part in expectations):
        raise TypeError(f"expectations must be a list of LabelShares, got {expectations!r:.60}")
    for shares in expectations:
        shares.check()
