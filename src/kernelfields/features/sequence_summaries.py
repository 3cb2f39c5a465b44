"""Summaries of sequences as rows of a table: level, spread, extremes and slope of each column, by part.

    sequences (T, d)  ->  (n, 5 d (1 + parts) + 1):   mean, deviation, minimum, maximum and slope of each column,
                                                      of the whole and of parts of equal length, and log T

These numbers separate classes of sequences that differ in their shape, such as gestures, independently of the length;
numerics/sequence_statistics.py computes them.

Cost: O(N d). Raises ValueError or TypeError with the parameter or the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.readers import RowReader
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.features.text import TRANSFORMERS
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.sequence_statistics import STATISTICS, summary


@TRANSFORMERS.register("summaries")
class SequenceSummaries(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Summarize each sequence of numbers as a row of a table, for a classifier of whole sequences.

    Attributes after fit: ``n_features_in_``, and ``feature_names_in_`` for data frames.

    Parameters
    ----------
    parts : int, default 3
        The number of parts of equal length that are summarised beside the whole; 1 for the whole alone.
    as_sequences : bool, default False
        Whether each row is a sequence of one position, for an estimator of sequences.

    See Also
    --------
    kernelfields.SequenceClassifier : Classifies whole sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.features import SequenceSummaries
    >>> X = [np.array([[1.0], [2.0], [6.0]]), np.zeros((5, 1))]
    >>> SequenceSummaries(parts=1).fit_transform(X).shape
    (2, 6)
    """

    def __init__(self, *, parts: int = 3, as_sequences: bool = False):
        self.parts = parts
        self.as_sequences = as_sequences

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
        check_count(self.parts, "parts")
        reader = RowReader()
        rows, _ = reader.learn_arrays(X)
        if sp.issparse(rows):
            raise TypeError("X is sparse: summaries are of columns of numbers; use toarray()")
        self._set_reader(reader)
        return self

    def transform(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Return a row for each sequence.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        array (n, d), or list of array (1, d)
            The rows.
        """
        rows, offsets = self._read(X)
        if 0 in (lengths := np.diff(offsets)):
            raise ValueError(f"sequence {lengths.tolist().index(0)} of X is empty: remove it from X and y")
        dense = np.asarray(rows, dtype=np.float64)
        made = [summary(dense[first:last], self.parts) for first, last in pairwise(offsets.tolist())]
        table = np.array(made).reshape(len(made), len(self.get_feature_names_out()))
        return list(table[:, None]) if self.as_sequences else table

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column, such as "slope of temperature, part 2 of 3".

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
        places = ["", *(f", part {part + 1} of {self.parts}" for part in range(self.parts) if self.parts > 1)]
        made = [f"{what} of {name}{place}" for place in places for what in STATISTICS for name in names]
        return np.array([*made, "log length"], dtype=object)

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
        own = {"parts": self.parts, "as_sequences": bool(self.as_sequences)}
        return {**own, "n_features": self.n_features_in_, "names": self._reader.columns}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description.

        Parameters
        ----------
        described : dict
            What ``describe`` returned.

        Returns
        -------
        SequenceSummaries
            The transformer.
        """
        made = cls(parts=described["parts"], as_sequences=bool(described.get("as_sequences", False)))
        check_count(made.parts, "parts")
        made._set_reader(RowReader(int(described["n_features"]), columns=described["names"]))
        return made
