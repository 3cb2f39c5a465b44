"""Streams of one sequence: positions are pushed as they arrive, labels and marginals follow with a delay.

    stream = crf.stream(lag=5)
    for x in sensor:
        labels, marginals = stream.push(x)         p(y_t | x_1..x_{t + lag}) of the positions t that can be answered;
                                                   Viterbi may answer sooner, given what has come by then
    labels, marginals = stream.end()               the rest, given all

A window that looks ahead by ``a`` positions is counted into the lag: the potentials of t + lag - a are the last that
follow from x_1..x_{t + lag}, and the pass back runs over ``lag - a`` positions. inference/chain/streaming.py has the
equations; this module reads inputs and scores them, by the terms of the field, as prediction does. Features of words
see neighbours too: their reach is counted into the lag in the same way, and so many words are kept on either side.

Cost of a push of n rows: the scores of n + 1 rows and O(n (1 + (lag - a) / every) L^2). Memory: the inputs of a window
and the potentials of ``lag + every`` and n rows; with lag = infinity those of the whole sequence. Pushes of many rows
cost less for each of them: a call takes 0.2 milliseconds of Python, kernels of many rows are one product, and the last
row of the push before is scored again. Answers are the same.
Raises ValueError for cliques that reach further than neighbours, for a lag that is less than windows look ahead, for
inputs that do not fit and for streams that have ended; a push that fails changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import scipy.sparse

from kernelfields.data.border_cliques import EndCliques
from kernelfields.data.chains import Chains
from kernelfields.data.constraints import resolve_constraints
from kernelfields.data.ragged import plain_strings
from kernelfields.data.readers import InputReader, apply_transformer
from kernelfields.data.reading import Matrix
from kernelfields.inference.chain.streaming import ChainStream
from kernelfields.inference.potentials import Potentials
from kernelfields.models.field import Field
from kernelfields.numerics.containers import count_rows, find_shape
from kernelfields.numerics.parameters import check_count, check_window, is_real, is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.windows import window_view
from kernelfields.objective.term import Term


class StreamAnswers(NamedTuple):
    """The next positions of a stream, in order and without gaps.

    Parameters
    ----------
    labels : list of str or array (n,)
        The labels.
    marginals : array (n, n_labels)
        The probabilities.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> stream = crf.stream(lag=1)
    >>> stream.push({"word": "Ann"}).marginals.shape  # it waits for the next position
    (0, 2)
    """

    labels: Any
    marginals: np.ndarray


class LabelStream:
    """Label one sequence whose positions arrive one after the other.

    ``stream()`` of an estimator returns one. Answers about a position are given once ``lag`` further ones have come.

    Parameters
    ----------
    field : Field
        The clique sets and their weights.
    reader : InputReader
        How inputs are read.
    classes : array (L,)
        The labels.
    lag : float
        The number of positions after its own that an answer waits for; infinity for the end.
    every : int, default 1
        The number of positions that are answered together.
    jointly : bool, default False
        Whether labels are those of the most probable labelling.
    n_jobs : int, default 1
        The number of threads.

    Attributes
    ----------
    n_positions : int
        The number of positions so far.
    n_pending : int
        The number of positions that wait for their answers.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> stream = crf.stream(lag=1)
    >>> stream.push({"word": "Ann"}).labels, stream.push({"word": "sings"}).labels, stream.end().labels
    ([], ['NAME'], ['VERB'])
    """

    def __init__(
        self,
        field: Field,
        reader: InputReader,
        classes: np.ndarray,
        lag: float,
        every: int = 1,
        jointly: bool = False,
        n_jobs: int | None = 1,
    ):
        _check_neighbours(field)
        windows = [check_window(term.clique.window) for term in field.terms if not term.is_constant]
        self._before = max((before for before, _ in windows), default=0)
        self._after = max((after for _, after in windows), default=0)
        self._reach = _input_reach(reader.features)
        ahead = self._after + self._reach
        self.lag, self.every = _checked_lag(lag, ahead), every
        check_count(every, "every")
        self._reader = replace(reader, rows=replace(reader.rows, warns=False))
        self._classes, self._workers = classes, Workers(n_jobs)
        if any(reader.steps.reach):
            raise ValueError(
                "a stream sees one position after the other, and this field sees means and ranges over "
                f"{1 + sum(reader.steps.reach)} positions: predict whole sequences, or fit with window=1"
            )
        masks = field.spec.masks
        self._masks = resolve_constraints(None, classes) if masks is None else masks
        ends = [term for term in field.terms if isinstance(term.clique, EndCliques)]
        tables = [term for term in field.terms if term.labels_per_clique == 2]
        tied = all(term.is_constant for term in tables)
        apart = ends + tables if tied else ends
        self._fields = _by_window([term for term in field.terms if term not in apart], field)
        self._ends = _by_window(ends, field)
        edge = None
        if tied:
            n_labels = len(classes)
            edge = sum((term.tied_scores.reshape(n_labels, -1) for term in tables), np.array(self._masks.edge))
        self._chain = ChainStream(len(classes), edge, lag=lag - ahead, every=int(every), jointly=jointly)
        #: Inputs that are still seen: ``_seen`` rows before the first that has no scores yet, and those from it on; and
        #: the penalties of labels that these may not have, (n, L), None where all are.
        self._inputs: Matrix | None = None
        self._barred: np.ndarray | None = None
        self._seen = 0
        #: Words whose neighbours are still to come, after ``_done`` words before them.
        self._words: list = []
        self._done = 0
        self.n_positions = 0

    @property
    def n_pending(self) -> int:
        """Number of positions without answers."""
        unscored = 0 if self._inputs is None else self._inputs.shape[0] - self._seen
        return self._chain.n_pending + unscored + len(self._words) - self._done

    def push(self, x: object) -> StreamAnswers:
        """Add one or several positions; return the answers that are due.

        Parameters
        ----------
        x : array, dict, list or str
            One position, an array (d,), a feature dict, a list of feature strings or a word; or several, a table (n, d)
            or a list of dicts, of lists or of words.

        Returns
        -------
        StreamAnswers
            Labels and marginals of the next positions, perhaps of none.

        Raises
        ------
        ValueError
            If the stream has ended, or if inputs differ from those of the fit.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> stream = crf.stream(lag=1)
        >>> stream.push([{"word": "Ann"}, {"word": "sings"}]).labels
        ['NAME']
        """
        self._chain.check_open()
        if self._reader.features is not None:
            return self._named(*self._push_words([x] if isinstance(x, str | tuple | Mapping) else list(x)))  # type: ignore[call-overload]
        rows = _to_rows(x, named=self._reader.rows.encoder is not None)
        return self._named(*self._push_rows(rows))

    def _push_words(self, new: list, *, last: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Add words; a word becomes an input once all its neighbours are known."""
        words = self._words + new
        end = len(words) if last else max(self._done, len(words) - self._reach)
        made = apply_transformer(self._reader.features, [words])[0][self._done : end] if end > self._done else []
        answers = self._push_rows(made)
        kept = max(0, end - self._reach)
        self._words, self._done = words[kept:], end - kept
        return answers

    def _push_rows(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Add rows of inputs; return the labels and the marginals that are due."""
        if not count_rows(rows):
            return np.empty(0, np.int64), np.empty((0, len(self._classes)))
        chains = replace(self._reader, features=None).read([rows])
        joined = chains.inputs if self._inputs is None else _stacked(self._inputs, chains.inputs)
        barred = chains.penalties
        if barred is not None and self._barred is not None:
            barred = np.concatenate([self._barred, barred])
        end = max(self._seen, joined.shape[0] - self._after)
        answers = self._chain.push(*self._potentials(joined, barred, self._seen, end))
        seen = min(end, self._before + 1)
        self._inputs, self._seen = joined[end - seen :], seen
        self._barred = None if barred is None else barred[end - seen :]
        self.n_positions += chains.n_positions
        return answers

    def end(self) -> StreamAnswers:
        """End the sequence.

        Returns
        -------
        StreamAnswers
            The answers that are left, given all of the sequence.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> stream = crf.stream(lag=1)
        >>> answered = stream.push({"word": "Ann"})
        >>> stream.end().labels
        ['NAME']
        """
        self._chain.check_open()
        before = self._push_words([], last=True)
        if self._inputs is None:
            return self._named(*self._chain.end())
        n_rows = self._inputs.shape[0]
        last = self._masks.end + np.zeros(len(self._classes))
        for window, ending in self._ends.items():
            row = window_view(self._inputs, np.array([0, n_rows]), window)[n_rows - 1 :]
            last += self._scored(ending, Chains(row, np.array([0, 1]))).node[0]
        answers = self._chain.end(*self._potentials(self._inputs, self._barred, self._seen, n_rows), last=last)
        self._inputs, self._words, self._done = None, [], 0
        return self._named(*map(np.concatenate, zip(before, answers, strict=True)))

    def _named(self, labels: np.ndarray, marginals: np.ndarray) -> StreamAnswers:
        return StreamAnswers(plain_strings([self._classes[labels]])[0], marginals)

    def _potentials(
        self, inputs: Matrix, barred: np.ndarray | None, begin: int, end: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the potentials of rows begin..end-1 with the base measure; other rows are context."""
        n_labels, tied = len(self._classes), self._chain.tied
        node = np.zeros((end - begin, n_labels))
        edge = None if tied else np.zeros((end - begin, n_labels, n_labels)) + self._masks.edge
        if begin == end:
            return node, edge
        # A row before them, so that none but the first of the sequence is taken for a start.
        first = max(begin - 1, 0)
        for window, field in self._fields.items():
            rows = window_view(inputs, np.array([0, inputs.shape[0]]), window)[first:end]
            scored = self._scored(field, Chains(rows, np.array([0, end - first])))
            node += scored.node[begin - first :]
            if edge is not None:
                edge += scored.edge if len(scored.edge) == 1 else scored.edge[begin - first :]
        node += self._masks.label
        if barred is not None:
            node += barred[begin:end]
        if begin == 0:
            node[0] += self._masks.start
        return node, edge

    def _scored(self, field: Field, chains: Chains) -> Potentials:
        potentials = field.potentials(chains, field.family(chains), self._workers)
        if not potentials.is_finite:
            raise ValueError("scores of the inputs are not finite: they are larger than numbers can be")
        return potentials


def _check_neighbours(field: Field) -> None:
    if field.spec.kind != "chain":
        raise ValueError(f"a stream needs sequences with a beginning, and this is a field of kind {field.spec.kind!r}")
    for term in field.terms:
        if not term.clique.neighbours_only:
            raise ValueError(
                f"a stream joins neighbouring labels alone, and the clique set {term.name!r} reaches "
                f"{term.reach} steps: predict whole sequences, or fit a field without it"
            )


def _input_reach(features: object) -> int:
    """Return the number of neighbours on either side in the features of positions."""
    if features is None:
        return 0
    reach = getattr(features, "reach", None)
    if reach is None:
        raise ValueError(
            f"a stream sees one position after the other, and a {type(features).__name__} may see the whole sequence: "
            "predict whole sequences, or fit with TextFeatures"
        )
    return int(reach)


def _checked_lag(lag: float, ahead: int) -> float:
    if not (is_whole(lag) and lag >= 0) and not (is_real(lag) and lag == np.inf):
        raise ValueError(f"lag must be a whole number of positions, 0 or more, or infinity, got {lag!r}")
    if lag < ahead:
        raise ValueError(
            f"windows and features look {ahead} positions ahead, so that no answer can come sooner: lag must be at "
            f"least {ahead}, got {lag}"
        )
    return lag


def _by_window(terms: list[Term], field: Field) -> dict[tuple[int, int], Field]:
    """Return a field for the terms of each window, for rows with joined neighbours."""
    groups: dict[tuple[int, int], list[Term]] = {}
    for term in terms:
        clique = copy.copy(term.clique)
        clique.window = 1
        window = (0, 0) if term.is_constant else check_window(term.clique.window)
        groups.setdefault(window, []).append(replace(term, clique=clique))
    return {window: Field(group, field.spec) for window, group in groups.items()}


def _to_rows(x: object, *, named: bool) -> Any:
    """Return one or several positions as rows; ``named`` for feature dicts or strings."""
    if named:
        single = isinstance(x, Mapping) or (_holds(x) and isinstance(next(iter(x)), str | bytes))
        return [x] if single else x
    if isinstance(x, scipy.sparse.sparray | scipy.sparse.spmatrix):
        return x if x.ndim == 2 else x.reshape(1, -1)
    shape = find_shape(x)
    if shape is None:
        shape = (0, 0) if _holds(x) and any(hasattr(item, "__len__") for item in x) else np.asarray(x).shape
    several = len(shape) >= 2 or (len(shape) == 1 and not shape[0])
    return x if several else np.reshape(np.asarray(x), (1, -1))


def _holds(x: object) -> TypeGuard[list | tuple | set | frozenset]:
    return isinstance(x, list | tuple | set | frozenset) and len(x) > 0


def _stacked(first: Matrix, second: Matrix) -> Matrix:
    if scipy.sparse.issparse(second):
        return scipy.sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])
