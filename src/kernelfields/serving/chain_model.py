"""Fitted chains for prediction alone, in NumPy: no compiler, no scikit-learn, no scipy.

    from kernelfields.serving import load_chain

    model = load_chain("model.kfm")             # what ChainCRF.save wrote
    model.predict(X); model.predict_marginals(X)

    node_t(b)   = sum over sets of nodes, starts and ends  k(x_t, B) alpha   or   phi(x_t) V
    edge_t(a,b) = the same of neighbours, one table where no inputs are seen

The label factor of a set is multiplied into its coefficients, and alpha = R^-T V A^T is solved for once, when a model
is read: O(r^2 q). A model is never written to afterwards, so that any number of threads may ask it. The folder of this
module needs nothing but NumPy: a copy of it works by itself.
Fails: ServingError naming what a model has that cannot be served.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import passes
from .inputs import Inputs, Packed
from .kernel_blocks import check_kernel, explicit_scores, towards
from .sparse_rows import SparseRows, taken, windowed
from .tensor_file import ServingError, read_document

_LABELS_MET = {"node": 1, "start": 1, "end": 1, "edge": 2, "skip": 2}
_DECODINGS = ("auto", "viterbi", "posterior")
_LAYOUT = 2
# Kernel rows, and tables of steps, that are held at a time: 64 MB of doubles.
_AT_ONCE = 2**23
_TAGS = ("OBI", "OBIES", "OBILU")


class Term(NamedTuple):
    """One clique set: which labels meet, what they see, and their coefficients per labelling."""

    name: str
    #: "node", "start", "end" or "edge".
    kind: str
    window: tuple[int, int]
    #: The kernel, as Kernel.spec() writes it; None where no inputs are seen.
    kernel: Mapping[str, Any] | None
    #: Pivots B (r, d), dense or sparse; None for explicit features.
    pivots: Any
    #: alpha (r, L^k), V (features, L^k) dense or sparse, or the scores themselves (1, L^k).
    coefficients: Any


class ChainModel:
    """A fitted ChainCRF that answers: labels and marginals of new sequences."""

    def __init__(self, document: Mapping[str, Any]):
        if document.get("layout", _LAYOUT) != _LAYOUT or "terms" not in document:
            raise ServingError("models of version 0.1.0 cannot be served: load it with ChainCRF.load and save it again")
        self.classes_ = np.asarray(document["classes"])
        self.inputs = Inputs(document["inputs"])
        self.n_features_in_ = self.inputs.n_features
        self.masks: dict[str, np.ndarray] = {
            name: np.asarray(document["structure"]["masks"][name]) for name in ("edge", "start", "end", "label")
        }
        self.decode = str(document["parameters"].get("decode", "auto"))
        subspaces = document["subspaces"]
        self.terms = [_term(entry, subspaces, len(self.classes_)) for entry in document["terms"]]
        self._scorers = [_scorer(term) for term in self.terms]
        #: Whether one table of transition scores serves all positions.
        self.tied = all(term.kernel is None for term in self.terms if term.kind == "edge")
        #: Transition scores that no inputs change, constraints included, (L, L).
        self.tied_edge = self.masks["edge"].copy()
        for term in self.terms:
            if term.kind == "edge" and term.kernel is None:
                self.tied_edge += term.coefficients.reshape(self.tied_edge.shape)
        constrained = any(mask.any() for mask in self.masks.values())
        self._labels_fit_together = constrained or marks_entities(self.classes_.tolist())

    def predict(self, X: Any, decode: str | None = None) -> list:
        """Return the labels of each sequence: a list of strings, or an array of numbers.

        decode="viterbi": the most probable labelling as a whole; "posterior": the most probable label at each
        position; None: as the model was told when it was fitted.
        """
        jointly = self.decodes_jointly(decode)
        answers: list = []
        for packed, chains in self._chains(X):
            best = passes.best_labels(chains) if jointly else passes.infer(chains).marginals.argmax(axis=1)
            answers += packed.split(self.classes_[best])
        return [each.tolist() for each in answers] if self.classes_.dtype.kind == "U" else answers

    def predict_marginals(self, X: Any, pairs: bool = False) -> Any:
        """Return p(y_t | x) of each sequence, (T, L); with ``pairs`` also p(y_{t-1}, y_t | x), (T - 1, L, L)."""
        nodes: list = []
        edges: list = []
        for packed, chains in self._chains(X):
            beliefs = passes.infer(chains)
            nodes += packed.split(beliefs.marginals)
            if pairs:
                edges += [rows[1:] for rows in packed.split(passes.pair_marginals(chains, beliefs))]
        return (nodes, edges) if pairs else nodes

    def log_partition(self, X: Any) -> np.ndarray:
        """Return the logarithm of the partition function of each sequence, (S,)."""
        parts = [passes.infer(chains).log_partition for _, chains in self._chains(X)]
        return np.concatenate([np.empty(0), *parts])

    def decodes_jointly(self, decode: str | None = None) -> bool:
        """Whether labels are those of the most probable labelling as a whole."""
        chosen = self.decode if decode is None else decode
        if chosen not in _DECODINGS:
            raise ValueError(f"decode must be one of {', '.join(map(repr, _DECODINGS))}, got {decode!r}")
        return self._labels_fit_together if chosen == "auto" else chosen == "viterbi"

    def _chains(self, X: Any) -> Iterator[tuple[Packed, passes.Chains]]:
        """Yield batches of sequences with their potentials."""
        sequences, first = list(X), 0
        if not sequences:
            return
        packed = self.inputs.read(sequences)
        limit = max(1, _AT_ONCE // len(self.classes_) ** (1 if self.tied else 2))
        offsets = packed.offsets
        while first < len(sequences):
            last = int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1
            last = min(max(last, first + 1), len(sequences))
            batch = _part(packed, first, last)
            yield batch, self._potentials(batch, first)
            first = last

    def _potentials(self, packed: Packed, first: int) -> passes.Chains:
        n_labels, offsets = len(self.classes_), packed.offsets
        node = np.zeros((int(offsets[-1]), n_labels))
        edge = np.broadcast_to(self.tied_edge, (1 if self.tied else len(node), n_labels, n_labels)).copy()
        views: dict[tuple[int, int], Any] = {}
        for term, scores in zip(self.terms, self._scorers, strict=True):
            positions = _positions(term.kind, offsets)
            if scores is None:
                if term.kind != "edge":
                    node[positions] += term.coefficients
                continue
            if term.window not in views:
                views[term.window] = windowed(packed.rows, offsets, term.window)
            seen = views[term.window] if term.kind == "node" else taken(views[term.window], positions)
            values = scores(seen)
            if not np.isfinite(values.sum()):
                raise ValueError("scores of the inputs are not finite: they are larger than numbers can be")
            if term.kind == "edge":
                edge[positions] += values.reshape(-1, n_labels, n_labels)
            else:
                node[positions] += values
        node += self.masks["label"]
        node[offsets[:-1]] += self.masks["start"]
        node[offsets[1:] - 1] += self.masks["end"]
        if packed.allowed is not None:
            node += packed.allowed
        return passes.Chains(node, edge, offsets, first)


def load_chain(path: str | os.PathLike[str]) -> ChainModel:
    """Return the chain that a model file holds; ServingError names what cannot be served."""
    kind, document = read_document(path)
    try:
        return chain_of(kind, document)
    except ServingError as error:
        raise ServingError(f"{path}: {error}") from error
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ServingError(f"{path} is not a sound {kind} model: {error!r:.200}") from error


def chain_of(kind: str, document: Mapping[str, Any]) -> ChainModel:
    """Return the chain of a document; ServingError for a model of another kind."""
    if kind == "compat.CRF" and "chain" in document["field"]:
        return ChainModel(document["field"]["chain"])
    if kind != "ChainCRF":
        raise ServingError(f"a model of the kind {kind!r} cannot be served: ChainCRF alone can")
    return ChainModel(document)


def marks_entities(labels: list) -> bool:
    """Whether labels are those of a scheme of entities, such as B-PER, as fields/constraints.py guesses it."""
    known = set(labels)
    for tags in _TAGS:
        if all(isinstance(label, str) and _fits_tags(label, tags) for label in known):
            typed = any(len(label) > 1 for label in known)
            return typed or known == {"O"} or ("B" in known and bool(known & {"I", "E", "L"}))
    return False


def _fits_tags(label: str, tags: str) -> bool:
    tag, hyphen, kind = label.partition("-")
    return len(tag) == 1 and tag in tags and bool(hyphen) == bool(kind) and not (tag == "O" and kind)


def _part(packed: Packed, first: int, last: int) -> Packed:
    begin, end = (int(packed.offsets[place]) for place in (first, last))
    if (begin, end) == (0, int(packed.offsets[-1])):
        return packed
    allowed = None if packed.allowed is None else packed.allowed[begin:end]
    lengths = np.diff(packed.offsets[first : last + 1]).tolist()
    return Packed(taken(packed.rows, np.arange(begin, end)), lengths, allowed)


def _positions(kind: str, offsets: np.ndarray) -> Any:
    """Return the positions that carry the cliques of a set; all but the first of each sequence for edges."""
    if kind == "node":
        return slice(None)
    if kind == "edge":
        steps = np.ones(int(offsets[-1]), dtype=bool)
        steps[offsets[:-1]] = False
        return np.flatnonzero(steps)
    return offsets[:-1] if kind == "start" else offsets[1:] - 1


def _term(entry: Mapping[str, Any], subspaces: list, n_labels: int) -> Term:
    clique, name = entry["cliques"], str(entry["name"])
    kind, parameters = clique["name"], clique["parameters"]
    if kind not in _LABELS_MET or (kind == "skip" and parameters["lag"] != 1):
        raise ServingError(f"the clique set {name!r} ({kind!r}) cannot be served: labels may meet as neighbours alone")
    kind = "edge" if kind == "skip" else kind
    n_outcomes = n_labels ** _LABELS_MET[kind]
    coefficients, factor, place = entry["coefficients"], entry["label_factor"], entry["subspace"]
    if "pairs" in entry:
        begin, outcomes = entry["pairs"]["begin"], entry["pairs"]["outcomes"]
        shape = (len(begin) - 1, n_outcomes)
        coefficients = SparseRows(coefficients.ravel().astype(np.float64), outcomes, begin, shape)
        if place is None:
            coefficients = coefficients.toarray()
    else:
        coefficients = np.asarray(coefficients, dtype=np.float64)
    kernel = pivots = None
    if place is not None:
        kernel = subspaces[place]["kernel"]
        explicit = "n_coordinates" in subspaces[place]
        check_kernel(kernel, explicit=explicit)
        if not explicit:
            pivots = _pivots(subspaces[place])
            coefficients = back_substitution(np.asarray(subspaces[place]["factor"]), coefficients)
    if factor is not None:
        coefficients = coefficients @ factor.T
    if coefficients.shape[1] != n_outcomes:
        raise ServingError(f"the coefficients of set {name!r} do not fit the classes")
    return Term(name, kind, _window(parameters.get("window", 1)), kernel, pivots, coefficients)


def _window(described: Any) -> tuple[int, int]:
    """Return the neighbours before and after that a window names: an odd number, or a tuple as documents spell it."""
    if isinstance(described, Mapping):
        before, after = described["items"]
        return int(before), int(after)
    return described // 2, described // 2


def _pivots(subspace: Mapping[str, Any]) -> Any:
    if "pivots" in subspace:
        return np.asarray(subspace["pivots"])
    parts = subspace["sparse_pivots"]
    return SparseRows(parts["data"], parts["indices"], parts["indptr"], tuple(parts["shape"]))


def back_substitution(factor: np.ndarray, values: np.ndarray, block: int = 64) -> np.ndarray:
    """Return R^-T values for a lower triangular R, by blocks from the last rows to the first."""
    upper, solved = factor.T, values.astype(np.float64)
    for end in range(len(upper), 0, -block):
        rows = slice(max(0, end - block), end)
        solved[rows] -= upper[rows, end:] @ solved[end:]
        solved[rows] = np.linalg.solve(upper[rows, rows].astype(np.float64), solved[rows])
    return solved


def _scorer(term: Term) -> Callable[[Any], np.ndarray] | None:
    """Return the function from what cliques see to their scores (n, L^k); None where nothing is seen."""
    kernel, coefficients = term.kernel, term.coefficients
    if kernel is None:
        return None
    if term.pivots is None:
        return lambda seen: explicit_scores(kernel, seen, coefficients)
    block = towards(kernel, term.pivots)
    step = max(1, _AT_ONCE // max(1, term.pivots.shape[0]))

    def scores(seen: Any) -> np.ndarray:
        if seen.shape[0] <= step:
            return block(seen) @ coefficients
        runs = (np.arange(begin, min(begin + step, seen.shape[0])) for begin in range(0, seen.shape[0], step))
        return np.concatenate([block(taken(seen, rows)) @ coefficients for rows in runs])

    return scores
