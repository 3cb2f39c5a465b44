"""Why a cell means nothing: the model of the estimator has no place for what is asked.

What could be answered and is not stays a refusal, and counts. Cells of this table are run as well: if one works, it
counts as working, and if it raises an unclear error, it is unclear.
"""

from __future__ import annotations

from tests.campaigns.cells.features import OF_WORDS

REASONS: dict[tuple[str, str], str] = {}

_SINGLE = ("KernelClassifier", "FieldSearchCV of rows")
_ROWS = (*_SINGLE, "MultiLabelCRF")
_GRAPHS = ("GraphCRF", "GraphCRF loopy")
_LOOPY = ("GraphCRF loopy",)
_DENSITY = ("ExponentialFamilyDensity",)
_WHOLE = ("SequenceClassifier",)
_COMPAT = ("compat.CRF",)
_SEQUENCES = ("ChainCRF", "RingCRF", "SegmentCRF", "FrameCRF", "ChainCRFCV")
_SEARCHES = ("ChainCRFCV", "FieldSearchCV of rows")
_ANNOTATED = ("AnnotatedCRF",)

_SOLVERS = tuple(
    f"solver={name!r}" for name in ("newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs")
)
_CLIQUES = ("LabelNgrams", "OrderCliques", "SkipCliques", "StartCliques, EndCliques")
_PARTLY = ("None for unknown labels", "sets of labels", "weights of labels", "SoftTargets")
_ALLOWED = ("allowed: LabelDictionary",)
_PRODUCTION = ("load_chain (NumPy alone)", "ONNX")
_OF_LABELS = (
    *("predict", "predict(decode=...)", "marginals", "marginals of pairs", "predict_nbest", "known="),
    *("explain", "weights", "show", "stream", "evaluate"),
    *("labels of text or numbers", *_PARTLY, "log_likelihood of gaps", "expected shares"),
    *("class_weight", "constraints", *_ALLOWED, *_CLIQUES, "edges by features", "label_kernel", "ties"),
    *("StructureSearch", "development set", "FieldSearchCV", *_PRODUCTION),
)


def _enter(features: tuple[str, ...], subjects: tuple[str, ...], reason: str) -> None:
    for feature in features:
        for subject in subjects:
            REASONS.setdefault((feature, subject), reason)


def reason_for(feature: str, subject: str) -> str:
    """Return why a cell means nothing, empty if it means something."""
    return REASONS.get((feature.removesuffix(OF_WORDS), subject), "")


# ---- spans and sets
_enter(("predict_entities",), (*_ROWS, *_GRAPHS, *_WHOLE), "without an order of labels there are no spans")
_enter(("predict_entities", "ConformalField", "calibrate"), _DENSITY, "there are no labels")

# ---- labels to check, and to ask for
_enter(("the page (label, correct)",), _DENSITY, "there are no labels to give")
_enter(("find_label_errors", "rank_for_labelling"), _DENSITY, "there are no labels")
_enter(("find_label_errors",), _ANNOTATED, "confusions measure the errors of annotators, see reliability")

# ---- trees
_enter(("kernel='forest'",), _DENSITY, "trees need labels, and a density has none")
_enter(("kernel='forest'",), _ANNOTATED, "trees need known labels, and labels of annotators may be wrong")
_enter(("kernel='forest'",), _WHOLE, "trees need known labels, and the states of a sequence are hidden")

# ---- transformers in front
_LEARNING, _WINDOWS = ("behind OutOfFold", "behind TunedEncoder"), ("behind WindowFeatures",)
_enter(_LEARNING, _DENSITY, "a classifier needs labels, and a density has none")
_enter(_LEARNING, _ANNOTATED, "a classifier needs known labels, and labels of annotators may be wrong")
_enter(_LEARNING, _WHOLE, "a classifier of positions needs a label for each, and a sequence has one class")
_enter(_WINDOWS, (*_ROWS, *_DENSITY, "FieldSearchCV of rows"), "rows have no order")
_enter(_WINDOWS, _GRAPHS, "nodes of a graph have no order")
_enter(
    (*_LEARNING, *_WINDOWS),
    _COMPAT,
    "sklearn-crfsuite takes feature dicts, but these transformers make columns: use ChainCRF",
)

