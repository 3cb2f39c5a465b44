"""Fits with expected shares of labels: every estimator, its files, and bad input."""

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, PartialLabels
from kernelfields.estimators import LabelShares
from tests.samples import as_words, labelled_instances, labelled_sequences

X, NUMBERS = labelled_sequences(16, seed=1, longest=5)
WORDS = as_words(NUMBERS)
# Four sequences are labelled, of twelve nothing is known.
SOME = [list(labels) if index < 4 else None for index, labels in enumerate(WORDS)]
RING = [(x, [(0, 1), (1, 2), (0, 2)]) for x in np.random.default_rng(0).normal(size=(8, 3, 2))]
SETTINGS = {"prior_variance": 1.0, "scale": False, "random_state": 0}


def chain(**settings):
    return ChainCRF("linear", partial_labels=PartialLabels(**settings), **SETTINGS)


def share_of(crf, label, data=X):
    place = crf.classes_.tolist().index(label)
    return np.vstack(crf.predict_marginals(data))[:, place].mean()


def never_rises(crf):
    values = np.array([each.value for each in crf.solution_.history])
    return len(values) > 1 and np.all(np.diff(values) <= 1e-12 * np.abs(values[:-1]))


def test_expected_shares_move_the_field():
    before, after = chain().fit(X, SOME), chain(expectations=[LabelShares({"adj": 0.8})]).fit(X, SOME)
    assert never_rises(after)
    assert abs(share_of(after, "adj") - 0.8) < 0.25 * abs(share_of(before, "adj") - 0.8)


def test_shares_alone_are_enough_where_classes_are_declared():
    expected = [LabelShares({"adj": 0.7, "noun": 0.2})]
    crf = chain(classes=["adj", "noun", "verb"], expectations=expected).fit(X, [None] * len(X))
    assert share_of(crf, "adj") == pytest.approx(0.7, abs=0.1)


def test_each_of_several_labels_has_a_share():
    inputs, table = labelled_instances(40)
    table = table[:, :3].astype(float)
    table[10:] = np.nan
    settings = PartialLabels(expectations=[LabelShares({0: 0.9, 2: 0.8})])
    crf = MultiLabelCRF("linear", label_graph=[(0, 1), (1, 2), (0, 2)], partial_labels=settings, **SETTINGS)
    crf.fit(inputs, table)
    shares = np.asarray(crf.predict_proba(inputs)).mean(axis=0)
    assert shares[[0, 2]] == pytest.approx([0.9, 0.8], abs=0.1)
    with pytest.raises(ValueError, match="names the unknown label 7"):
        crf.set_params(partial_labels=PartialLabels(expectations=[LabelShares({7: 0.9})])).fit(inputs, table)


def test_a_callback_may_stop_the_first_fit():
    crf = chain(expectations=[LabelShares({"adj": 0.8})]).set_params(callbacks=[lambda iteration: True])
    assert crf.fit(X, SOME).solution_.reason == "callback"


def interrupting(iteration):
    if iteration.iteration == 1:
        raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:fit was interrupted")
def test_an_interrupt_of_the_first_fit_ends_both():
    crf = chain(expectations=[LabelShares({"adj": 0.8})]).set_params(callbacks=[interrupting])
    assert crf.fit(X, SOME).solution_.reason == "interrupted"
    assert crf.solution_.iterations == 0


