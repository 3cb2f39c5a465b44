"""``save``, then ``load``, keeps answers and ``get_params``, for every estimator and every kind of parameter."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    ExponentialFamilyDensity,
    GraphCRF,
    GraphFactors,
    KernelClassifier,
    LabelDictionary,
    MultiLabelCRF,
    NodeCliques,
    PartialLabels,
    SegmentCRF,
    SkipCliques,
)
from kernelfields.basis import GreedyCholesky, RandomCholesky, Uniform
from kernelfields.data import Constraints, DurationCliques, LabelSymmetry
from kernelfields.engines import Threads, Torch
from kernelfields.formats import read_model
from kernelfields.inference import LoopyBelief
from kernelfields.kernels import RBF, Columns, Linear, Matern, Polynomial, Precomputed
from tests.samples import labelled_instances, labelled_sequences

X, Y = labelled_sequences()
# No 2 comes right after a 0, and none ends with a 1.
ALLOWED = X, [np.concatenate([np.sort(labels[1:])[::-1], [0]]) for labels in Y]
GRAPHS = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
TABLE, CLASSES = (each[::5] for each in load_iris(return_X_y=True))
INSTANCES, INDICATOR = labelled_instances(60)
ROWS = np.concatenate(X)
NUMBERS = np.split(np.arange(float(len(ROWS)))[:, None], np.cumsum([len(x) for x in X])[:-1])
TRUTHS = [labels > 0 for labels in Y]
QUICK = {"tol": 0.05, "random_state": 3}

FITS = {
    "segments": (
        SegmentCRF(
            2.0 * RBF("scale") + Linear(),
            edges=EdgeCliques("linear"),
            durations=DurationCliques(Matern(1.5), shared=True),
            max_duration=4,
            repeats=True,
            prior_variance=(0.5, 2.0),
            basis=RandomCholesky(tol=0.01),
            constraints=Constraints([(0, 2)], end=[1]),
            engine=Threads(memory="1GB"),
            **QUICK,
        ),
        ALLOWED,
    ),
    "chain, defaults": (ChainCRF(), (X, Y)),
    "chain, objects": (
        ChainCRF(
            2.0 * RBF("scale") + Columns(Polynomial(2), 0, 2),
            edges=EdgeCliques("linear", prior_variance=0.3),
            window=(1, 0),
            prior_variance=(0.5, 2.0),
            basis=RandomCholesky(tol=0.01, block_size=8),
            rank=12,
            constraints=Constraints([(0, 2)], end=[1]),
            solver="lbfgs",
            max_iter=300,
            dtype="float32",
            n_jobs=1,
            engine=Threads(memory="1GB"),
            warm_start=True,
            verbose=0,
            **QUICK,
        ),
        ALLOWED,
    ),
    "chain, clique sets": (
        ChainCRF(
            cliques=[
                NodeCliques(Matern(2.5, "scale"), rank=8, basis=GreedyCholesky(), name="seen"),
                EdgeCliques(prior_variance=0.5),
                SkipCliques(lag=2),
            ],
            **QUICK,
        ),
        (X, Y),
    ),
    "chain, classes": (
        ChainCRF(
            "linear",
            partial_labels=PartialLabels(classes=np.unique(np.concatenate(Y))),
            **QUICK,
        ),
        (X, Y),
    ),
    "chain, a matrix and truth values": (
        ChainCRF(Precomputed(ROWS @ ROWS.T), rank=9, **QUICK),
        (NUMBERS, TRUTHS),
    ),
    "chain, sparse weights": (
        ChainCRF("linear", support=1.0, l1=0.1, edges=EdgeCliques(l1=0.2, support="all"), scale=True, **QUICK),
        (X, Y),
    ),
    "chain, a dictionary of labels": (
        ChainCRF("linear", allowed=LabelDictionary(0, min_count=2, unknown=[0, 1, 2], entries={"7": [1]}), **QUICK),
        (X, Y),
    ),
    "chain, labels that share weights": (
        ChainCRF("linear", ties=LabelSymmetry({0: 1, 1: 0}, columns={0: 1, 1: 0}), features=None, **QUICK),
        (X, Y),
    ),
    "chain, types of NumPy": (
        ChainCRF(RBF(1.5), rank=np.int64(9), dtype=np.float64, decode="posterior", **QUICK),
        (X, Y),
    ),
    "graph": (
        GraphCRF(
            RBF(0.3), edges={"edge": GraphFactors(symmetric=True)}, inference=LoopyBelief(damping=0.3), rank=8, **QUICK
        ),
        (GRAPHS, Y),
    ),
    "several labels": (
        MultiLabelCRF(
            RBF(0.5) + Linear(),
            label_graph=[(0, 1), (2, 3)],
            edges=EdgeCliques("linear", rank=4),
            bias_prior_variance=None,
            decision="subset",
            engine=Threads("2GB", folder=Path(".")),
            basis=Uniform(),
            **QUICK,
        ),
        (INSTANCES, INDICATOR),
    ),
    "classifier": (
        KernelClassifier(
            RBF("scale"),
            bias=True,
            class_weight="balanced",
            rank=20,
            prior_variance=3.0,
            **QUICK,
        ),
        (TABLE, CLASSES),
    ),
    "density": (
        ExponentialFamilyDensity(RBF(2.0), rank=6, box=[(-1.0, 9.0)], margin=0.2, quadrature="auto", random_state=1),
        (TABLE[:, :1],),
    ),
}


def same(one, other):
    """Whether two parameters have the same type and value; objects with parameters, the same of those."""
    if isinstance(one, BaseEstimator) and type(one) is not type(other):
        return False
    if isinstance(one, BaseEstimator):
        left, right = one.get_params(deep=False), other.get_params(deep=False)
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Constraints):
        return isinstance(other, Constraints) and one.spec() == other.spec()
    # Numbers of NumPy come back as those of Python, types of numbers and paths by name.
    return one == other or np.dtype(one if isinstance(one, type) else object).name == other or str(one) == other


@pytest.mark.parametrize("name", FITS)
def test_loaded_estimators_have_the_parameters_they_were_saved_with(name, tmp_path):
    estimator, data = FITS[name]
    fitted = clone(estimator).fit(*data)
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    ask = "score_samples" if name == "density" else "predict"
    np.testing.assert_array_equal(*(np.hstack(getattr(model, ask)(data[0])) for model in (loaded, fitted)))
    before, after = fitted.get_params(deep=False), loaded.get_params(deep=False)
    assert before.keys() == after.keys()
    # How many threads there were is no part of what was fitted.
    assert after.get("n_jobs") is None
    assert {key for key in before if not same(before[key], after[key])} <= {"n_jobs"}
    # And again: what was loaded is saved as it is.
    loaded.save(tmp_path / "again")
    one, two = (read_model(tmp_path / name, type(fitted).__name__)[0] for name in ("model", "again"))
    assert same(one["parameters"], two["parameters"])


def test_every_parameter_is_changed_somewhere():
    """A parameter that no case above sets would not be missed if files lost it."""
    changed: dict[type, set[str]] = {}
    for name, (estimator, _) in FITS.items():
        defaults = {key: each.default for key, each in inspect.signature(type(estimator).__init__).parameters.items()}
        own = {key for key, value in estimator.get_params(deep=False).items() if not same(value, defaults[key])}
        changed.setdefault(type(estimator), set()).update(own)
        assert own or name.endswith("defaults")
    left = set(ChainCRF().get_params(deep=False)) - changed[ChainCRF]
    assert left == {"callbacks"}  # code


def test_an_engine_that_is_code_is_not_kept(tmp_path):
    class Elsewhere(Threads):
        """An engine of one's own."""

    ChainCRF(engine=Elsewhere(), **QUICK).fit(X, Y).save(tmp_path / "model")
    assert ChainCRF.load(tmp_path / "model").engine == "auto"
    assert same(Torch("cuda:1"), Torch("cuda:1"))
    assert not same(Torch("cuda:1"), Torch("cpu"))
