"""Random calls: estimators with random parameters, fitted to random data and asked for what they can answer.

Most parameters and data are sound, some are not; what cannot be used has to be refused in words, and what is accepted
has to answer finite numbers and probabilities that sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    EndCliques,
    ExponentialFamilyDensity,
    GraphCRF,
    GraphFactors,
    KernelClassifier,
    MultiLabelCRF,
    NodeCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.compat import CRF
from kernelfields.data import OrderCliques
from kernelfields.kernels import RBF, Columns, Constant, Linear, Matern, Normalized, Polynomial
from tests.campaigns.fuzzing.model_files import check_answers, check_density, check_reports
from tests.campaigns.fuzzing.verdicts import Case, judge

Random = np.random.Generator
_MAX_ITER = 15
_ODD: tuple[Any, ...] = (
    *(None, -1, 0, 1.5, "x", "", [], (), {}, np.nan, np.inf, -np.inf, True, 10**30, object, b"x", 1e-320),
)
_ODD_INPUTS: tuple[Any, ...] = (
    *(None, [], "text", 3, [[]], [None], [[[1, 2], [3]]], np.zeros((0, 2)), np.zeros(5), {"a": 1}),
)


class Calls:
    """Random calls of one estimator."""

    suffix = ".txt"

    def __init__(self, name: str):
        self.name = name
        self._make = _MAKERS[name.removeprefix("calls of ")]

    def prepare(self) -> None:
        """Run some calls, so that compilers have run."""
        for number in range(30):
            judge(self.case(np.random.default_rng([1, number])))

    def case(self, random: Random) -> Case:
        """Return a fit and what is asked of it."""
        estimator, data, ask = self._make(random)
        if random.random() < 0.3:
            _spoil(estimator, random)
        if random.random() < 0.25:
            data = _spoiled(data, random)
        described = f"{_shown(estimator)}\n{_shown(data)}"

        def load() -> Any:
            return estimator.fit(*data)

        def use(fitted: Any) -> None:
            ask(fitted, data)
            check_reports(fitted)

        # Rows of features, Hessians and the like: small problems need no more than this.
        return Case(load, use, described.encode(errors="replace"), self.suffix, size=4 * 2**20)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:5000]
    except Exception as error:  # noqa: BLE001 - odd parameters may have no repr, and the case is still to be run
        return f"{type(value).__name__} without a repr: {error}"


def _spoil(estimator: Any, random: Random) -> None:
    """Set one or two parameters to odd values."""
    names = [name for name in estimator.get_params(deep=False) if name not in ("callbacks", "verbose", "max_iter")]
    for _ in range(int(random.integers(1, 3))):
        setattr(estimator, names[random.integers(len(names))], _ODD[random.integers(len(_ODD))])


def _spoiled(data: tuple, random: Random) -> tuple:
    """Return data with odd inputs, odd labels, or other numbers of them."""
    changed = list(data)
    place = int(random.integers(len(changed)))
    value = changed[place]
    match random.integers(6):
        case 0:
            changed[place] = _ODD_INPUTS[random.integers(len(_ODD_INPUTS))]
        case 1 if isinstance(value, list | np.ndarray) and len(value) > 1:
            changed[place] = value[:-1]
        case 2 if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            changed[place] = value.copy()
            flat = changed[place].reshape(-1)
            with np.errstate(over="ignore"):
                flat[random.integers(flat.size)] = [np.nan, np.inf, 1e308, 1e200, -1e308, 1e-310][random.integers(6)]
        case 3 if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            changed[place] = [each.copy() for each in value]
            first = changed[place][0]
            if first.dtype.kind == "f":
                first.reshape(-1)[0] = [np.nan, np.inf, 1e308, 1e200, -1e308][random.integers(5)]
            else:
                changed[place][0] = first.astype(object)
        case 4 if isinstance(value, list) and value:
            changed[place] = [*value, _ODD_INPUTS[random.integers(len(_ODD_INPUTS))]]
        case _:
            changed[place] = _ODD[random.integers(len(_ODD))]
    return tuple(changed)


def _kernel(random: Random) -> Any:
    scale = float(10.0 ** random.uniform(-3, 2))
    makers: list[Callable[[], Any]] = [
        lambda: "rbf",
        lambda: "linear",
        lambda: RBF(scale),
        lambda: Matern([0.5, 1.5, 2.5, np.inf][random.integers(4)], scale),
        lambda: Polynomial(int(random.integers(1, 5)), scale, float(random.integers(2))),
        lambda: Linear() + RBF(scale),
        lambda: scale * Linear() * RBF(),
        lambda: Normalized(Polynomial(2)),
        lambda: Columns(RBF(scale), 0, 1) + Constant(1.0),
        lambda: "laplacian",
        lambda: "cosine",
        lambda: RBF() ** 2,
        lambda: lambda X, Z: X @ Z.T,
    ]
    return makers[random.integers(len(makers))]()


def _shared(random: Random) -> dict[str, Any]:
    """Return parameters that all fields have."""
    return {
        "kernel": _kernel(random),
        "rank": [None, 1, 3, 20][random.integers(4)],
        "basis": ["random-cholesky", "greedy-cholesky", "uniform", "all"][random.integers(4)],
        "tol": float(10.0 ** random.uniform(-6, -1)),
        "max_iter": _MAX_ITER,
        "random_state": int(random.integers(5)),
        "prior_variance": float(10.0 ** random.uniform(-4, 4)),
    }


def _inputs(random: Random, n_rows: int, n_columns: int) -> np.ndarray:
    scale = 10.0 ** random.uniform(-3, 3) if random.random() < 0.3 else 1.0
    X = scale * random.normal(size=(n_rows, n_columns))
    if random.random() < 0.15:
        X[:, 0] = 0.0
    if random.random() < 0.15:
        X[:] = X[0]
    return X.astype(np.float32) if random.random() < 0.1 else X


def _chain(random: Random) -> tuple[Any, tuple, Callable]:
    n_labels, width = int(random.integers(2, 5)), int(random.integers(1, 4))
    lengths = random.integers(1, 6, size=int(random.integers(2, 7)))
    y = [random.integers(n_labels, size=length) for length in lengths]
    X: list[Any] = [_inputs(random, length, width) for length in lengths]
    kind = random.integers(5)
    if kind == 0:
        X = [scipy.sparse.csr_array(x) for x in X]
    elif kind == 1:
        X = [[{f"f{place}": float(value) for place, value in enumerate(row)} for row in x] for x in X]
    if random.random() < 0.3:
        y = [np.array(list("abcd"))[each] for each in y]
    settings = _shared(random)
    settings["solver"] = ["auto", "newton-cg", "lbfgs", "block-jacobi", "subspace", "newton"][random.integers(6)]
    settings["window"] = [1, 3, (1, 0), (0, 2)][random.integers(4)]
    if random.random() < 0.2:
        settings["edges"] = EdgeCliques(_kernel(random))
    if random.random() < 0.2:
        settings |= {"kernel": "linear", "support": "observed", "l1": float(random.choice([0.0, 0.1]))}
    if random.random() < 0.2:
        extra = [SkipCliques(lag=2), OrderCliques(order=2), StartCliques(), EndCliques()]
        chosen = [extra[place] for place in random.permutation(4)[: random.integers(1, 3)]]
        for name in ("kernel", "rank", "basis", "prior_variance", "window", "edges", "support", "l1"):
            settings.pop(name, None)
        settings["cliques"] = [NodeCliques(_kernel(random), rank=5), EdgeCliques(), *chosen]
    return ChainCRF(**settings), (X, y), _ask_chain


def _ask_chain(crf: Any, data: tuple) -> None:
    X = data[0][:3]
    answers = {
        "marginals": np.concatenate(crf.predict_marginals(X)),
        "entropy": crf.entropy(X),
        "labels": np.concatenate(crf.predict(X)),
        "score": np.array(crf.score(*data)),
    }
    check_answers(answers, len(crf.classes_))
    crf.sample(X, random_state=0)


def _graph(random: Random) -> tuple[Any, tuple, Callable]:
    X, y = [], []
    for _ in range(int(random.integers(2, 5))):
        n_nodes = int(random.integers(1, 6))
        edges = np.array([(a, b) for a in range(n_nodes) for b in range(a) if random.random() < 0.5], dtype=np.int64)
        X.append({"x": _inputs(random, n_nodes, 2), "edges": edges.reshape(-1, 2)})
        y.append(random.integers(3, size=n_nodes))
    settings = _shared(random)
    settings["inference"] = ["auto", "junction", "tree", "loopy", "trw", "mean-field"][random.integers(6)]
    settings["edges"] = GraphFactors("auto", symmetric=bool(random.integers(2)))
    return GraphCRF(**settings), (X, y), _ask_graph


def _ask_graph(crf: Any, data: tuple) -> None:
    X = data[0][:3]
    check_answers(
        {"marginals": np.concatenate(crf.predict_marginals(X)), "labels": np.concatenate(crf.predict(X))},
        len(crf.classes_),
    )


def _several(random: Random) -> tuple[Any, tuple, Callable]:
    n_rows = int(random.integers(2, 15))
    X, Y = _inputs(random, n_rows, 2), random.integers(2, size=(n_rows, int(random.integers(1, 4))))
    settings = _shared(random)
    settings["decision"] = ["hamming", "subset"][random.integers(2)]
    settings["label_graph"] = ["full", "none", [(0, 1)]][random.integers(3)]
    return MultiLabelCRF(**settings), (X, Y), _ask_several


def _ask_several(crf: Any, data: tuple) -> None:
    check_answers({"proba": crf.predict_proba(data[0]), "labels": crf.predict(data[0])}, None)


def _classifier(random: Random) -> tuple[Any, tuple, Callable]:
    n_rows, n_classes = int(random.integers(2, 25)), int(random.integers(1, 5))
    X: Any = _inputs(random, n_rows, int(random.integers(1, 4)))
    X = scipy.sparse.csr_array(X) if random.random() < 0.2 else X
    y: Any = random.integers(n_classes, size=n_rows)
    y = np.array(list("abcd"))[y] if random.random() < 0.3 else y
    weights = random.choice([0.0, 0.5, 1.0, 3.0], size=n_rows)
    settings = {**_shared(random), "class_weight": [None, "balanced"][random.integers(2)]}
    data = (X, y, weights) if random.random() < 0.3 else (X, y)
    return KernelClassifier(**settings), data, _ask_classifier


def _ask_classifier(model: Any, data: tuple) -> None:
    answers = {"proba": model.predict_proba(data[0]), "decision": model.decision_function(data[0])}
    if len(data[1]) < 12:
        model.laplace(*data[:2], n_samples=3, random_state=0)
        answers["probit"] = model.predict_proba(data[0], uncertainty=True)
    check_answers(answers, len(model.classes_))


def _density(random: Random) -> tuple[Any, tuple, Callable]:
    X = _inputs(random, int(random.integers(2, 20)), int(random.integers(1, 3)))
    settings = {
        "kernel": _kernel(random),
        "rank": [2, 10][random.integers(2)],
        "prior_variance": float(10.0 ** random.uniform(-2, 2)),
        "base_measure": ["uniform", "gaussian"][random.integers(2)],
        "n_nodes": [8, 16, 32][random.integers(3)],
        "quadrature": ["auto", "gauss-legendre", "sobol"][random.integers(3)],
        "random_state": 0,
    }
    return ExponentialFamilyDensity(**settings), (X,), _ask_density


def _ask_density(model: Any, data: tuple) -> None:
    check_answers({"log_density": model.score_samples(data[0]), "mean": model.mean()}, None)
    check_density(model)


def _compat(random: Random) -> tuple[Any, tuple, Callable]:
    n_sequences = int(random.integers(1, 6))
    lengths = random.integers(1, 5, size=n_sequences)
    y = [[str(each) for each in random.integers(3, size=length)] for length in lengths]
    X = [
        [{f"w{random.integers(4)}": 1.0, "n": float(random.normal()), "s": "text"} for _ in range(length)]
        for length in lengths
    ]
    algorithms = ["lbfgs", "lbfgs", "lbfgs", "l2sgd", "l2sgd", "ap", "pa", "arow", "x"]
    settings = {
        "algorithm": algorithms[random.integers(len(algorithms))],
        "c1": float(random.choice([0.0, 0.1])),
        "c2": float(random.choice([0.01, 1.0])),
        "max_iterations": 10,
        "all_possible_transitions": bool(random.integers(2)),
    }
    if settings["algorithm"] == "l2sgd":
        del settings["c1"]
    return CRF(**settings), (X, y), _ask_compat


def _ask_compat(crf: Any, data: tuple) -> None:
    rows = [[row[label] for label in crf.classes_] for each in crf.predict_marginals(data[0]) for row in each]
    check_answers({"marginals": np.array(rows), "score": np.array(crf.score(*data))}, len(crf.classes_))


_MAKERS: dict[str, Callable[[Random], tuple[Any, tuple, Callable]]] = {
    "ChainCRF": _chain,
    "GraphCRF": _graph,
    "MultiLabelCRF": _several,
    "KernelClassifier": _classifier,
    "ExponentialFamilyDensity": _density,
    "compat.CRF": _compat,
}
NAMES = tuple(f"calls of {name}" for name in _MAKERS)
