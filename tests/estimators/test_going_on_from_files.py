"""A file is the fitted object: what is loaded goes on as what was kept in memory does, for every estimator and feature.

Solutions are compared to the last bit: both fits begin at the same coefficients, in the same basis.
"""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    FrameCRF,
    GraphCRF,
    GraphFactors,
    KernelClassifier,
    LabelDictionary,
    LabelNgrams,
    MultiLabelCRF,
    NodeCliques,
    PartialLabels,
    RingCRF,
    SegmentCRF,
    SkipCliques,
    StartCliques,
    TextFeatures,
    WindowFeatures,
    load,
    save,
)
from kernelfields.basis import GreedyCholesky, RandomCholesky
from kernelfields.data import Constraints, DurationCliques, LabelSymmetry
from kernelfields.estimators import LabelShares
from kernelfields.inference import LoopyBelief
from kernelfields.kernels import RBF, Linear, Matern, Polynomial
from tests.samples import labelled_instances, labelled_sequences

X, Y = labelled_sequences(16, seed=3)
X2, Y2 = labelled_sequences(8, seed=4)
A, B = (X, Y), (X2, Y2)
QUICK = {"tol": 1e-3, "random_state": 0, "prior_variance": 1.0}
NUMBERS = {**QUICK, "scale": False, "rank": 12}
TURN = LabelSymmetry({0: 1, 1: 2, 2: 0}, [1, 2, 0])
DOWN = [(0, 1), (0, 2), (1, 2)]


def in_words(X, names="the cat dog sees a"):
    return [[names.split()[int(abs(value)) % 5] for value in 3 * x[:, 0]] for x in X]


def both(change):
    """Return what a change makes of the data of both fits."""
    return change(*A), change(*B)


def named(X, Y):
    return [[{f"f{j}": float(value) for j, value in enumerate(row)} for row in x] for x in X], Y


def mixed(X, Y):
    """Numbers and words; the fit that goes on has a word that is new."""
    words = in_words(X, "the cat dog sees a" if len(X) == len(A[0]) else "the cat dog sees bird")
    return [
        [{"v": float(row[0]), word: 1.0} for row, word in zip(*each, strict=True)]
        for each in zip(X, words, strict=True)
    ], Y


def uneven(X, Y):
    return [x * [1, 100, 9] for x in X], Y


def decreasing(X, Y):
    return X, [np.sort(labels)[::-1] for labels in Y]


def gaps(X, Y):
    return X, [[None if place == 1 else int(label) for place, label in enumerate(labels)] for labels in Y]


def long_ones(X, Y):
    return [x for x in X if len(x) > 2], [labels for labels in Y if len(labels) > 2]


def graphs(X, Y):
    return [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X], Y


def linked(X, Y):
    """Chains as graphs whose edges have features."""
    return [{"x": x, "edges": edges, "edge_features": x[1:]} for x, edges in graphs(X, Y)[0]], Y


def rows(X, Y):
    return np.concatenate(X), np.concatenate(Y)


def table(X, Y):
    own = pd.DataFrame(np.concatenate(X), columns=["u", "v", "w"])
    own["sequence"] = np.repeat(np.arange(len(X)), [len(x) for x in X])
    return own.assign(label=np.concatenate(Y)), None


def spelled(X, Y):
    return [[{"word": word} for word in own] for own in in_words(X)], Y


def instances(X, Y):
    inputs, indicator = labelled_instances(60)
    part = slice(0, 40) if len(X) == len(A[0]) else slice(40, 60)
    return inputs[part], indicator[part]


def by_product(a, b):
    return a @ b.T + 1.0