# ---- densities
_enter(_OF_LABELS, _DENSITY, "a density has points but no labels")
_enter(_SOLVERS, _DENSITY, "a density is fitted by Newton steps with the whole Hessian, which is small")
_enter(("callbacks", "Checkpoint", "warm_start"), _DENSITY, "a density is fitted in a dozen Newton steps")
_enter(
    ("feature dicts", "feature strings", "words", "sparse"), _DENSITY, "a density is defined on a box of real numbers"
)
_enter(("window", "an empty item among others", "no items"), _DENSITY, "points have no neighbours and cannot be empty")
_enter(("report",), _DENSITY, "a report shows labels, their weights and how they were evaluated")
_enter(("optimize='evidence'",), _DENSITY, "GridSearchCV compares densities by held-out points")
_enter(("l1",), _DENSITY, "an l1 penalty applies to weights of features, and the kernel of a density has none")
_enter(
    ("engine=Torch()", "engine=Dask()", "memory limit"),
    _DENSITY,
    "a fit works on the nodes of a quadrature and needs only one sum over the data",
)

# ---- single labels
_enter(
    ("class_weight",),
    (*_SEQUENCES, *_GRAPHS, *_ANNOTATED, "MultiLabelCRF"),
    "the likelihood is one of whole labellings and has no terms for single labels: use sample_weight for items",
)
_enter(("stream", "window", "constraints", *_CLIQUES), _ROWS, "rows have no order")
_enter(("marginals of pairs", "edges by features", "StructureSearch"), _SINGLE, "a single label has no neighbours")
_enter(("no items",), _ROWS, "tables of scikit-learn need at least one row")
_enter(("show",), _ROWS, "a row has no order or layout that could be drawn")
_enter(_ALLOWED, _ROWS, "a dictionary holds words of sequences; use known= to exclude labels of rows from predictions")
_enter(("label_kernel", "sets of labels", "weights of labels"), ("MultiLabelCRF",), "each label is only yes or no")
_enter(("label_kernel",), (*_SINGLE, "SegmentCRF"), "label kernels are parameters of clique sets")
_enter(("l1",), (*_ROWS, "SegmentCRF", *_GRAPHS), "an l1 penalty is a parameter of ChainCRF and of clique sets")
_enter(("ties",), ("MultiLabelCRF",), "every label has separate cliques, so labels cannot be exchanged")

# ---- whole sequences
_enter(
    ("predict(decode=...)", "marginals of pairs", "stream", "constraints", *_CLIQUES),
    _WHOLE,
    "a sequence has one class, and its states are hidden",
)
_enter(
    (*_ALLOWED, "label_kernel", "ties", "StructureSearch"),
    _WHOLE,
    "states are hidden and have no names",
)
_enter(
    ("certify", "certificate_"), _WHOLE, "a sum over hidden states is not convex: minima are local, and there is no gap"
)
_enter(
    ("laplace", "optimize='evidence'", "partial_fit"),
    _WHOLE,
    "hidden states can be exchanged, so the posterior has many modes and is not Gaussian",
)
_enter(
    (*_SOLVERS, "l1", "warm_start", "callbacks", "Checkpoint", "development set"),
    _WHOLE,
    "hidden states are always fitted by L-BFGS from a first guess",
)
_enter(_PRODUCTION, _WHOLE, "these label positions; load_sequence_classifier reads classes of whole sequences")

