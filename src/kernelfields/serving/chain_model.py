"""Fitted chains for prediction alone, in NumPy: no compiler, no scikit-learn, no scipy.

    from kernelfields.serving import load_chain

    model = load_chain("model.safetensors")             # what ChainCRF.save wrote
    model.predict(X); model.predict_marginals(X)

    node_t(b)   = sum over sets of nodes, starts and ends  k(x_t, B) alpha   or   phi(x_t) V
    edge_t(a,b) = the same of neighbours, one table where no inputs are seen

The label factor of a set is multiplied into its coefficients, and alpha = R^-T V A^T is computed once, when a model
is read: O(r^2 q). A model is immutable, so that any number of threads may use it. Kernels are those of
kernelfields.kernels whose formulas need only NumPy. Raises ServingError with the unsupported part of a model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from kernelfields.inference.chain import plain
from kernelfields.inference.packing import InfeasibleSequence, first_largest
from kernelfields.kernels.arrays import product
from kernelfields.kernels.kernel import KERNELS, Kernel
from kernelfields.kernels.registry import kernel_from_spec
from kernelfields.models.model_file import Document, ModelFileError, ModelFileMissing, read_model_parts
from kernelfields.models.model_text import COMMAND_NOTES, LAYOUT, PIPELINE
from kernelfields.numerics.containers import count_rows
from kernelfields.numerics.parameters import check_window
from kernelfields.numerics.sparse_rows import Rows, SparseRows, entry_rows
from kernelfields.numerics.stored_arrays import finite_array, whole_array, whole_number
from kernelfields.numerics.windows import window_view
from kernelfields.serving.inputs import Inputs, Packed, ServingError

if TYPE_CHECKING:
    from kernelfields.features.text import StoredTransformer

#: Models whose labels meet as neighbours or not at all; a row with a label of its own is a chain of one position.
SERVED = ("ChainCRF", "KernelClassifier")
_MASKS = ("edge", "start", "end", "label")
_LABELS_MET = {"node": 1, "start": 1, "end": 1, "edge": 2, "skip": 2}
_DECODINGS = ("auto", "viterbi", "posterior")
# Kernel rows, and tables of steps, that are held at a time: 64 MB of doubles.
_AT_ONCE = 2**23
_TRANSFORMERS = ("text", "template")
Answer = TypeVar("Answer")
_NOT_FINITE = "scores of the inputs are not finite: they are larger than numbers can be"
_NOT_HERE = "cannot be served: prediction with NumPy alone does not have it"


class Term(NamedTuple):
    """A clique set: its labels, its inputs, and coefficients of its labellings."""

    name: str
    #: "node", "start", "end" or "edge".
    kind: str
    window: tuple[int, int]
    #: None where no inputs are seen.
    kernel: Kernel | None
    #: Pivots B (r, d), dense or sparse; None for explicit features.
    pivots: Rows | None
    #: alpha (r, L^k), V (features, L^k) dense or sparse, or the scores themselves (1, L^k).
    coefficients: np.ndarray | SparseRows

    @property
    def table(self) -> np.ndarray:
        """The coefficients as a dense array."""
        return self.coefficients if isinstance(self.coefficients, np.ndarray) else self.coefficients.toarray()


class ChainModel:
    """A fitted ChainCRF or KernelClassifier that answers with NumPy alone.

    :func:`load_chain` reads one from a model file. It does not change afterwards, so that any number of threads may use
    it.

    Parameters
    ----------
    document : dict
        What the model file holds.
    transformers : sequence of transformers, default ()
        The steps that make features of words; by default those of the file.
    of_rows : bool, default False
        Whether it is a KernelClassifier: X is a table whose rows have a label each, and answers have a row for each.

    Attributes
    ----------
    classes_ : array (n_labels,)
        The labels, sorted.
    n_features_in_ : int
        The number of columns or of features.
    decode : str
        The value of ``decode`` in the fit.

    See Also
    --------
    kernelfields.ChainCRF.load : Reads the same file with all methods of the estimator.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.serving import load_chain
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("tags.safetensors")
    >>> model = load_chain("tags.safetensors")
    >>> model.classes_.tolist(), model.n_features_in_
    (['NAME', 'VERB'], 3)
    """

    def __init__(self, document: Document, transformers: Sequence[StoredTransformer] = (), *, of_rows: bool = False):
        if document.get("layout", LAYOUT) != LAYOUT or "terms" not in document:
            raise ServingError("it was written by another version of kernelfields and cannot be served: fit again")
        self.classes_ = np.asarray(document["classes"])
        if self.classes_.ndim != 1 or self.classes_.dtype.kind not in "biufU" or not len(self.classes_):
            raise ServingError("its classes are not a list of labels")
        trained = [] if COMMAND_NOTES not in document else _rebuild_template(document)
        transformers = transformers or [_transformer(step["transformer"]) for step in document.get("features", ())]
        self.of_rows = of_rows
        n_labels, structure = len(self.classes_), document["structure"]
        self.inputs = Inputs(
            document["inputs"], n_labels, transformers or trained, features_too=bool(trained), of_rows=of_rows
        )
        self.n_features_in_ = self.inputs.n_features
        self.masks = {name: _read_mask(structure.get("masks", {}), name, n_labels) for name in _MASKS}
        self.decode = str(document["parameters"].get("decode", "auto"))
        if self.decode == "f1":
            raise ServingError("decode='f1' cannot be served: set decode='posterior' or 'viterbi' and save it again")
        self._jointly_by_default = bool(structure.get("jointly"))
        self.decodes_jointly()
        subspaces = document["subspaces"]
        self.terms = [_rebuild_term(entry, subspaces, n_labels, self.inputs.n_columns) for entry in document["terms"]]
        self._scorers = [_make_scorer(term) for term in self.terms]
        #: Whether one table of transition scores serves all positions.
        self.tied = all(term.kernel is None for term in self.terms if term.kind == "edge")
        #: Transition scores that no inputs change, constraints included, (L, L).
        self.tied_edge = self.masks["edge"].copy()
        for term in self.terms:
            if term.kind == "edge" and term.kernel is None:
                self.tied_edge += term.table.reshape(self.tied_edge.shape)

    def predict(self, X: Iterable, decode: str | None = None) -> list[list[str]] | list[np.ndarray] | np.ndarray:
        """Predict the labels of each sequence.

        Parameters
        ----------
        X : iterable of arrays, feature dicts, feature strings or words
            The sequences, in the form of the fit; a table (n, d) for a KernelClassifier.
        decode : {"viterbi", "posterior"}, optional
            Whether to take the most probable labelling as a whole, or the most probable label at each position; by
            default as in the fit.

        Returns
        -------
        list of lists of str, or of arrays (T,)
            The labels of each sequence, strings in lists and numbers in arrays; an array (n,) for rows of a table.

        Raises
        ------
        ValueError
            If X differs from the data of the fit, or if the constraints leave no labelling.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.serving import load_chain
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("tags.safetensors")
        >>> load_chain("tags.safetensors").predict([[{"word": "Eve"}, {"word": "sings"}]])
        [['NAME', 'VERB']]
        """
        jointly, sequences = self.decodes_jointly(decode), self._to_sequences(X)
        answers: list[np.ndarray] = []
        for packed, chains in self._iterate_batches(sequences):
            best = _ask(plain.best_labels, chains)[0] if jointly else first_largest(_infer(chains).marginals)
            answers += self._split(packed, self.classes_[best])
        if self.of_rows:
            return np.concatenate([self.classes_[:0], *answers])
        answers = _restore_order(answers, sequences, self.classes_[:0])
        return [labels.tolist() for labels in answers] if self.classes_.dtype.kind == "U" else answers

    def predict_marginals(
        self, X: Iterable, cliques: str | None = None
    ) -> list[np.ndarray] | np.ndarray | tuple[list[np.ndarray], list[np.ndarray]]:
        """Compute the probability of each label at each position.

        Parameters
        ----------
        X : iterable of arrays, feature dicts, feature strings or words
            The sequences, in the form of the fit; a table (n, d) for a KernelClassifier.
        cliques : {"edge"}, optional
            Whether to return the probabilities of neighbouring labels as well.

        Returns
        -------
        list of arrays (T, n_labels)
            The probabilities p(y_t | x) of each sequence, columns in the order of ``classes_``; an array (n, n_labels)
            for rows of a table. With ``cliques="edge"`` a pair of lists, the second one with p(y_{t-1}, y_t | x), (T -
            1, n_labels, n_labels).

        Raises
        ------
        ValueError
            If X differs from the data of the fit, or if ``cliques`` is asked of a KernelClassifier.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.serving import load_chain
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("tags.safetensors")
        >>> load_chain("tags.safetensors").predict_marginals([[{"word": "Ann"}, {"word": "sings"}]])[0].round(1)
        array([[0.8, 0.2],
               [0.2, 0.8]])
        """
        if cliques not in (None, "edge"):
            raise ValueError(f"cliques must be 'edge' or None, got {cliques!r}")
        if cliques is not None and self.of_rows:
            raise ValueError("cliques must be None: the labels of rows do not meet")
        nodes: list[np.ndarray] = []
        edges: list[np.ndarray] = []
        sequences, n_labels = self._to_sequences(X), len(self.classes_)
        for packed, chains in self._iterate_batches(sequences):
            beliefs = _infer(chains)
            nodes += self._split(packed, beliefs.marginals)
            if cliques is not None:
                edges += [rows[1:] for rows in packed.split(plain.pair_marginals(chains, beliefs))]
        if self.of_rows:
            return np.concatenate([np.zeros((0, n_labels)), *nodes])
        nodes = _restore_order(nodes, sequences, np.zeros((0, n_labels)))
        return (
            nodes if cliques is None else (nodes, _restore_order(edges, sequences, np.zeros((0, n_labels, n_labels))))
        )

    def log_partition(self, X: Iterable) -> np.ndarray:
        """Compute the logarithm of the partition function.

        Parameters
        ----------
        X : iterable of arrays, feature dicts, feature strings or words
            The sequences, in the form of the fit; a table (n, d) for a KernelClassifier.

        Returns
        -------
        array (n_sequences,)
            The logarithm for each sequence, or for each row of a table.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> from kernelfields.serving import load_chain
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("tags.safetensors")
        >>> load_chain("tags.safetensors").log_partition([[{"word": "Ann"}, {"word": "sings"}]]).round(2)
        array([1.75])
        """
        sequences = self._to_sequences(X)
        parts = [_infer(chains).log_partition for _, chains in self._iterate_batches(sequences)]
        found = np.concatenate([np.empty(0), *parts])
        return found if self.of_rows else np.array(_restore_order(found, sequences, 0.0))

    def decodes_jointly(self, decode: str | None = None) -> bool:
        """Whether predictions are the most probable labelling of a sequence, not of each position.

        Parameters
        ----------
        decode : {"viterbi", "posterior"}, optional
            As in :meth:`predict`.

        Returns
        -------
        bool
            False if each label is the most probable one at its position.
        """
        chosen = self.decode if decode is None else decode
        if chosen not in _DECODINGS:
            raise ValueError(f"decode must be one of {', '.join(map(repr, _DECODINGS))}, got {decode!r}")
        return self._jointly_by_default if chosen == "auto" else chosen == "viterbi"

    def _to_sequences(self, X: Iterable) -> list:
        """Return X as a list of sequences; a table of rows is one sequence."""
        return [X] if self.of_rows else list(X)

    def _split(self, packed: Packed, array: np.ndarray) -> list[np.ndarray]:
        """Split an array over positions by sequence, unless the input was a table."""
        return [array] if self.of_rows else packed.split(array)

    def _iterate_batches(self, X: list) -> Iterator[tuple[Packed, plain.Chains]]:
        """Yield batches of nonempty sequences with their potentials."""
        sequences, first = [x for x in X if count_rows(x)], 0
        if not sequences:
            return
        packed = self.inputs.read(sequences)
        limit = max(1, _AT_ONCE // len(self.classes_) ** (1 if self.tied else 2))
        offsets, end = packed.offsets, len(packed.offsets) - 1
        while first < end:
            last = int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1
            last = min(max(last, first + 1), end)
            batch = packed if (first, last) == (0, end) else packed.part(first, last)
            yield batch, self._compute_potentials(batch, first)
            first = last

    def _compute_potentials(self, packed: Packed, first: int) -> plain.Chains:
        """Return the potentials of a batch of sequences."""
        n_labels, offsets = len(self.classes_), packed.offsets
        node = np.zeros((int(offsets[-1]), n_labels))
        edge = np.broadcast_to(self.tied_edge, (1 if self.tied else len(node), n_labels, n_labels)).copy()
        views: dict[tuple[int, int], Rows] = {}
        for term, scores in zip(self.terms, self._scorers, strict=True):
            positions = _clique_positions(term.kind, offsets)
            if scores is None:
                if term.kind != "edge":
                    node[positions] += term.table
                continue
            if term.window not in views:
                views[term.window] = window_view(packed.rows, offsets, term.window)
            seen = views[term.window][positions]
            values = scores(seen)
            if not np.isfinite(values.sum()):
                raise ValueError(_NOT_FINITE)
            if term.kind == "edge":
                edge[positions] += values.reshape(-1, n_labels, n_labels)
            else:
                node[positions] += values
        node += self.masks["label"]
        node[offsets[:-1]] += self.masks["start"]
        node[offsets[1:] - 1] += self.masks["end"]
        if packed.penalties is not None:
            node += packed.penalties
        return plain.Chains(node, edge, offsets, first)


def _ask(ask: Callable[[plain.Chains], Answer], chains: plain.Chains) -> Answer:
    try:
        return ask(chains)
    except InfeasibleSequence as error:
        raise ValueError(f"sequence {error.sequence}: the constraints leave no labelling") from None


def _infer(chains: plain.Chains) -> plain.Beliefs:
    beliefs = _ask(plain.infer, chains)
    if not np.isfinite(beliefs.log_partition).all():
        raise ValueError(_NOT_FINITE)
    return beliefs


def _restore_order(answers: Iterable[Any], sequences: list, nothing: Any) -> list:
    """Return answers in the order of all sequences, with ``nothing`` for empty ones."""
    found = iter(answers)
    return [next(found) if count_rows(x) else nothing for x in sequences]


def load_chain(path: str | os.PathLike[str]) -> ChainModel:
    """Read a fitted chain from a model file for prediction with NumPy alone.

    Parameters
    ----------
    path : path
        A file that ``save`` wrote: a ChainCRF, a KernelClassifier, a ``compat.CRF``, or a FrameCRF, AnnotatedCRF or
        pipeline with a ChainCRF inside.

    Returns
    -------
    ChainModel
        The model.

    Raises
    ------
    ServingError
        If the model has what NumPy alone cannot serve, which the message names.

    See Also
    --------
    to_onnx : Writes a model for readers of ONNX.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.serving import load_chain
    >>> X = [["Ann", "sings"], ["Bob", "sings"]]  # words
    >>> ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("words.safetensors")
    >>> load_chain("words.safetensors").predict([["Bob", "sings"]])
    [['NAME', 'VERB']]
    """
    try:
        kind, document, _ = read_model_parts(path)
    except ModelFileMissing:
        raise
    except ModelFileError as error:
        raise ServingError(str(error)) from error
    try:
        return rebuild_chain(kind, document)
    except ServingError as error:
        raise ServingError(f"{path}: {error}") from error
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ServingError(f"{path} is not a sound {kind} model: {error!r:.200}") from error


def rebuild_chain(kind: str, document: Document) -> ChainModel:
    """Rebuild a chain from its document; ServingError for models of another kind."""
    if kind == "compat.CRF" and "chain" in document["field"]:
        return ChainModel(document["field"]["chain"])
    if kind == "FrameCRF" and document["kind"] == "ChainCRF":
        return ChainModel(document["field"])
    if kind == "AnnotatedCRF":
        kind, document = document["field"]["kind"], document["field"]
    if kind == PIPELINE:
        described = document["estimator"]
        steps = [_transformer(step["transformer"]) for step in document["steps"]]
        if described["kind"] != "ChainCRF":
            raise ServingError(f"a pipeline that ends in a {described['kind']} cannot be served: ChainCRF alone can")
        return ChainModel(described["document"], steps)
    if kind == "SequenceClassifier":
        raise ServingError("a model of classes of sequences is no chain: load_sequence_classifier reads it")
    if kind not in SERVED:
        raise ServingError(f"a model of the kind {kind!r} cannot be served: {', '.join(SERVED)} can")
    return ChainModel(document, of_rows=kind == "KernelClassifier")


# What makes features of words is imported where there are words: models of numbers start sooner.


def _rebuild_template(document: Document) -> list[StoredTransformer]:
    from kernelfields.features.templates import get_model_template

    template = get_model_template(document)
    return [] if template is None else [template]


def _transformer(described: Document) -> StoredTransformer:
    from kernelfields.features.text import rebuild_transformer

    if described["kind"] == "template":
        import kernelfields.features.templates  # noqa: F401  # where it is registered
    if described["kind"] not in _TRANSFORMERS:
        raise ServingError(f"the transformer {described['kind']!r} {_NOT_HERE}")
    return rebuild_transformer(described)


def _clique_positions(kind: str, offsets: np.ndarray) -> np.ndarray | slice:
    """Return the last position of each clique of a set; for edges, all except the first of each sequence."""
    if kind == "node":
        return slice(None)
    if kind == "edge":
        steps = np.ones(int(offsets[-1]), dtype=bool)
        steps[offsets[:-1]] = False
        return np.flatnonzero(steps)
    return offsets[:-1] if kind == "start" else offsets[1:] - 1


def rebuild_kernel(spec: Mapping[str, object], *, explicit: bool = False) -> Kernel:
    """Rebuild a kernel from its description; ServingError if it needs more than NumPy.

    ``explicit`` kernels need a feature map.
    """
    waiting: list[Mapping[str, object]] = [spec]
    while waiting:
        part = waiting.pop()
        kind = KERNELS.find(part["kind"])
        if retired := KERNELS.retirement(part["kind"]):
            raise ServingError(retired)
        refusal = _NOT_HERE if kind is None else kind.serving_refusal(part)
        if refusal:
            raise ServingError(f"the kernel {part['kind']!r} {refusal}")
        waiting += [value for value in part.values() if isinstance(value, Mapping)]
    kernel = kernel_from_spec(spec)
    if explicit and not kernel.has_feature_map:
        raise ServingError(f"a kernel of the kind {kernel.kind!r} has no explicit features that can be served")
    return kernel


def _read_mask(masks: Document, name: str, n_labels: int) -> np.ndarray:
    """Return a table of constraints: 0, or minus infinity for forbidden labels."""
    shape = (n_labels,) * (2 if name == "edge" else 1)
    mask = np.asarray(masks.get(name, np.zeros(shape)))
    if mask.shape != shape or mask.dtype.kind != "f" or not ((mask == 0) | (mask == -np.inf)).all():
        raise ServingError(f"the constraint mask {name!r} must be {shape} with 0 and -inf only")
    return mask


def _rebuild_term(entry: Document, subspaces: list[Document], n_labels: int, n_features: int) -> Term:
    clique, name = entry["cliques"], str(entry["name"])
    kind, parameters = clique["as"].removesuffix(" cliques"), clique["parameters"]
    kind = "node" if kind == "graph nodes" else kind
    if kind not in _LABELS_MET or (kind == "skip" and parameters["lag"] != 1):
        raise ServingError(f"the clique set {name!r} ({kind!r}) cannot be served: labels may meet as neighbours alone")
    kind = "edge" if kind == "skip" else kind
    n_outcomes = n_labels ** _LABELS_MET[kind]
    factor, number, what = entry["label_factor"], entry["subspace"], f"the coefficients of set {name!r}"
    known = finite_array(entry["coefficients"], what, (None, None)).astype(np.float64)
    coefficients: np.ndarray | SparseRows = known
    if "pairs" in entry:
        begin, outcomes = entry["pairs"]["begin"], entry["pairs"]["outcomes"]
        coefficients = _read_sparse(known.ravel(), outcomes, begin, n_outcomes, what)
        if number is None:
            coefficients = coefficients.toarray()
    window = parameters.get("window") or 1
    # A tuple of the neighbours before and after, as documents spell it.
    window = check_window(window["items"] if isinstance(window, Mapping) else window)
    width = n_features * (1 + sum(window))
    kernel, pivots, n_rows = None, None, 1
    if number is not None:
        subspace = subspaces[whole_number(number, f"the basis of set {name!r}")]
        explicit = "n_coordinates" in subspace
        kernel = rebuild_kernel(subspace["kernel"], explicit=explicit)
        if explicit:
            n_rows = cast(Rows, kernel.feature_map(_no_entries(width))).shape[1]
        else:
            pivots = _read_pivots(subspace, width)
            n_rows = pivots.shape[0]
            factor_of_pivots = finite_array(subspace["factor"], "the factor of the pivots", (n_rows, n_rows))
            if not isinstance(coefficients, np.ndarray) or not (np.diagonal(factor_of_pivots) > 0).all():
                raise ServingError("the factor of the pivots must have a positive diagonal, and dense coefficients")
            if len(coefficients) != n_rows:
                raise ServingError(f"{what} do not fit its pivots")
            coefficients = back_substitution(factor_of_pivots, coefficients)
    if factor is not None:
        factor = finite_array(factor, f"the label factor of set {name!r}", (n_outcomes, coefficients.shape[1]))
        coefficients = coefficients @ factor.T
    if coefficients.shape != (n_rows, n_outcomes):
        raise ServingError(
            f"{what} are {coefficients.shape}, expected {(n_rows, n_outcomes)} by its inputs and classes"
        )
    return Term(name, kind, window, kernel, pivots, coefficients)


def _read_pivots(subspace: Document, width: int) -> Rows:
    what = "the pivots of a basis"
    if "pivots" in subspace:
        return finite_array(subspace["pivots"], what, (None, width))
    parts = subspace["sparse_pivots"]
    n_rows, n_columns = (whole_number(length, f"the shape of {what}") for length in parts["shape"])
    pivots = _read_sparse(parts["data"], parts["indices"], parts["indptr"], n_columns, what)
    if pivots.shape != (n_rows, width):
        raise ServingError(f"{what} are {pivots.shape}, expected {(n_rows, width)} as their inputs")
    return pivots


def _read_sparse(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, width: int, what: str) -> SparseRows:
    """Read stored sparse rows, with sorted columns."""
    data = finite_array(data, what, (None,))
    indices = whole_array(indices, f"the columns of {what}", (len(data),), below=width)
    indptr = whole_array(indptr, f"the rows of {what}", (None,))
    if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr.astype(np.int64)) < 0).any():
        raise ServingError(f"the rows of {what} do not fit its entries")
    rows = SparseRows((data, indices, indptr), shape=(len(indptr) - 1, width))
    if (np.diff(entry_rows(rows) * width + indices) <= 0).any():
        raise ServingError(f"{what} are not sorted, or one occurs twice")
    return rows


def _no_entries(width: int) -> SparseRows:
    nothing = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    return SparseRows(nothing, shape=(1, width))


def back_substitution(factor: np.ndarray, values: np.ndarray, block: int = 64) -> np.ndarray:
    """Solve R^T x = values for a lower triangular R, by blocks from the last rows."""
    upper, solved = factor.T, values.astype(np.float64)
    for end in range(len(upper), 0, -block):
        rows = slice(max(0, end - block), end)
        solved[rows] -= upper[rows, end:] @ solved[end:]
        solved[rows] = np.linalg.solve(upper[rows, rows].astype(np.float64), solved[rows])
    return solved


def _make_scorer(term: Term) -> Callable[[Rows], np.ndarray] | None:
    """Return a function from rows to scores (n, L^k) of cliques; None for cliques without inputs."""
    kernel, pivots, coefficients = term.kernel, term.pivots, term.coefficients
    if kernel is None:
        return None
    # Kernels without pivots have a feature map: rebuild_kernel checks it.
    features = cast(Callable[[Rows], Rows], kernel.feature_map if pivots is None else kernel.towards(pivots))
    step = max(1, _AT_ONCE // max(1, pivots.shape[0])) if pivots is not None else None

    def scores(seen: Rows) -> np.ndarray:
        """Return the scores of cliques, (n, L^k)."""
        if step is None or seen.shape[0] <= step:
            return _times(features(seen), coefficients)
        runs = range(0, seen.shape[0], step)
        return np.concatenate([_times(features(seen[begin : begin + step]), coefficients) for begin in runs])

    return scores


def _times(features: Rows, coefficients: np.ndarray | SparseRows) -> np.ndarray:
    if isinstance(features, np.ndarray) and isinstance(coefficients, np.ndarray):
        return product(features, coefficients)
    return cast(np.ndarray, features @ coefficients)
