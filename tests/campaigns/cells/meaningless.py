"""Why a cell means nothing: the model of the estimator has no place for what is asked.

What could be answered and is not stays a refusal, and counts. Cells of this table are run as well: if one works, it
counts as working, and if it raises an unclear error, it is unclear.
"""

from __future__ import annotations

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
    return REASONS.get((feature, subject), "")


# ---- spans and sets
_enter(("predict_entities",), (*_ROWS, *_GRAPHS, *_WHOLE), "there are no spans where labels have no order")
_enter(("predict_entities", "ConformalField", "calibrate"), _DENSITY, "there are no labels")

# ---- labels to check, and to ask for
_enter(("the page (label, correct)",), _DENSITY, "there are no labels to give")
_enter(("find_label_errors", "rank_for_labelling"), _DENSITY, "there are no labels")
_enter(("find_label_errors",), _ANNOTATED, "labels of annotators are judged by their confusions, see reliability")

# ---- trees
_enter(("kernel='forest'",), _DENSITY, "trees are grown on labels, and there are none")
_enter(("kernel='forest'",), _ANNOTATED, "trees are grown on known labels, and those of annotators may be wrong")
_enter(("kernel='forest'",), _WHOLE, "trees are grown on known labels, and states of a sequence are hidden")

# ---- transformers in front
_LEARNING, _WINDOWS = ("behind OutOfFold", "behind TunedEncoder"), ("behind WindowFeatures",)
_enter(_LEARNING, _DENSITY, "a classifier learns labels, and there are none")
_enter(_LEARNING, _ANNOTATED, "a classifier learns known labels, and those of annotators may be wrong")
_enter(_LEARNING, _WHOLE, "a classifier of positions learns their labels, and a sequence has one class")
_enter(_WINDOWS, (*_ROWS, *_DENSITY, "FieldSearchCV of rows"), "rows have no order")
_enter(_WINDOWS, _GRAPHS, "nodes of a graph have no order")
_enter(
    (*_LEARNING, *_WINDOWS),
    _COMPAT,
    "sklearn-crfsuite takes feature dicts, and the transformers make columns: use ChainCRF",
)

# ---- densities
_enter(_OF_LABELS, _DENSITY, "a density has points, and no labels")
_enter(_SOLVERS, _DENSITY, "a density is fitted by Newton steps with the whole Hessian, which is small")
_enter(("callbacks", "Checkpoint", "warm_start"), _DENSITY, "a density is fitted in a dozen Newton steps")
_enter(("feature dicts", "feature strings", "words", "sparse"), _DENSITY, "a density is on a box of real numbers")
_enter(("window", "an empty item among others", "no items"), _DENSITY, "points have no neighbours, and are not empty")
_enter(("report",), _DENSITY, "a report shows labels, their weights and how they were evaluated")
_enter(("optimize='evidence'",), _DENSITY, "held-out points judge a density: GridSearchCV")
_enter(("l1",), _DENSITY, "an l1 penalty is on weights of features, and the kernel of a density has none")
_enter(
    ("engine=Torch()", "engine=Dask()", "memory limit"),
    _DENSITY,
    "the work of a fit is on the nodes of a quadrature; of the data it needs one sum",
)

# ---- single labels
_enter(
    ("class_weight",),
    (*_SEQUENCES, *_GRAPHS, *_ANNOTATED, "MultiLabelCRF"),
    "the likelihood is one of whole labellings, and has no parts for single labels: sample_weight weighs items",
)
_enter(("stream", "window", "constraints", *_CLIQUES), _ROWS, "rows have no order")
_enter(("marginals of pairs", "edges by features", "StructureSearch"), _SINGLE, "a single label has no neighbours")
_enter(("no items",), _ROWS, "scikit-learn asks tables for at least one row")
_enter(("show",), _ROWS, "a row has no picture of its own: there is nothing to lay out beside its label")
_enter(
    _ALLOWED, _ROWS, "a dictionary is of the words of sequences; known= leaves labels of rows out in all predictions"
)
_enter(("label_kernel", "sets of labels", "weights of labels"), ("MultiLabelCRF",), "a label of yes and no")
_enter(("label_kernel",), (*_SINGLE, "SegmentCRF"), "label kernels are those of clique sets")
_enter(("l1",), (*_ROWS, "SegmentCRF", *_GRAPHS), "an l1 penalty is one of ChainCRF, and of clique sets")
_enter(("ties",), ("MultiLabelCRF",), "every label has cliques of its own, and no other label takes its place")

# ---- whole sequences
_enter(
    ("predict(decode=...)", "marginals of pairs", "stream", "constraints", *_CLIQUES),
    _WHOLE,
    "a sequence has one class, and its states are hidden",
)
_enter(
    (*_ALLOWED, "label_kernel", "ties", "StructureSearch"),
    _WHOLE,
    "states are hidden, and have no names to be allowed by",
)
_enter(
    ("certify", "certificate_"), _WHOLE, "a sum over hidden states is not convex: minima are local, and no gap is known"
)
_enter(
    ("laplace", "optimize='evidence'", "partial_fit"),
    _WHOLE,
    "hidden states may change places: the posterior has many modes, and is no Gaussian",
)
_enter(
    (*_SOLVERS, "l1", "warm_start", "callbacks", "Checkpoint", "development set"),
    _WHOLE,
    "hidden states are fitted by L-BFGS from a guess of them, all at once",
)
_enter(_PRODUCTION, _WHOLE, "the files of chains in production label positions")

# ---- graphs
_enter(("stream",), _GRAPHS, "nodes of a graph come in no order")
_enter(_CLIQUES, _GRAPHS, "graphs have no order: types of factors join any nodes")
_enter(_ALLOWED, _GRAPHS, "a dictionary is of the words of sequences; known= leaves labels of nodes out in predictions")
_enter(("load_chain (NumPy alone)",), (*_GRAPHS, "MultiLabelCRF", "SegmentCRF", "RingCRF"), "load_chain reads chains")
_enter(("window",), _GRAPHS, "graphs have no windows: features of neighbours are features of the node")
_enter(
    ("neighbours of nodes",),
    (*_SEQUENCES, *_ROWS, *_DENSITY, *_WHOLE, *_COMPAT, *_ANNOTATED),
    "neighbours are those of the nodes of a graph; WindowFeatures is for sequences",
)
_enter(("StructureSearch",), _GRAPHS, "which nodes meet is given with each graph")
_enter(("feature dicts", "feature strings", "words"), _GRAPHS, "a graph is a dict itself, of arrays and edges")
_enter(
    ("feature dicts", "feature strings", "words"),
    _ROWS,
    "rows of a table are numbers: scikit-learn's DictVectorizer makes them",
)
_enter(
    ("certify", "certificate_", "laplace", "optimize='evidence'"),
    _LOOPY,
    "an approximate objective has no bound, and no posterior",
)
_enter(
    ("entropy", "log_likelihood", "log_likelihood of gaps", "predict_nbest", "expected shares"),
    _LOOPY,
    "approximate marginals are those of no distribution of whole labellings, which this asks for",
)
_enter(
    ("solver='newton'", "solver='newton-cg'", "solver='block-jacobi'", "solver='subspace'"),
    _LOOPY,
    "an approximate objective is not convex: its Hessian is no metric",
)

# ---- rings and segments
_enter(("stream",), ("RingCRF",), "a ring has no first position")
_enter(("StartCliques, EndCliques",), ("RingCRF",), "a ring has no first and no last label")
_enter(
    (*_CLIQUES, "StructureSearch"),
    ("SegmentCRF",),
    "a segment has one label, however long: durations and steps are all that there is to score",
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
