"""Every parameter of every field, changed before a warm start: obeyed, or refused in one line that names it.

Kernels have explicit features, so that the basis of a fit that goes on is that of one that begins: where a parameter is
obeyed, both end at the same optimum, with the same answers.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    FrameCRF,
    GraphCRF,
    GraphFactors,
    KernelClassifier,
    LabelDictionary,
    MultiLabelCRF,
    NodeCliques,
    PartialLabels,
    RingCRF,
    SegmentCRF,
)
from kernelfields.data import DurationCliques, GraphNodes, LabelSymmetry
from kernelfields.engines import Threads
from kernelfields.inference import LoopyBelief
from kernelfields.kernels import RBF
from tests.samples import labelled_instances, labelled_sequences

X, Y = labelled_sequences(16, seed=3)
# Of the fit that goes on: other inputs, fewer of them, and labels that end with 0 and never rise.
X2, Y2 = X[:11], [np.append(np.sort(labels[1:])[::-1], 0) for labels in Y[:11]]
ROWS, ROWS2 = (np.concatenate(X), np.concatenate(Y)), (np.concatenate(X2), np.concatenate(Y2))
INSTANCES, INDICATOR = labelled_instances(60)
TIGHT = {"tol": 1e-11, "max_iter": 3000, "prior_variance": 1.0, "scale": False, "random_state": 0}
TURN = LabelSymmetry({0: 1, 1: 2, 2: 0}, [1, 2, 0])
RISES = [(0, 1), (0, 2), (1, 2)]


def graphs(X):
    return [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]


def seen(iteration):
    """Let a fit go on."""


REFUSED = object()
#: What each parameter is changed to, and whether a warm start obeys; for all fields.
SOLVED = {
    "tol": 1e-10,
    "max_iter": 2999,
    "dtype": "float64",
    "n_jobs": 1,
    "random_state": 7,
    "verbose": 0,
    "callbacks": [seen],
    "engine": Threads(memory="1GB"),
    "solver": "lbfgs",
    "warm_start": True,
}
OF_FIELDS = {
    **SOLVED,
    "prior_variance": 0.2,
    "kernel": (REFUSED, RBF(0.5)),
    "rank": (REFUSED, 17),
    "basis": (REFUSED, "uniform"),
    "scale": (REFUSED, True),
}
PARTIAL = {"partial_labels": PartialLabels()}
OF_SEQUENCES = {
    **OF_FIELDS,
    **PARTIAL,
    "window": (REFUSED, 3),
    "edges": EdgeCliques(prior_variance=0.3),
    "constraints": {"transitions": RISES, "end": [1, 2]},
    "decode": "viterbi",
    "allowed": LabelDictionary(0, min_count=10**6, unknown=[0, 2], entries={float(X[0][0, 0]): [1]}),
    "ties": (REFUSED, TURN),
    "features": (REFUSED, PolynomialFeatures(2)),
}
OF_CHAINS = {
    **OF_SEQUENCES,
    "support": (REFUSED, "observed"),
    "l1": (REFUSED, 0.3),
    "cliques": (REFUSED, [NodeCliques("linear"), EdgeCliques("linear")]),
}
#: Fields, data of the first fit and of the second, and what becomes of their parameters.
FIELDS = {
    "ChainCRF": (ChainCRF("linear", **TIGHT), (X, Y), (X2, Y2), OF_CHAINS),
    "RingCRF": (
        RingCRF("linear", **TIGHT),
        ([x[:4] for x in X if len(x) > 3], [y[:4] for y in Y if len(y) > 3]),
        ([x[:4] for x in X2 if len(x) > 3], [np.full(4, len(y) % 3) for y in Y2 if len(y) > 3]),
        OF_CHAINS | {"constraints": RISES},
    ),
    "SegmentCRF": (
        SegmentCRF("linear", durations=DurationCliques("linear"), max_duration=6, **TIGHT),
        (X, Y),
        (X2, Y2),
        OF_SEQUENCES
        | {"durations": (REFUSED, DurationCliques("linear", shared=True)), "max_duration": 7, "repeats": True}
        | {"min_duration": {0: 1, 1: 1}},
    ),
    "GraphCRF": (
        GraphCRF("linear", neighbours=False, **TIGHT),
        (graphs(X), Y),
        (graphs(X2), Y2),
        {
            **OF_FIELDS,
            **PARTIAL,
            "edges": GraphFactors(prior_variance=0.3),
            "cliques": (REFUSED, [GraphNodes("linear")]),
            "constraints": {"transitions": RISES},
            "inference": "junction",
            "decode": "viterbi",
            "ties": (REFUSED, TURN),
            "neighbours": (REFUSED, True),
        },
    ),
    "KernelClassifier": (
        KernelClassifier("linear", **TIGHT),
        ROWS,
        ROWS2,
        {**OF_FIELDS, **PARTIAL, "bias": (REFUSED, False), "class_weight": {0: 2.0}, "ties": (REFUSED, TURN)},
    ),
    "MultiLabelCRF": (
        MultiLabelCRF("linear", **TIGHT),
        (INSTANCES[:40], INDICATOR[:40]),
        (INSTANCES[10:], INDICATOR[10:]),
        {
            **OF_FIELDS,
            **PARTIAL,
            "label_graph": (REFUSED, "tree"),
            "edges": EdgeCliques(prior_variance=0.3),
            "bias_prior_variance": 0.4,
            "inference": "junction",
            "decision": "subset",
        },
    ),
}
CASES = [(name, parameter) for name, (*_, changes) in FIELDS.items() for parameter in changes]
#: Changes beyond one for each parameter, all of them refused.
MORE = [
    ("ChainCRF", {"window": "statistics"}),
    ("ChainCRF", {"kernel": "auto"}),
    ("ChainCRF", {"prior_variance": "auto"}),
    ("ChainCRF", {"scale": "auto"}),
    ("ChainCRF", {"edges": EdgeCliques("linear")}),
    ("ChainCRF", {"edges": EdgeCliques(label_kernel=np.eye(9))}),
    ("ChainCRF", {"partial_labels": PartialLabels(classes=[0, 1, 2, 3])}),
    ("SegmentCRF", {"max_duration": None}),
    ("SegmentCRF", {"durations": None}),
    ("GraphCRF", {"edges": GraphFactors(symmetric=True)}),
    ("MultiLabelCRF", {"bias_prior_variance": None}),
    ("MultiLabelCRF", {"edges": EdgeCliques("linear")}),
    ("MultiLabelCRF", {"kernel": "rbf"}),
]


def first_fit(name):
    model, first, second, _ = FIELDS[name]
    return clone(model).set_params(warm_start=True).fit(*first), second


def marginals(model, X):
    ask = getattr(model, "predict_proba", None) or model.predict_marginals
    return np.concatenate([np.ravel(each) for each in ask(X)])


def labels(model, X):
    return np.concatenate([np.ravel(each) for each in model.predict(X)])


def assert_refused(model, data, change):
    model.set_params(**change)
    before = model.solution_
    with pytest.raises(ValueError, match="set warm_start=False to start afresh") as error:
        model.fit(*data)
    message, (parameter,) = str(error.value), change
    assert parameter in message
    assert "\n" not in message
    assert model.solution_ is before


@pytest.mark.parametrize("name", FIELDS)
def test_every_parameter_has_a_case(name):
    model, _, _, changes = FIELDS[name]
    assert set(changes) == set(model.get_params(deep=False))


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_warm_start_obeys_a_parameter_or_refuses_it(name, parameter):
    change = FIELDS[name][3][parameter]
    warm, second = first_fit(name)
    if isinstance(change, tuple) and change[0] is REFUSED:
        assert_refused(warm, second, {parameter: change[1]})
        return
    warm.set_params(**{parameter: change}).fit(*second)
    fresh = clone(FIELDS[name][0]).set_params(**{parameter: change}).fit(*second)
    assert warm.solution_.value == pytest.approx(fresh.solution_.value, rel=1e-8)
    np.testing.assert_allclose(marginals(warm, second[0]), marginals(fresh, second[0]), atol=1e-4)
    np.testing.assert_array_equal(labels(warm, second[0]), labels(fresh, second[0]))


@pytest.mark.parametrize(("name", "change"), MORE, ids=lambda case: str(case)[:60])
def test_a_warm_start_refuses_what_it_cannot_do(name, change):
    warm, second = first_fit(name)
    assert_refused(warm, second, change)


def test_l1_may_change_where_weights_are_those_of_single_labels():
    model = ChainCRF("linear", l1=0.5, **TIGHT)
    warm = clone(model).set_params(warm_start=True).fit(X, Y).set_params(l1=0.1).fit(X2, Y2)
    fresh = clone(model).set_params(l1=0.1).fit(X2, Y2)
    assert warm.solution_.value == pytest.approx(fresh.solution_.value, rel=1e-6)


def test_what_was_set_back_goes_on():
    warm, second = first_fit("ChainCRF")
    assert_refused(warm, second, {"scale": True})
    assert warm.set_params(scale=False).fit(*second).solution_.converged


def test_a_file_keeps_what_parameters_were_in_the_fit(tmp_path):
    warm, second = first_fit("ChainCRF")
    warm.set_params(scale=True).save(tmp_path / "changed.kfm")
    assert_refused(ChainCRF.load(tmp_path / "changed.kfm"), second, {"scale": True})


# ---- what a fit learns beside its coefficients


def rare_events(n=150):
    random = np.random.default_rng(0)
    X = [random.normal(size=(10, 2)) for _ in range(n)]
    return X, [["r" if b > 1.5 and random.random() < 0.4 else "bc"[int(a > 0)] for a, b in x] for x in X]


@pytest.mark.slow
def test_thresholds_are_learnt_by_the_fit_whose_decode_needs_them():
    data = rare_events()
    model = ChainCRF("linear", prior_variance=1.0, scale=False, random_state=0, warm_start=True)
    fresh = clone(model).set_params(decode="f1").fit(*data)
    assert fresh.thresholds_
    warm = clone(model).fit(*data).set_params(decode="f1")
    with pytest.raises(ValueError, match="decode='f1' takes thresholds that a fit with decode='f1' learns"):
        warm.predict(data[0])
    warm.fit(*data)
    assert warm.thresholds_ == fresh.thresholds_
    assert [list(own) for own in warm.predict(data[0])] == [list(own) for own in fresh.predict(data[0])]
    # Those of a fit before the last one are none of it.
    warm.set_params(decode="posterior").fit(*data).set_params(decode="f1")
    with pytest.raises(ValueError, match="decode='f1' takes thresholds"):
        warm.score(*data)


def test_a_threshold_of_several_labels_is_learnt_by_the_fit_whose_decision_needs_it():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(300, 3))
    indicator = (inputs + random.normal(size=(300, 3)) > [0.0, 1.5, 2.0]).astype(int)
    model = MultiLabelCRF("linear", decision="hamming", prior_variance=1.0, random_state=0, warm_start=True)
    fresh = clone(model).set_params(decision="f1").fit(inputs, indicator)
    assert fresh.threshold_ < 0.5
    warm = clone(model).fit(inputs, indicator).set_params(decision="f1")
    with pytest.raises(ValueError, match="decision='f1' takes a threshold that a fit with it learns"):
        warm.predict(inputs)
    assert warm.fit(inputs, indicator).threshold_ == pytest.approx(fresh.threshold_)
    np.testing.assert_array_equal(warm.predict(inputs), fresh.predict(inputs))


# ---- tables


def table(X, Y, order="uvw"):
    own = pd.DataFrame(np.concatenate(X), columns=list("uvw"))[list(order)]
    own["sequence"] = np.repeat(np.arange(len(X)), [len(x) for x in X])
    return own.assign(label=np.concatenate(Y))


def test_columns_of_a_table_are_found_by_name_in_a_fit_that_goes_on():
    model = FrameCRF(ChainCRF("linear", warm_start=True, **TIGHT)).fit(table(X, Y))
    plain = clone(model).fit(table(X, Y)).fit(table(X2, Y2))
    model.fit(table(X2, Y2, "wuv")[["label", "w", "v", "sequence", "u"]])
    np.testing.assert_array_equal(model.estimator_.coef_["node"], plain.estimator_.coef_["node"])
    assert list(model.feature_names_in_) == ["u", "v", "w"]
    model.set_params(sequence="id", label="said").fit(table(X2, Y2).rename(columns={"sequence": "id", "label": "said"}))
    np.testing.assert_array_equal(model.estimator_.coef_["node"], plain.fit(table(X2, Y2)).estimator_.coef_["node"])


@pytest.mark.parametrize(
    ("change", "given", "words"),
    [
        ({}, table(X2, Y2).assign(more=1.0), "goes on with the features of the fit, 'u', 'v', 'w', and they are now"),
        ({"features": ["u", "v"]}, table(X2, Y2), "and they are now 'u', 'v': name them by"),
        ({"estimator": SegmentCRF(warm_start=True)}, table(X2, Y2), "goes on from a fitted ChainCRF"),
        ({"estimator__kernel": "rbf"}, table(X2, Y2), "kernel of 'node'"),
    ],
)
def test_a_table_with_other_features_is_refused(change, given, words):
    model = FrameCRF(ChainCRF("linear", warm_start=True, **TIGHT)).fit(table(X, Y)).set_params(**change)
    with pytest.raises(ValueError, match="warm_start=False to start afresh") as error:
        model.fit(given)
    assert words in str(error.value)


# ---- approximate inference is another objective, which may change as well


def test_inference_may_change():
    model = GraphCRF("linear", neighbours=False, prior_variance=1.0, scale=False, random_state=0, warm_start=True)
    warm = model.fit(graphs(X), Y).set_params(inference=LoopyBelief(), tol=1e-3).fit(graphs(X2), Y2)
    assert warm.inference_.method == "loopy"
