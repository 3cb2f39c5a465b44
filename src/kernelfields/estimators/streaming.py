"""Streams of fitted chains: labels of one sequence whose positions arrive one after another (models/stream.py)."""

from __future__ import annotations

from typing import Any

from kernelfields.estimators.rare_labels import LEARNT_DECODINGS
from kernelfields.models.stream import LabelStream


def stream(self: Any, lag: float = 5, *, decode: str | None = None, every: int = 1) -> LabelStream:
    """Return a stream that labels the positions of one sequence as they arrive.

    See docs/streams.md.

    Parameters
    ----------
    lag : float, default 5
        The number of positions after which a label is answered; infinity waits for the end of the sequence.
    decode : {"auto", "viterbi", "posterior"} or None, default None
        How labels are chosen; None means ``decode`` of the estimator.
    every : int, default 1
        How many positions are taken together before answers are computed.

    Returns
    -------
    LabelStream
        ``push`` takes the next positions, ``end`` ends the sequence.

    Raises
    ------
    ValueError
        If ``decode`` is None and that of the estimator is "f1".

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> stream = crf.stream(lag=1)
    >>> [stream.push([degrees]).labels for degrees in (21.0, 20.0, 10.0)]
    [[], ['sun'], ['sun']]
    >>> stream.end().labels
    ['rain']
    """
    if decode is None and self.decode in LEARNT_DECODINGS:
        raise ValueError("streams decode by 'viterbi' or 'posterior': name one of them, this field has decode='f1'")
    jointly = self._decision_rule.decision(self, decode).jointly
    return LabelStream(self._field(), self._reader, self.classes_, lag, every, jointly, self.n_jobs)
