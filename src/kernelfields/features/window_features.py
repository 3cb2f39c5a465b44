"""Means, differences and ranges over windows as additional columns (numerics/window_statistics.py).

Arrays: sequences (T, d) -> (T, d (1 + widths statistics)). Raises ValueError or TypeError with the parameter, the
sequence or the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.graph_reading import is_list_of_graphs
from kernelfields.data.readers import RowReader
from kernelfields.data.reading import Matrix
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.features.text import TRANSFORMERS
from kernelfields.numerics.parameters import is_sequence, is_whole
from kernelfields.numerics.window_statistics import STATISTICS, USUAL, WIDTHS, window_names, with_window_columns


@TRANSFORMERS.register("windows")
class WindowFeatures(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Add means, differences and ranges over windows to the columns of sequences of numbers.

    ``window="statistics"`` of a field does the same. Attributes after fit: ``n_features_in_``, and
    ``feature_names_in_`` for data frames.

    Parameters
    ----------
    widths : odd int or sequence of odd ints, default (5, 15, 45)
        Numbers of positions, the one in the middle included.
    statistics : sequence of {"mean", "difference", "range"}, default all three
        What is computed of each window.

    See Also
    --------
    kernelfields.features.SequenceSummaries : One row for a whole sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import WindowFeatures
    >>> X = [np.array([[1.0], [2.0], [6.0]])]
    >>> WindowFeatures(widths=3, statistics=["mean"]).fit_transform(X)[0]
    array([[1. , 1.5],
           [2. , 3. ],
           [6. , 4. ]])
    """

    def __init__(self, *, widths: Any = WIDTHS, statistics: Sequence[str] = USUAL):
        self.widths = widths
        self.statistics = statistics

    def fit(self, X: Any, y: object = None) -> Self:
        """Check the parameters, and store the number and names of columns.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : object, optional
            Not used.

        Returns
        -------
        self
            The fitted transformer.
        """
        self._check_settings()
        if is_list_of_graphs(X):
            raise TypeError("X holds graphs, whose nodes have no order: windows are for sequences")
        reader = RowReader()
        _dense(reader.learn_arrays(X)[0])
        self._set_reader(reader)
        return self

    def transform(self, X: Any) -> list[np.ndarray]:
        """Return sequences with additional columns of window statistics.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list of array
            The sequences.
        """
        packed, offsets = self._read(X)
        widths, statistics = self._check_settings()
        made = with_window_columns(_dense(packed), offsets, widths, statistics)
        return [made[first:last] for first, last in pairwise(offsets.tolist())]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column, such as "mean 15 of temperature".

        Parameters
        ----------
        input_features : list of str, optional
            The names of the columns of inputs; those of the fit by default.

        Returns
        -------
        array of str
            The names.
        """
        check_is_fitted(self, "n_features_in_")
        given = self._reader.columns if input_features is None else list(input_features)
        names = [f"x{column}" for column in range(self.n_features_in_)] if given is None else [*map(str, given)]
        widths, statistics = self._check_settings()
        return np.array(window_names(names, widths, statistics), dtype=object)

    def describe(self) -> dict[str, object]:
        """Return the fitted transformer as plain values and arrays, for a model file.

        Returns
        -------
        dict
            The description.

        Raises
        ------
        TypeError
            If a part of it is no data.
        """
        check_is_fitted(self, "n_features_in_")
        widths, statistics = self._check_settings()
        columns = {"n_features": self.n_features_in_, "names": self._reader.columns}
        return {"widths": widths, "statistics": statistics, **columns}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description.

        Parameters
        ----------
        described : dict
            What ``describe`` returned.

        Returns
        -------
        WindowFeatures
            The transformer.
        """
        made = cls(widths=described["widths"], statistics=described["statistics"])
        made._check_settings()
        made._set_reader(RowReader(int(described["n_features"]), columns=described["names"]))
        return made

    def _check_settings(self) -> tuple[list[int], list[str]]:
        """Return the widths and the names of statistics; raise for invalid ones."""
        widths = [self.widths] if is_whole(self.widths) else self.widths
        if not is_sequence(widths) or not len(widths):
            raise ValueError(f"widths must be odd whole numbers from 3 on, got {self.widths!r:.60}")
        for width in widths:
            if not is_whole(width) or width < 3 or width % 2 == 0:
                raise ValueError(f"widths must be odd whole numbers from 3 on, got {width!r}")
        names = [self.statistics] if isinstance(self.statistics, str) else self.statistics
        if not is_sequence(names) or not len(names):
            raise ValueError(f"statistics must be names among {', '.join(STATISTICS)}, got {self.statistics!r:.60}")
        for name in names:
            if name not in STATISTICS:
                raise ValueError(f"statistics must be names among {', '.join(STATISTICS)}, got {name!r}")
        return [int(width) for width in widths], list(names)


def _dense(rows: Matrix) -> np.ndarray:
    if sp.issparse(rows):
        raise TypeError("X is sparse: windows over columns that are mostly zero are for dense arrays; use toarray()")
    return np.asarray(rows, dtype=np.float64)
