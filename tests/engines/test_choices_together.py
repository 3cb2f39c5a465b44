"""What is left to the data is chosen for the partitions of a collection as for the list of their items."""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("torch")
from fits_together import in_parts
from together import Together

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SegmentCRF
from kernelfields.inputs.scale import spreads
from kernelfields.kernels import RBF, Columns, Linear
from kernelfields.numerics.group import RUNNING

KINDS = Columns(RBF(0.3), "numbers") + Columns(Linear(), "categories")
FEW = {"max_iter": 30, "random_state": 0, "rank": 40, "dtype": "float64"}


def numbers(n=60, length=5):
    """Sequences with columns of very different spreads, the first of which mostly tells the label."""
    random = np.random.default_rng(0)
    X = [random.normal(size=(length, 2)) * [1.0, 1000.0] for _ in range(n)]
    return X, [np.array(["a", "b"])[(x[:, 0] + random.normal(size=length) > 0).astype(int)] for x in X]


def dicts(n=40):
    """Sequences of dicts with a number and a category."""
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(2, size=2), 4) for _ in range(n)]
    rows = [zip(random.integers(3, size=8).tolist(), (own + random.normal(size=8)).tolist(), strict=True) for own in y]
    return [[{"kind": "abc"[k], "level": 50.0 * v} for k, v in own] for own in rows], y


def words(n=40):
    """Sequences of strings of features."""
    random = np.random.default_rng(0)
    y = [random.integers(3, size=6) for _ in range(n)]
    return [[[f"word{label}", f"noise{random.integers(20)}"] for label in own.tolist()] for own in y], y


def rows():
    X, y = numbers()
    return np.vstack(X), np.concatenate(y)


def tables():
    X, y = rows()
    return X, np.column_stack([y == "a", X[:, 1] > 100.0]).astype(int)


def graphs():
    X, y = numbers()
    return [(x, np.array([[0, 1], [1, 2], [2, 3], [3, 4]])) for x in X], y


CASES = {
    "scale": (ChainCRF("rbf", prior_variance=1.0, **FEW), numbers),
    "scale, always": (ChainCRF("rbf", prior_variance=1.0, scale=True, **FEW), numbers),
    "prior variance": (ChainCRF("rbf", scale=False, **FEW), numbers),
    "scale and prior variance of segments": (SegmentCRF("rbf", max_duration=5, **FEW), numbers),
    "decode": (ChainCRF("rbf", prior_variance=1.0, decode="f1", **FEW), numbers),
    "scale and prior variance of rows": (KernelClassifier("rbf", **FEW), rows),
    "decision": (MultiLabelCRF("rbf", prior_variance=1.0, scale=True, label_graph="none", **FEW), tables),
    "scale of graphs": (GraphCRF("rbf", prior_variance=1.0, neighbours=False, **FEW), graphs),
    "columns of neighbours": (GraphCRF("rbf", prior_variance=1.0, neighbours=True, **FEW), graphs),
    "columns of windows": (ChainCRF("rbf", prior_variance=1.0, window="statistics", **FEW), numbers),
    "kinds of columns": (ChainCRF(KINDS, prior_variance=1.0, **FEW), dicts),
    "support and l1": (ChainCRF("linear", **FEW), words),
}
SLOW = {
    "everything": (ChainCRF(random_state=0, dtype="float64"), numbers),
    "categories": (ChainCRF(random_state=0, dtype="float64"), dicts),
    "everything of words": (ChainCRF(random_state=0, dtype="float64"), words),
    "neighbours": (GraphCRF(random_state=0, dtype="float64"), graphs),
}


def fitted(collective, name, collected):
    """Return what was chosen, and the marginals of new items, of a fit to lists here or to parts of them."""
    estimator, made = {**CASES, **SLOW}[name]
    X, y = made()
    new = X[:5]
    if collected:
        X, y = (in_parts(each, collective.rank) for each in (X, y))
        estimator = estimator.set_params(engine=Together())
    crf = estimator.fit(X, y)
    crf.set_params(engine="threads")
    return crf.choices_, crf.scale_, getattr(crf, "threshold_", 0.0), np.vstack(crf.predict_marginals(new))


def compare(processes, name):
    chosen, scaled, threshold, expected = fitted(None, name, False)
    for choices, scale, own, marginals in processes(functools.partial(fitted, name=name, collected=True)):
        assert choices.chosen.keys() == chosen.chosen.keys()
        tried = [sorted(str(trial.settings) for trial in each.trials) for each in (choices, chosen)]
        assert tried[0] == tried[1]
        for setting, value in chosen.chosen.items():
            near = value if isinstance(value, str | bool) else pytest.approx(value, rel=1e-3)
            assert choices.chosen[setting] == near, setting
        assert (scale, own) == (scaled, pytest.approx(threshold, rel=1e-3))
        np.testing.assert_allclose(marginals, expected, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_parameter_is_chosen_for_parts_as_for_lists(processes, name):
    compare(processes, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_all_parameters_are_chosen_for_parts_as_for_lists(processes, name):
    compare(processes, name)


def chosen_for_lists(collective):
    """Return what was chosen for lists of which four folds share their features, and its losses."""
    X, y = numbers(30, 102)
    crf = ChainCRF("rbf", scale=False, **{**FEW, "rank": 20}).set_params(window=1)
    crf.set_params(engine="threads" if collective is None else Together()).fit(X, y)
    return {str(trial.settings): trial.log_loss for trial in crf.choices_.trials}


@pytest.mark.slow
def test_processes_choose_for_lists_what_one_chooses(processes):
    expected = chosen_for_lists(None)
    assert len(expected) > 2
    for found in processes(chosen_for_lists):
        assert found == pytest.approx(expected, rel=1e-6)


def spread_there(collective, weighed):
    X, _ = rows()
    X[:, 1] = np.where(np.arange(len(X)) == 7, 3.0, 0.0)
    weights = np.where(np.arange(len(X)) < 2, 0.0, 1.0 + np.arange(len(X)) % 3) if weighed else np.ones(len(X))
    if collective is None:
        return spreads(X, weights)
    own = slice(0, 2) if collective.rank == 0 else slice(2, None)
    return spreads(X[own], weights[own], RUNNING.get())


@pytest.mark.parametrize("weighed", [False, True])
def test_spreads_of_columns_are_those_of_all_rows(processes, weighed):
    """Of the first process no row counts where rows are weighed; a column is constant but for one row."""
    expected = spread_there(None, weighed)
    for found in processes(functools.partial(spread_there, weighed=weighed)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def with_groups(collective):
    X, y = (in_parts(each, collective.rank) for each in numbers())
    ChainCRF("rbf", prior_variance=1.0, engine=Together()).fit(X, y, groups=np.arange(60))


def test_groups_of_items_that_are_elsewhere_are_refused(processes):
    with pytest.raises(ValueError, match="groups are for sequences of this process, and X is a Dask collection"):
        processes(with_groups)
