"""Expectation constraints: target proportions of labels, everywhere or where a feature is active.

    LabelShares({"O": 0.4, ("B-NP", "I-NP"): 0.5})          4 in 10 tokens are outside, 5 in 10 in a noun phrase
    LabelledFeature("word:London", {"B-LOC": 0.8})          8 in 10 tokens "London" begin a place

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
from kernelfields.data.readers import InputReader
from kernelfields.data.reading import listed, place_of
from kernelfields.engines.engine import PackedData
from kernelfields.numerics.parameters import check_penalty, is_real, is_whole
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.likelihoods.expectations import Expectation

Label: TypeAlias = str | int | float | bool
Shares: TypeAlias = Mapping[Label | tuple[Label, ...], float]

# Shares are written by hand: 0.33, 0.33, 0.34.
_ROUNDING = 1e-6


@SETTINGS.register("label shares")
class LabelShares(BaseEstimator):
    """The share that labels have of all positions, whether these are labelled or not.

    Parameters
    ----------
    shares : dict, label or tuple of labels -> number between 0 and 1
        Labels in a tuple have the share together. Those that are not named have what is left to one.
    weight : float or None
        What it counts as: that many labels, drawn with these shares. None for the number of positions.
    """

    def __init__(self, shares: Shares, *, weight: float | None = None):
        self.shares = shares
        self.weight = weight

    def check(self) -> None:
        """Raise if shares or weight cannot be used with any labels."""
        if not isinstance(self.shares, Mapping) or not self.shares:
            raise ValueError(f"{self._name} needs a dict of labels and their shares, got {self.shares!r:.60}")
        for label, share in self.shares.items():
            if not is_real(share) or not 0 <= share <= 1:
                raise ValueError(f"{self._name}: the share of {label!r} is {share!r}, and must be between 0 and 1")
        if self.weight is not None:
            check_penalty(self.weight, f"weight of {self._name}")

    @property
    def _name(self) -> str:
        return type(self).__name__

    def active(self, data: PackedData, reader: InputReader) -> np.ndarray | None:
        """Return the positions that count, by number, None for all of them."""
        return None

    def on(
        self, data: PackedData, reader: InputReader, classes: np.ndarray, *, is_part: bool = False
    ) -> list[Expectation]:
        """Return the expectations on some data; ValueError if they do not have the labels.

        Of a part of the data, nothing may count; what all of it counts as is known when the parts are added up.
        """
        rows, places = self.active(data, reader), {label: place for place, label in enumerate(classes.tolist())}
        weigh = (lambda own: self.weight) if is_part else (lambda own: self._weight_of(data, own))
        if isinstance(data, LabelledInstances):
            own = [self._of_label(data, rows, label, float(share), places) for label, share in self.shares.items()]
            return [replace(each, weight=weigh(each.rows)) for each in own]
        groups = np.full(len(classes), len(self.shares))
        for group, labels in enumerate(self.shares):
            for label in labels if isinstance(labels, tuple) else (labels,):
                place = place_of(label, places, f"{self._name} names")
                if groups[place] < len(self.shares):
                    raise ValueError(f"{self._name} names {label!r} twice: a label has one share")
                groups[place] = group
        shares = np.array([*self.shares.values(), 0.0])
        shares[-1] = 1.0 - shares.sum()
        if shares[-1] < -_ROUNDING:
            raise ValueError(f"{self._name}: shares add up to {1.0 - shares[-1]:.4g}, which is more than one")
        if shares[-1] > _ROUNDING and groups.max() < len(self.shares):
            raise ValueError(
                f"{self._name} names every label, and their shares add up to {1.0 - shares[-1]:.4g}: they must add up "
                "to one, or leave out a label that has the rest"
            )
        shares = np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum()
        return [Expectation(groups, shares, weigh(rows), rows, self._name)]

    def _of_label(
        self, data: LabelledInstances, rows: np.ndarray | None, label: object, share: float, places: dict
    ) -> Expectation:
        """Return the share of instances that have a label."""
        nodes = data.rows_of_label(place_of(label, places, f"{self._name} names"))
        nodes = nodes if rows is None else nodes[rows]
        return Expectation(np.arange(2), np.array([1.0 - share, share]), None, nodes, f"{self._name} of {label!r}")

    def _weight_of(self, data: PackedData, rows: np.ndarray | None) -> float:
        weights = data.position_weights if rows is None else data.position_weights[rows]
        if rows is not None and not len(rows):
            raise ValueError(f"{self._name}: the feature is active nowhere in X")
        if not weights.any():
            raise ValueError(f"{self._name} counts positions whose weights are all zero")
        return float(weights.sum()) if self.weight is None else float(self.weight)


@SETTINGS.register("labelled feature")
class LabelledFeature(LabelShares):
    """The share that labels have of the positions where a feature is active, which is: not zero.

    Parameters
    ----------
    feature : str or int
        The name of a feature of dicts, strings or data frames, such as "word:London", or the number of a column.
    shares, weight : as in LabelShares
    """

    def __init__(self, feature: str | int, shares: Shares, *, weight: float | None = None):
        super().__init__(shares, weight=weight)
        self.feature = feature

    @property
    def _name(self) -> str:
        return f"LabelledFeature({self.feature!r})"

    def active(self, data: PackedData, reader: InputReader) -> np.ndarray:
        """Return the positions, or instances, where the feature is not zero."""
        column = self._column(reader)
        values = data.inputs[:, [column]]
        values = values if isinstance(values, np.ndarray) else values.toarray()
        # Inputs that are read again, for a warm start, come on their scale.
        scaling = reader.scaling
        zero = scaling(np.zeros((1, data.inputs.shape[1])))[0, column] if callable(scaling) else 0.0
        return np.flatnonzero(values != zero)

    def _column(self, reader: InputReader) -> int:
        if is_whole(self.feature):
            if not 0 <= self.feature < reader.n_features:
                raise ValueError(f"{self._name}: columns are numbered from 0 to {reader.n_features - 1}")
            return int(self.feature)
        if reader.names is None:
            raise ValueError(f"{self._name}: the features of X have no names, give the number of a column")
        if self.feature not in reader.names:
            raise ValueError(f"{self._name}: X has no such feature, it has {listed(reader.names)}")
        return reader.names.index(self.feature)


def check_expectations(expectations: object) -> None:
    """Raise unless these are expectations that can be used."""
    if not isinstance(expectations, list | tuple) or not all(isinstance(part, LabelShares) for part in expectations):
        raise TypeError(f"expectations must be a list of LabelShares and LabelledFeature, got {expectations!r:.60}")
    for shares in expectations:
        shares.check()