SETS = [NodeCliques(RBF(0.3), rank=8), EdgeCliques(), StartCliques(), SkipCliques(lag=2)]
DURATIONS = DurationCliques(Matern(1.5), shared=True)
SHARES = PartialLabels(expectations=[LabelShares({0: 0.5})])
CASES = {
    "linear": (ChainCRF("linear", **QUICK), both(lambda *data: data)),
    "chosen": (ChainCRF(random_state=0), both(lambda *data: data)),
    "scaled": (ChainCRF("rbf", scale=True, rank=9, **QUICK), both(uneven)),
    "windows": (ChainCRF("rbf", window="statistics", **NUMBERS), (A, B)),
    "wide": (ChainCRF("rbf", window=(1, 2), edges=EdgeCliques("linear"), **NUMBERS), (A, B)),
    "function": (ChainCRF(by_product, **NUMBERS), (A, B)),
    "sum": (ChainCRF(RBF(0.5) + Linear(), **{**NUMBERS, "prior_variance": (0.5, 2.0)}), (A, B)),
    "basis": (ChainCRF(Polynomial(2), basis=GreedyCholesky(tol=0.01), **NUMBERS), (A, B)),
    "words": (ChainCRF("linear", **QUICK), both(lambda X, Y: (in_words(X), Y))),
    "features": (ChainCRF("linear", features=TextFeatures(), **QUICK), both(lambda X, Y: (in_words(X), Y))),
    "features of rows": (ChainCRF("linear", features=[WindowFeatures(), StandardScaler()], **QUICK), (A, B)),
    "dicts": (ChainCRF(random_state=0), both(named)),
    "categories": (ChainCRF(random_state=0), both(mixed)),
    "l1": (ChainCRF("linear", l1=1.0, **QUICK), both(mixed)),
    "l1, observed": (ChainCRF("linear", l1=1.0, support="observed", **QUICK), both(mixed)),
    "l1, pairs seen twice": (ChainCRF("linear", l1=0.3, support=2.0, **QUICK), both(mixed)),
    "l1, nothing left": (ChainCRF("linear", l1=1e4, **QUICK), both(mixed)),
    "l1 of edges": (ChainCRF("linear", edges=EdgeCliques("linear", l1=3.0), l1=0.5, **QUICK), both(mixed)),
    "l1 in a window": (ChainCRF("linear", window=3, l1=1.0, **QUICK), both(mixed)),
    "observed": (ChainCRF("linear", support="observed", **QUICK), both(named)),
    "cliques": (ChainCRF(cliques=SETS, **QUICK), (A, B)),
    "n-grams": (ChainCRF(cliques=[NodeCliques("linear"), EdgeCliques(), LabelNgrams(n=3)], **QUICK), (A, B)),
    "dictionary": (ChainCRF("linear", allowed=LabelDictionary("word", min_count=1), **QUICK), both(spelled)),
    "constraints": (ChainCRF("linear", constraints={"transitions": DOWN}, **QUICK), both(decreasing)),
    "constraints, a set": (ChainCRF("linear", constraints=set(DOWN), **QUICK), both(decreasing)),
    "constraints, an object": (ChainCRF("linear", constraints=Constraints(DOWN), **QUICK), both(decreasing)),
    "ties": (ChainCRF(RBF(0.3), ties=TURN, **NUMBERS), (A, B)),
    "gaps": (ChainCRF("linear", partial_labels=PartialLabels(classes=[0, 1, 2]), **QUICK), both(gaps)),
    "shares": (ChainCRF("linear", partial_labels=SHARES, **QUICK), both(gaps)),
    "f1": (ChainCRF("linear", decode="f1", **QUICK), (A, B)),
    "ring": (RingCRF(RBF(0.3), **NUMBERS), both(long_ones)),
    "segments": (SegmentCRF(RBF(0.3), max_duration=7, constraints=[(0, 1)], **NUMBERS), both(decreasing)),
    "durations": (SegmentCRF("linear", durations=DURATIONS, repeats=True, max_duration=4, **QUICK), (A, B)),
    "graph": (GraphCRF(RBF(0.3), basis=RandomCholesky(tol=0.01), **NUMBERS), both(graphs)),
    "neighbours": (
        GraphCRF("linear", neighbours=True, constraints=[(0, 1)], **QUICK),
        both(lambda X, Y: graphs(*decreasing(X, Y))),
    ),
    "edges": (GraphCRF("linear", edges=GraphFactors("linear", symmetric=True), **QUICK), both(linked)),
    "loopy": (GraphCRF("linear", inference=LoopyBelief(), **QUICK), both(graphs)),
    "classifier": (KernelClassifier("rbf", rank=12, **QUICK), both(rows)),
    "weighted": (KernelClassifier("linear", bias=False, class_weight="balanced", **QUICK), both(rows)),
    "several labels": (MultiLabelCRF("rbf", rank=12, **QUICK), both(instances)),
    "pairs": (MultiLabelCRF("linear", label_graph=[(0, 1)], edges=EdgeCliques("linear"), **QUICK), both(instances)),
    "a tree of pairs": (
        MultiLabelCRF("linear", label_graph="tree", bias_prior_variance=None, decision="f1", **QUICK),
        both(instances),
    ),
    "frame": (FrameCRF(ChainCRF("linear", warm_start=True, **QUICK)), both(table)),
    "pipeline": (
        make_pipeline(TextFeatures(), ChainCRF("linear", warm_start=True, **QUICK)),
        both(lambda X, Y: (in_words(X), Y)),
    ),
}


def file_of(model, tmp_path):
    """Return a model as a file gives it back."""
    save(model, tmp_path / "model.kfm")
    return load(tmp_path / "model.kfm", callables={"by_product": by_product})


def answers(model, data):
    """Return what may differ between two fits: the solution, and probabilities."""
    X = data[0]
    if isinstance(model, Pipeline):
        model, X = model[-1], model[:-1].transform(X)
    solution = getattr(model, "estimator_", model).solution_
    ask = getattr(model, "predict_proba", None) or model.predict_marginals
    found = solution.theta, [solution.value, solution.lower_bound], *map(np.asarray, ask(X))
    return [np.asarray(each, dtype=float).ravel() for each in found]


def assert_same(one, other, data):
    for mine, theirs in zip(answers(one, data), answers(other, data), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_loaded_field_goes_on_as_the_one_in_memory(case, tmp_path):
    model, (first, second) = CASES[case]
    model = copy.deepcopy(model)
    if "warm_start" in model.get_params():
        model.set_params(warm_start=True)
    model.fit(*first)
    loaded = file_of(model, tmp_path)
    assert_same(model, loaded, first)
    assert_same(model.fit(*second), loaded.fit(*second), second)
    # And once more, by way of the file of a fit that has gone on.
    again = file_of(model, tmp_path)
    assert_same(model.fit(*first), again.fit(*first), first)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "case", ["function", "basis", "scaled", "windows", "ring", "graph", "classifier", "several labels"]
)
def test_batches_go_on_from_a_file(case, tmp_path):
    model, (first, second) = CASES[case]
    model = copy.deepcopy(model).set_params(rank=1000).partial_fit(*first)
    loaded = file_of(model, tmp_path)
    assert_same(model, loaded, first)
    assert_same(model.partial_fit(*second), loaded.partial_fit(*second), second)
