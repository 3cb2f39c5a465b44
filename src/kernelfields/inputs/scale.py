"""Columns on one scale, for data in which one column would otherwise dominate the others.

    x_j  ->  (x_j - m_j) / s_j,      s_j = max( standard deviation, range / 8 )
                                     s_j = range,  of a column that has one value nearly always

An isotropic kernel adds up squared differences of all columns, and a Gaussian prior shrinks the weights of all columns
alike: both take a difference of one to mean as much in every column. Where the largest s_j is more than ten times the
smallest, that may not be meant, as for readings of different units; or it may, as for columns of noise that are small
because they hold nothing. Inputs alone do not show which: held-out labels do (models/pilot_fit.py), and where there
are too few of them, columns are scaled if they are few.

The range counts because a column that is nearly always zero has a tiny deviation, and dividing by it would put the few
inputs where it is not zero far away from all others; these come to lie one spread away, not eight. For a bell-shaped
column deviation and range / 8 are about the same. Columns that do not vary beyond the rounding of their values are left
as they are, and so do those that a kernel reads as they come.

Arrays: inputs (N, d) dense; rows count with their weights. Cost: three passes over the inputs, and one copy of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kernelfields.inputs.step import InputStep, Layout, Rows, Table
from kernelfields.numerics.group import ALONE, Group

#: Spreads of columns that differ by more than this factor may have to be brought to one scale.
MOST_RATIO = 10.0
#: So few columns are taken for readings of different kinds, where nothing else can be found out about them.
FEW_COLUMNS = 64
_RANGE_OF_DEVIATIONS = 8.0
# A column is nearly constant where one value has this share of the weight, found among so many rows.
_NEARLY_ALL = 0.95
_ROWS_LOOKED_AT = 1000
# Rows that are looked at before a warning.
_ROWS_WARNED_OF = 100_000
# Differences of so many units in the last place are rounding.
_ROUNDING = 32.0
# A column that spreads so many times as far as the usual one leaves nothing of the others in a distance.
_DROWNING = 30.0


@dataclass(frozen=True, eq=False)
class Scale(InputStep):
    """Standardize columns: subtract a centre from each, and divide it by a spread.

    Parameters
    ----------
    centre : array (d,)
        What is taken off.
    spread : array (d,)
        What is divided by.
    own : tuple of int, default ()
        Places of columns that kernels read as they come; no step changes their values.
    categories : int, default 0
        The number of columns, the last ones, that are there or not; no step changes their values.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inputs import Scale
    >>> Scale(np.array([1.0]), np.array([2.0]))(np.array([[1.0], [5.0]])).ravel().tolist()
    [0.0, 2.0]
    """

    centre: np.ndarray
    spread: np.ndarray

    entry = "scaling"
    setting: ClassVar[Mapping[str, object]] = {"scale": True}

    def __call__(self, rows: Rows, layout: Layout | None = None) -> Rows:
        """Return scaled rows (n, d), in their own precision."""
        centre, spread = (values.astype(rows.dtype) for values in (self.centre, self.spread))
        return (rows - centre) / spread

    def undo(self, rows: Rows) -> Rows:
        """Return scaled rows on the original scale.

        Parameters
        ----------
        rows : array (n, d)
            Rewritten rows.

        Returns
        -------
        array (n, d)
            The rows.
        """
        return rows * self.spread + self.centre

    def arithmetic(self, rows: Any) -> Any:
        """Scale rows by operators alone.

        Parameters
        ----------
        rows : object
            Rows with operators, such as those of a graph for ONNX.

        Returns
        -------
        object
            The rewritten rows.
        """
        rows = rows - self.centre
        # A single number is multiplied in as a matrix, see serving/onnx_graph.py.
        return rows / self.spread if len(self.spread) > 1 else rows @ (1.0 / self.spread[:, None])

    def names(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names unchanged.

        Parameters
        ----------
        names : sequence of str
            The names before the step.

        Returns
        -------
        sequence of str
            The names after it.
        """
        return names

    def columns(self, chosen: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the indices unchanged.

        Parameters
        ----------
        chosen : array (m,)
            Places of columns.
        n_columns : int
            The number of columns before the step.

        Returns
        -------
        array (m,)
            Their places after the step.
        """
        return chosen

    def pool_orbits(self, orbits: np.ndarray) -> Scale:
        """Return the scale with one centre and the largest spread for all columns of an orbit.

        Parameters
        ----------
        orbits : array (d,)
            The number of the orbit of each column.

        Returns
        -------
        Scale
            The scale.
        """
        centre = np.bincount(orbits, weights=self.centre) / np.bincount(orbits)
        spread = np.zeros(len(centre))
        np.maximum.at(spread, orbits, self.spread)
        return Scale(centre[orbits], spread[orbits])

    def describe(self) -> dict[str, object]:
        """Describe the scale by plain values and arrays, for a model file.

        Returns
        -------
        dict
            The description.
        """
        return {self.entry: {"centre": self.centre, "spread": self.spread}}

    @classmethod
    def from_setting(cls, own: Sequence[int]) -> Sequence[Self]:
        """Return no steps: ``ScaleRule.fit`` learns a scale.

        Parameters
        ----------
        own : sequence of int
            Places of columns that kernels read as they come.

        Returns
        -------
        sequence of InputStep
            The steps.
        """
        return []

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Rebuild the scale from its description.

        Parameters
        ----------
        described : dict
            The inputs of a model, as its file describes them.
        n_columns : int
            The number of columns before the step.

        Returns
        -------
        InputStep
            The step.

        Raises
        ------
        ValueError
            If the description is not sound.
        """
        given = described[cls.entry]
        centre, spread = (np.asarray(given[name], dtype=np.float64) for name in ("centre", "spread"))
        if not centre.shape == spread.shape == (n_columns,):
            raise ValueError("the scales of columns do not match the number of features")
        if not (np.isfinite(centre).all() and np.isfinite(spread).all() and (spread > 0).all()):
            raise ValueError("the scales of columns must be finite, and positive")
        return cls(centre, spread)


def spreads(inputs: np.ndarray, weights: np.ndarray, among: Group = ALONE) -> tuple[np.ndarray, np.ndarray]:
    """Return weighted means and spreads of columns; the spread of constant columns is 0.

    The rows may be those that this process has ``among`` others.
    """
    counted = inputs[weights > 0]
    weights = weights[weights > 0]
    total, joined = among.total, among.concatenate
    counts = joined(np.array([len(counted)]))
    if not counts.sum():
        return np.zeros(inputs.shape[1]), np.zeros(inputs.shape[1])
    shares = weights / total(weights.sum())
    # A process may have no row that counts.
    low = joined(counted.min(axis=0, keepdims=True) if len(counted) else counted).min(axis=0).astype(np.float64)
    high = joined(counted.max(axis=0, keepdims=True) if len(counted) else counted).max(axis=0).astype(np.float64)
    centre = total(shares @ counted)
    deviation = np.sqrt(np.maximum(total(shares @ np.square(counted - centre)), 0.0))
    step = -(-int(counts.sum()) // _ROWS_LOOKED_AT)
    before = among.find_share(counts.tolist()).start
    usual = np.median(joined(counted[-before % step :: step]), axis=0)
    constant = total(shares @ (counted == usual)) >= _NEARLY_ALL
    spread = np.maximum(deviation, (high - low) / np.where(constant, 1.0, _RANGE_OF_DEVIATIONS))
    epsilon = np.finfo(np.result_type(counted.dtype, np.float32)).eps
    rounding = _ROUNDING * epsilon * np.maximum(np.abs(low), np.abs(high))
    return centre, np.where(high - low > rounding, spread, 0.0)


def uneven_spreads(inputs: Rows | None, weights: np.ndarray) -> tuple[float, float] | None:
    """Return the median and the largest spread if the latter dominates, else None.

    Of very many rows some are looked at.
    """
    if not isinstance(inputs, np.ndarray) or inputs.shape[1] == 0:
        return None
    step = -(-inputs.shape[0] // _ROWS_WARNED_OF)
    spread = spreads(inputs[::step], weights[: inputs.shape[0] : step])[1]
    varying = np.sort(spread[spread > 0])
    usual = varying[(len(varying) - 1) // 2] if len(varying) else 0.0
    return (float(usual), float(varying[-1])) if len(varying) and varying[-1] > _DROWNING * usual else None


@dataclass(frozen=True, eq=False)
class ScaleRule:
    """A rule for a scale: learnt ``always``, or only if spreads differ much.

    Columns that are ``kept`` stay as they come; those of one orbit, numbered by ``orbits`` (d,), are scaled alike. The
    rows may be those that this process has ``among`` others.
    """

    always: bool = False
    kept: Sequence[int] | np.ndarray = ()
    orbits: np.ndarray | None = None
    among: Group = ALONE

    def fit(self, table: Table) -> Sequence[Scale]:
        """Return the scale of the columns; no step if they have similar spreads, unless ``always``.

        Sparse rows stay as they are, as their zeros mean absence.
        """
        rows = table.rows
        if not isinstance(rows, np.ndarray) or rows.shape[1] == 0:
            return []
        centre, spread = spreads(rows, table.weights, self.among)
        spread[list(self.kept)] = 0.0
        varying = spread > 0
        if not varying.any() or not (self.always or spread.max() > MOST_RATIO * spread[varying].min()):
            return []
        found = Scale(np.where(varying, centre, 0.0), np.where(varying, spread, 1.0))
        return [found if self.orbits is None else found.pool_orbits(self.orbits)]