# ---- graphs
_enter(("stream",), _GRAPHS, "the nodes of a graph have no order")
_enter(_CLIQUES, _GRAPHS, "graphs have no order: use types of factors to join nodes")
_enter(
    _ALLOWED, _GRAPHS, "a dictionary holds words of sequences; use known= to exclude labels of nodes from predictions"
)
_enter(
    ("load_chain (NumPy alone)",), (*_GRAPHS, "MultiLabelCRF", "SegmentCRF", "RingCRF"), "load_chain reads only chains"
)
_enter(("window",), _GRAPHS, "graphs have no windows: add the features of neighbours to those of the node")
_enter(
    ("neighbours of nodes",),
    (*_SEQUENCES, *_ROWS, *_DENSITY, *_WHOLE, *_COMPAT, *_ANNOTATED),
    "only nodes of a graph have such neighbours; use WindowFeatures for sequences",
)
_enter(("StructureSearch",), _GRAPHS, "the edges are given with each graph")
_enter(("feature dicts", "feature strings", "words"), _GRAPHS, "a graph is itself a dict of arrays and edges")
_enter(
    ("feature dicts", "feature strings", "words"),
    _ROWS,
    "rows of a table are numbers: use scikit-learn's DictVectorizer",
)
_enter(
    ("certify", "certificate_", "laplace", "optimize='evidence'"),
    _LOOPY,
    "an approximate objective has no bound and no posterior",
)
_enter(
    ("entropy", "log_likelihood", "log_likelihood of gaps", "predict_nbest", "expected shares"),
    _LOOPY,
    "this needs a distribution of whole labellings, and approximate marginals belong to none",
)
_enter(
    ("solver='newton'", "solver='newton-cg'", "solver='block-jacobi'", "solver='subspace'"),
    _LOOPY,
    "an approximate objective is not convex, so its Hessian is not a metric",
)

# ---- rings and segments
_enter(("stream",), ("RingCRF",), "a ring has no first position")
_enter(("StartCliques, EndCliques",), ("RingCRF",), "a ring has no first and no last label")
_enter(
    (*_CLIQUES, "StructureSearch"),
    ("SegmentCRF",),
    "a segment has one label: only durations and transitions can be scored",
)

# ---- searches
_enter(
    (*_CLIQUES, "label_kernel", "StructureSearch"),
    _SEARCHES,
    "clique sets spell out kernels and variances: nothing is left to search",
)
_enter(("partial_fit",), _SEARCHES, "a search compares candidates on all data; best_estimator_ may go on")
_enter(("development set",), _SEARCHES, "a search holds out folds of its own")
_enter(("optimize='evidence'",), _SEARCHES, "the evidence chooses the same parameters in another way: use one of both")
_enter(("FieldSearchCV",), _SEARCHES, "a search in a search")

# ---- annotators
_enter(
    ("sets of labels", "weights of labels", "SoftTargets", "expected shares"),
    _ANNOTATED,
    "annotators give labels: what is not sure of these is estimated",
)
_enter(("partial_fit", "Checkpoint", "warm_start"), _ANNOTATED, "confusions are those of all sequences together")
_enter(
    ("certify", "laplace", "optimize='evidence'", "StructureSearch"),
    _ANNOTATED,
    "this needs labels that are known, and here they are estimated with the confusions",
)
_enter(("development set",), _ANNOTATED, "sequences are held out fold by fold")

# ---- sklearn-crfsuite
_ELSEWHERE = "this class has the interface of sklearn-crfsuite, which has no such parameter: use ChainCRF"
_enter(
    ("predict(decode=...)", "marginals of pairs", *_PARTLY, "expected shares", "sample_weight"),
    _COMPAT,
    _ELSEWHERE,
)
_enter(("class_weight", "constraints", *_ALLOWED, "known="), _COMPAT, _ELSEWHERE)
_enter((*_CLIQUES, "edges by features", "window", "label_kernel", "ties"), _COMPAT, _ELSEWHERE)
_enter(("a kernel without features",), _COMPAT, _ELSEWHERE)
_enter((*_SOLVERS, "prior_variance='auto'", "warm_start", "partial_fit", "callbacks"), _COMPAT, _ELSEWHERE)
_enter(("Checkpoint", "optimize='evidence'", "StructureSearch", "basis='gradient'"), _COMPAT, _ELSEWHERE)
_enter(("kernel='forest'",), _COMPAT, _ELSEWHERE)
_enter(("development set",), _COMPAT, "holdout data change no model of CRFsuite: score it after the fit")
_enter(("engine=Torch()", "engine=Dask()", "memory limit", "FieldSearchCV"), _COMPAT, _ELSEWHERE)
