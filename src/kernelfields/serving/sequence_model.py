"""Fitted classifiers of whole sequences for prediction alone, in NumPy.

    from kernelfields.serving import load_sequence_classifier

    model = load_sequence_classifier("model.kfm")    # what SequenceClassifier.save wrote
    model.predict(X); model.predict_proba(X)

    p(c | x) = sum over the states k of class c of p(h_1 = k | x)

A class is that of the first state of the chain inside (chain_model.py). Without hidden states the chain has one
position, whose input is the row of convolutions or statistics of a sequence.
Raises ServingError with the unsupported part of a model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from kernelfields.inference.packing import first_largest
from kernelfields.models.model_file import Document, ModelFileError, ModelFileMissing, read_model_parts
from kernelfields.numerics.convolutions import Convolutions
from kernelfields.numerics.sequence_statistics import summary
from kernelfields.numerics.stored_arrays import whole_number
from kernelfields.serving.chain_model import ChainModel
from kernelfields.serving.inputs import Inputs, ServingError

_KIND = "SequenceClassifier"


class SequenceModel:
    """A fitted SequenceClassifier that answers with NumPy alone.

    :func:`load_sequence_classifier` reads one from a model file. It does not change afterwards, so that any number of
    threads may use it.

    Parameters
    ----------
    document : dict
        What the model file holds.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The classes, sorted.
    n_features_in_ : int
        The number of columns of sequences.

    See Also
    --------
    ChainModel : The same for labels of positions.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import SequenceClassifier
    >>> from kernelfields.serving import load_sequence_classifier
    >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
    >>> SequenceClassifier(n_states=1, random_state=0).fit(X, ["up", "up", "down"]).save("ways.kfm")
    >>> load_sequence_classifier("ways.kfm").classes_.tolist()
    ['down', 'up']
    """

    def __init__(self, document: Document):
        self.classes_ = np.asarray(document["classes"])
        field, n_states = document["field"], whole_number(document["n_states"], "the number of states")
        #: What makes a row of each sequence, and how sequences are read for it; None with hidden states.
        self._rows: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
        if n_states == 0:
            described = field["features"][0]["transformer"]
            self._rows = _make_rows(described)
            read = {"n_features": described["n_features"], "sparse": False, "columns": described["names"]}
            self._inputs = Inputs(read, len(self.classes_))
            field = {**field, "features": []}
        self._chain = ChainModel(field)
        if len(self._chain.classes_) != len(self.classes_) * max(1, n_states):
            raise ServingError(f"{len(self._chain.classes_)} states do not make {len(self.classes_)} classes")
        self.n_features_in_ = self._chain.n_features_in_ if self._rows is None else self._inputs.n_features

    def predict_proba(self, X: Iterable) -> np.ndarray:
        """Compute the probability of each class.

        Parameters
        ----------
        X : iterable of sequences
            The sequences, in the form of the fit.

        Returns
        -------
        array (n, n_classes)
            The probabilities, columns in the order of ``classes_``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> from kernelfields.serving import load_sequence_classifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> SequenceClassifier(n_states=1, random_state=0).fit(X, ["up", "up", "down"]).save("ways.kfm")
        >>> load_sequence_classifier("ways.kfm").predict_proba(X).shape
        (3, 2)
        """
        sequences = list(X)
        if self._rows is not None and sequences:
            packed = self._inputs.read(sequences)
            made = self._rows(np.asarray(packed.rows, dtype=np.float64), packed.offsets)
            sequences = list(made[:, None])
        marginals = self._chain.predict_marginals(sequences)
        n_classes = len(self.classes_)
        first = np.array([rows[0] for rows in marginals])
        return first.reshape(len(sequences), n_classes, len(self._chain.classes_) // n_classes).sum(axis=2)

    def predict(self, X: Iterable) -> np.ndarray:
        """Predict the most probable class of each sequence.

        Parameters
        ----------
        X : iterable of sequences
            The sequences, in the form of the fit.

        Returns
        -------
        array (n,)
            The classes.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import SequenceClassifier
        >>> from kernelfields.serving import load_sequence_classifier
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
        >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, ["up", "up", "down"])
        >>> model.save("ways.kfm")
        >>> load_sequence_classifier("ways.kfm").predict(X[:1]).tolist()
        ['up']
        """
        return self.classes_[first_largest(self.predict_proba(X))]


def _make_rows(described: Document) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function that converts packed sequences to one row each."""
    if described["kind"] == "shapes":
        return Convolutions.rebuild(described["convolutions"], described["n_features"]).pool_plainly
    if described["kind"] != "summaries":
        raise ServingError(f"the transformer {described['kind']!r} cannot be served with NumPy alone")
    parts = whole_number(described["parts"], "the number of parts", 1)
    return lambda rows, offsets: np.array(
        [summary(rows[first:last], parts) for first, last in pairwise(offsets.tolist())]
    )


def load_sequence_classifier(path: str | os.PathLike[str]) -> SequenceModel:
    """Read a fitted SequenceClassifier from a model file for prediction with NumPy alone.

    Parameters
    ----------
    path : path
        A file that ``SequenceClassifier.save`` wrote.

    Returns
    -------
    SequenceModel
        The model.

    Raises
    ------
    ServingError
        If the model has what NumPy alone cannot serve, which the message names.

    See Also
    --------
    load_chain : Reads models of labels of positions.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import SequenceClassifier
    >>> from kernelfields.serving import load_sequence_classifier
    >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])]
    >>> model = SequenceClassifier("rbf", n_states=2, random_state=0).fit(X, ["up", "up", "down"])
    >>> model.save("ways.kfm")
    >>> bool((load_sequence_classifier("ways.kfm").predict(X) == model.predict(X)).all())
    True
    """
    try:
        kind, document, _ = read_model_parts(path)
    except ModelFileMissing:
        raise
    except ModelFileError as error:
        raise ServingError(str(error)) from error
    if kind != _KIND:
        raise ServingError(f"{path}: a model of the kind {kind!r} has no classes of sequences: {_KIND} has")
    try:
        return SequenceModel(document)
    except ServingError as error:
        raise ServingError(f"{path}: {error}") from error
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ServingError(f"{path} is not a sound {kind} model: {error!r:.200}") from error