BAD = [
    ({"expectations": LabelShares({"adj": 0.5})}, "must be a list of LabelShares"),
    ({"expectations": ["adj"]}, "must be a list of LabelShares"),
    ({"expectations": [LabelShares({})]}, "needs a dict"),
    ({"expectations": [LabelShares({"adj": -0.1})]}, "must be between 0 and 1"),
    ({"expectations": [LabelShares({"adj": "half"})]}, "must be between 0 and 1"),
    ({"expectations": [LabelShares({"adj": 0.6, "noun": 0.6})]}, "add up to 1.2, which is more than one"),
    ({"expectations": [LabelShares({"adj": 0.2, "noun": 0.2, "verb": 0.2})]}, "names every label"),
    ({"expectations": [LabelShares({"adj": 0.2, ("adj", "verb"): 0.2})]}, "names 'adj' twice"),
    ({"expectations": [LabelShares({"adv": 0.2})]}, "LabelShares names the unknown label 'adv'"),
    ({"expectations": [LabelShares({"adj": 0.2}, weight=-1.0)]}, "weight of LabelShares must be"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings_are_refused_in_a_line(settings, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        chain(**settings).fit(X, SOME)
    assert "\n" not in str(caught.value)


def test_nothing_known_and_nothing_expected_is_refused():
    crf = chain(classes=["adj", "noun"])
    with pytest.raises(ValueError, match="label some positions, or say what is expected"):
        crf.fit(X, [None] * len(X))


def test_approximate_inference_is_refused():
    settings = PartialLabels(expectations=[LabelShares({1: 0.9})])
    crf = GraphCRF("linear", inference="trw", partial_labels=settings, **SETTINGS)
    with pytest.raises(ValueError, match="need exact inference"):
        crf.fit(RING[:2], [[0, 1, 1], None])


def test_solvers_that_need_a_hessian_are_refused():
    with pytest.raises(ValueError, match="use 'lbfgs'"):
        chain(expectations=[LabelShares({"adj": 0.5})]).set_params(solver="newton").fit(X, SOME)


def test_what_knows_labels_only_is_refused():
    crf = chain(expectations=[LabelShares({"adj": 0.5})]).fit(X, SOME)
    for method in (crf.certify, crf.laplace):
        with pytest.raises(ValueError, match="takes labels only"):
            method(X, SOME)
    with pytest.raises(ValueError, match="optimize takes labels only"):
        crf.fit(X, SOME, optimize="evidence")


def test_shares_of_single_labels_count_inputs_without_labels():
    """Inputs of which nothing is known drop out of the likelihood of labels, and of nothing else."""
    random = np.random.default_rng(0)
    X, unlabelled = random.normal(size=(12, 2)), random.normal(size=(30, 2)) + 1.0
    y = (X[:, 0] > 0).astype(int)
    shares = LabelShares({1: 0.7}, weight=20.0)
    settings = PartialLabels(expectations=[shares])
    model = KernelClassifier("linear", prior_variance=1.0, scale=False, partial_labels=settings)
    every = np.vstack([X, unlabelled])
    model.fit(every, [*y, *[None] * len(unlabelled)])
    logs = model.predict_log_proba(every)
    wanted, means = np.array([0.3, 0.7]), np.exp(logs).mean(axis=0)
    value = sum(float((table**2).sum()) for table in model.coef_.values()) / 2
    value -= logs[np.arange(12), y].sum()
    value += 20.0 * wanted @ (np.log(wanted) - np.log(means))
    assert model.solution_.value == pytest.approx(value, rel=1e-9)


def test_shares_of_labels_that_do_not_meet_count_those_that_are_missing():
    X, Y = labelled_instances(40)
    gaps = np.where(np.random.default_rng(0).random(Y.shape) < 0.4, np.nan, Y)
    settings = PartialLabels(expectations=[LabelShares({0: 0.9}, weight=1e4)])
    model = MultiLabelCRF("linear", label_graph="none", prior_variance=10.0, partial_labels=settings).fit(X, gaps)
    assert model.predict_proba(X)[:, 0].mean() == pytest.approx(0.9, abs=0.01)


def test_warm_starts_go_on_from_the_coefficients():
    crf = chain(expectations=[LabelShares({"adj": 0.8})]).set_params(warm_start=True).fit(X, SOME)
    value = crf.solution_.value
    crf.fit(X, SOME)
    assert crf.solution_.history[0].value == pytest.approx(value, rel=1e-6)
