"""Why a cell means nothing: the model of the estimator has no place for what is asked.

What could be answered and is not stays a refusal, and counts. Cells of this table are run as well: if one works, it
counts as working, and if it raises an unclear error, it is unclear.
"""

from __future__ import annotations

REASONS: dict[tuple[str, str], str] = {}

_ROWS = ("KernelClassifier", "KernelClassifierCV", "MultiLabelCRF", "FieldClustering")
_GRAPHS = ("GraphCRF", "GraphCRF loopy")
_CLUSTERS = ("FieldClustering", "FieldClustering of sequences")
_SEGMENTS = ("SegmentCRF", "FieldSearchCV of segments")
_DENSITY = ("ExponentialFamilyDensity",)
_WHOLE = ("SequenceClassifier",)
_COMPAT = ("compat.CRF",)


def _enter(features: tuple[str, ...], subjects: tuple[str, ...], reason: str) -> None:
    for feature in features:
        for subject in subjects:
            REASONS.setdefault((feature, subject), reason)


_SOLVERS = tuple(
    f"solver={name!r}" for name in ("newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs")
)
_CLIQUES = ("NgramCliques", "OrderCliques", "SkipCliques", "StartCliques, EndCliques")
_PARTLY = ("None for unknown labels", "sets of labels", "weights of labels", "log_likelihood of gaps", "SoftTargets")
_OF_LABELS = (
    *("predict", "predict(decode=...)", "marginals", "marginals of pairs", "predict_nbest", "filled", "known="),
    *("explain", "show", "stream", "fit_temperature", "evaluate_model"),
    *("labels of text or numbers", *_PARTLY, "expected shares", "X_unlabelled", "class_weight"),
    *("constraints", "allowed: LabelDictionary", "allowed: PrunedBy", *_CLIQUES, "edges by features", "label_kernel"),
    *("warm_start", "cliques='learn'", "development set", "FieldSearchCV"),
)

# ---- densities
_enter(_OF_LABELS, _DENSITY, "a density has points and no labels")
_enter(("feature_importance",), _DENSITY, "a density is of all columns together, and predicts none of them")
_enter(_SOLVERS, _DENSITY, "the family of a density has its own Newton steps, whose Hessian is exact and small")
_enter(("feature dicts", "feature strings", "sparse"), _DENSITY, "a density is on a box of real numbers")
_enter(("window", "an empty item among others", "no items"), _DENSITY, "points have no neighbours, and are not empty")
_enter(("load_chain (NumPy alone)", "ONNX"), _DENSITY, "the files of chains in production are those of chains")
_enter(("l1",), _DENSITY, "an l1 penalty is on weights of features, and the kernel of a density has pivots")

# ---- single labels
_enter(("stream", "window", "constraints", *_CLIQUES), (*_ROWS,), "rows have no order")
_enter(("marginals of pairs", "edges by features"), ("KernelClassifier", "KernelClassifierCV"), "a single label")
_enter(("marginals of pairs", "edges by features"), ("FieldClustering",), "a single label has no neighbours")
_enter(("allowed: PrunedBy",), _ROWS, "pruning is by the labels of neighbours, and rows have none")
_enter(("cliques='learn'",), ("KernelClassifier", "KernelClassifierCV", "FieldClustering"), "a single label")
_enter(("label_kernel",), ("MultiLabelCRF",), "labels of yes and no have nothing to share")
_enter(("sets of labels", "weights of labels"), ("MultiLabelCRF",), "a label of yes and no is known, or it is not")

# ---- whole sequences
_enter(
    ("predict(decode=...)", "marginals of pairs", "stream", "constraints", "edges by features", *_CLIQUES),
    _WHOLE,
    "a sequence has one class: its states are hidden, and those of a class may follow each other freely",
)
_enter(
    ("allowed: LabelDictionary", "allowed: PrunedBy", "label_kernel", "cliques='learn'"), _WHOLE, "states are hidden"
)
_enter(("certify", "certificate_"), _WHOLE, "a sum over hidden states is not convex: minima are local, no gap is known")
_enter(("laplace", "optimize='evidence'"), _WHOLE, "states may change places: the posterior has many modes")
_enter(("load_chain (NumPy alone)", "ONNX"), _WHOLE, "the files of chains in production label positions")

