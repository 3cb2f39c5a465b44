"""Local shapes of sequences as rows of a table: random convolutions, pooled over positions.

    sequences (T, d)  ->  (n, 2 m):   for each of m convolutions its largest value, and the share of positions at which
                                      it is above a threshold

These numbers separate classes of sequences that differ in short pieces at any place; a linear kernel of some hundreds
of them is usually enough. numerics/convolutions.py has the convolutions and their sources. They do not depend on
labels.

Cost: O(N m (9 + columns of a convolution)). Raises ValueError or TypeError with the parameter or the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.readers import RowReader
from kernelfields.data.reading import random_generator
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.features.text import TRANSFORMERS
from kernelfields.numerics.convolutions import Convolutions
from kernelfields.numerics.parameters import check_count


@TRANSFORMERS.register("shapes")
class LocalShapes(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Summarize each sequence of numbers by random convolutions, for a classifier of whole sequences.

    Attributes after fit: ``convolutions_``, ``n_features_in_``, and ``feature_names_in_`` for data frames.

    Parameters
    ----------
    n_convolutions : int, default 500
        The number of convolutions, each of which makes two columns.
    as_sequences : bool, default False
        Whether each row is a sequence of one position, for an estimator of sequences.
    random_state : int, Generator, RandomState or None, default 0
        The source of randomness; a number makes fits repeatable.

    See Also
    --------
    kernelfields.SequenceClassifier : Classifies whole sequences.
    SequenceSummaries : Levels, spreads and slopes of the whole and its parts.

    References
    ----------
    .. [1] A. Dempster, F. Petitjean and G. I. Webb, "ROCKET: exceptionally fast and accurate time series
       classification using random convolutional kernels", Data Mining and Knowledge Discovery 34, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.features import LocalShapes
    >>> X = [np.array([[1.0], [2.0], [6.0]]), np.arange(5.0)[:, None]]
    >>> LocalShapes(n_convolutions=10).fit_transform(X).shape
    (2, 20)
    """

    def __init__(self, *, n_convolutions: int = 500, as_sequences: bool = False, random_state: Any = 0):
        self.n_convolutions = n_convolutions
        self.as_sequences = as_sequences
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Draw the convolutions, and store the number and names of columns.

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
        check_count(self.n_convolutions, "n_convolutions")
        reader = RowReader()
        rows, offsets = reader.learn_arrays(X)
        if sp.issparse(rows):
            raise TypeError("X is sparse: shapes are of columns of numbers; use toarray()")
        random, dense = random_generator(self.random_state), np.asarray(rows, dtype=np.float64)
        self.convolutions_ = Convolutions.draw(random, self.n_convolutions, dense, offsets)
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
        array (n, 2 m), or list of array (1, 2 m)
            The rows: the maxima of all convolutions, then their shares.
        """
        rows, offsets = self._read(X)
        if 0 in (lengths := np.diff(offsets)):
            raise ValueError(f"sequence {lengths.tolist().index(0)} of X is empty: remove it from X and y")
        table = self.convolutions_.pool(np.asarray(rows, dtype=np.float64), offsets)
        return list(table[:, None]) if self.as_sequences else table

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column, such as "share of shape 12".

        Parameters
        ----------
        input_features : list of str, optional
            Not used: a convolution may see several columns.

        Returns
        -------
        array of str
            The names.
        """
        check_is_fitted(self, "n_features_in_")
        numbers = range(len(self.convolutions_))
        return np.array(
            [f"{what} of shape {number}" for what in ("maximum", "share") for number in numbers], dtype=object
        )

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
        own = {"convolutions": self.convolutions_.describe(), "as_sequences": bool(self.as_sequences)}
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
        LocalShapes
            The transformer.
        """
        n_columns = int(described["n_features"])
        convolutions = Convolutions.rebuild(described["convolutions"], n_columns)
        made = cls(n_convolutions=len(convolutions), as_sequences=bool(described["as_sequences"]))
        made.convolutions_ = convolutions
        made._set_reader(RowReader(n_columns, columns=described["names"]))
        return made