# ---- clusters
_enter(
    ("fit_temperature", "evaluate_model", "feature_importance", "labels of text or numbers", *_PARTLY),
    _CLUSTERS,
    "no labels are given, and clusters have no true ones",
)
_enter(("expected shares", "X_unlabelled", "class_weight"), _CLUSTERS, "no labels are given")
_enter(
    ("certify", "certificate_"), _CLUSTERS, "information is not convex, and its optimum a local one: no gap is known"
)
_enter(("laplace", "optimize='evidence'", "partial_fit"), _CLUSTERS, "there is no posterior: no labels were seen")
_enter(("development set", "FieldSearchCV"), _CLUSTERS, "no labels to be right about")
_enter(
    ("constraints", "allowed: LabelDictionary", "allowed: PrunedBy", "label_kernel"),
    _CLUSTERS,
    "clusters have no names",
)
_enter(("cliques='learn'", *_CLIQUES), _CLUSTERS, "clusters are of inputs that look alike, and of what follows what")
_enter((*_SOLVERS, "l1"), _CLUSTERS, "information is not convex: it is climbed by L-BFGS from several starts")

# ---- graphs
_enter(("stream",), _GRAPHS, "nodes of a graph come in no order")
_enter(_CLIQUES, _GRAPHS, "graphs have no order: types of factors join any nodes")
_enter(("window",), _GRAPHS, "graphs have no windows: features of neighbours are features of the node")
_enter(
    ("certify", "certificate_", "laplace"),
    ("GraphCRF loopy",),
    "an approximate objective has no bound and no posterior",
)
_enter(("optimize='evidence'",), ("GraphCRF loopy",), "an approximate objective has no evidence")
_enter(
    ("entropy", "log_likelihood", "log_likelihood of gaps", "predict_nbest"),
    ("GraphCRF loopy",),
    "probabilities of whole labellings are not known where inference is approximate",
)
_enter(("feature dicts", "feature strings"), _GRAPHS, "a graph is a dict itself")

# ---- rings and segments
_enter(("stream",), ("RingCRF",), "a ring has no first position")
_enter(("StartCliques, EndCliques",), ("RingCRF",), "a ring has no first and no last label")
_enter(("load_chain (NumPy alone)", "ONNX"), ("RingCRF",), "the files of chains in production are those of open chains")
_enter(_CLIQUES, _SEGMENTS, "labels of a segment are one, however long it is: durations and steps take this place")

# ---- sklearn-crfsuite
_ELSEWHERE = "sklearn-crfsuite has no such parameter, and this class has its interface: use ChainCRF"
_enter(("predict(decode=...)", *_PARTLY, "expected shares", "X_unlabelled", "sample_weight"), _COMPAT, _ELSEWHERE)
_enter(("class_weight", "constraints", "allowed: LabelDictionary", "allowed: PrunedBy"), _COMPAT, _ELSEWHERE)
_enter((*_CLIQUES, "edges by features", "window", "label_kernel", "a kernel without features"), _COMPAT, _ELSEWHERE)
_enter((*_SOLVERS, "prior_variance='auto'", "warm_start", "partial_fit", "callbacks"), _COMPAT, _ELSEWHERE)
_enter(("Checkpoint", "optimize='evidence'", "cliques='learn'", "basis='gradient'"), _COMPAT, _ELSEWHERE)
_enter(("engine=Torch()", "engine=Dask()", "memory limit", "FieldSearchCV", "known="), _COMPAT, _ELSEWHERE)


def reason_for(feature: str, subject: str) -> str:
    """Return why a cell means nothing, empty if it means something."""
    return REASONS.get((feature, subject), "")
