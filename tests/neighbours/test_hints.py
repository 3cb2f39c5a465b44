"""Names that other packages have: advice in one line, and nothing else changes for scikit-learn."""

import copy
import inspect
import pickle
import re

import pytest
from sklearn.base import clone

from kernelfields import (
    ChainCRF,
    ExponentialFamilyDensity,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    RingCRF,
    SegmentCRF,
)
from kernelfields.models.hints import ATTRIBUTES, PARAMETERS, advice
from tests.samples import labelled_instances, labelled_sequences

FIELDS = [ChainCRF, GraphCRF, MultiLabelCRF, KernelClassifier]
EVERY = [*FIELDS, FrameCRF, ExponentialFamilyDensity]


@pytest.mark.parametrize(
    ("cls", "name", "words"),
    [
        (ChainCRF, "C", "use prior_variance, .* It is the C of LogisticRegression"),
        (KernelClassifier, "C", "use prior_variance"),
        (GraphCRF, "gamma", r"kernel=kernelfields\.kernels\.RBF\(gamma="),
        (ChainCRF, "algorithm", r"use solver, .*kernelfields\.compat\.CRF"),
        (ChainCRF, "c1", "use l1=c1"),
        (GraphCRF, "l1", r"use cliques=\[GraphNodes\('linear', l1="),
        (KernelClassifier, "c1", "an l1 penalty is one of ChainCRF, and of clique sets"),
        (SegmentCRF, "label_kernel", "label kernels are those of clique sets"),
        (ChainCRF, "max_iterations", "use max_iter"),
        (ChainCRF, "n_components", "learnt from y"),
        (GraphCRF, "inference_method", "use inference"),
        (MultiLabelCRF, "optimizer", "optimize='evidence'"),
        (ChainCRF, "optimize", r"fit\(X, y, optimize='evidence'\)"),
        (KernelClassifier, "fit_intercept", "bias=False"),
        (FrameCRF, "kernel", r"FrameCRF\(ChainCRF\(kernel="),
        (FrameCRF, "id", "use sequence"),
        (ExponentialFamilyDensity, "bandwidth", "gamma of"),
        (ChainCRF, "prior_varience", r"did you mean 'prior_variance'\?"),
        (SegmentCRF, "edge_kernel", r"use edges=EdgeCliques\(kernel\)"),
        (MultiLabelCRF, "edge_prior_variance", r"use edges=EdgeCliques\(prior_variance="),
        (GraphCRF, "symmetric", r"use edges=GraphFactors\('auto', symmetric=True\)"),
        (ChainCRF, "nonsense", r"help\(ChainCRF\) lists those there are"),
    ],
)
def test_parameters_of_others(cls, name, words):
    with pytest.raises(TypeError, match=f"^{cls.__name__} has no parameter '{name}': .*{words}"):
        cls(**{name: 1})


def test_parameters_of_others_in_a_search():
    with pytest.raises(ValueError, match="ChainCRF has no parameter 'C': use prior_variance"):
        ChainCRF().set_params(C=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        ChainCRF().set_params(nonsense=1.0)
    assert ChainCRF().set_params(tol=0.1, kernel="linear").tol == 0.1


@pytest.mark.parametrize(
    ("cls", "name", "words"),
    [
        (GraphCRF, "predict_log_proba", r"predict_marginals\(X\) gives one array of probabilities per graph"),
        (GraphCRF, "decision_function", "predict_marginals"),
        (MultiLabelCRF, "predict_log_proba", r"np\.log\(predict_proba\(X\)\)"),
        (ChainCRF, "feature_importances_", r"weights\(\)"),
        (ChainCRF, "transmat_", "transitions_"),
        (KernelClassifier, "support_vectors_", "basis_"),
        (FrameCRF, "coef_", r"estimator_\.coef_"),
    ],
)
def test_attributes_of_others(cls, name, words):
    estimator = cls()
    assert not hasattr(estimator, name)
    with pytest.raises(AttributeError, match=f"^{cls.__name__} has no {name}: .*{words}"):
        getattr(estimator, name)


def test_what_python_and_properties_say_stays():
    X, y = labelled_sequences()
    field = ChainCRF("linear").fit(X, y)
    with pytest.raises(AttributeError, match="'ChainCRF' object has no attribute 'nonsense'"):
        _ = field.nonsense
    with pytest.raises(AttributeError, match="this field was fitted on arrays, whose columns have no names"):
        _ = field.feature_names_in_
    ring = GraphCRF("linear", inference="loopy").fit(
        [(x[:3], [[0, 1], [1, 2], [2, 0]]) for x in X[:3]], [[0, 1, 2]] * 3
    )
    with pytest.raises(AttributeError, match="no certificate: the labels were inferred by 'loopy'"):
        _ = ring.certificate_


@pytest.mark.parametrize("cls", EVERY)
def test_classes_stay_those_of_scikit_learn(cls):
    names = list(inspect.signature(cls).parameters)
    assert sorted(names) == cls._get_param_names()
    assert not set(names) & {"arguments", "settings"}
    estimator = cls()
    for twin in (
        clone(estimator),
        copy.copy(estimator),
        copy.deepcopy(estimator),
        pickle.loads(pickle.dumps(estimator)),
    ):
        assert twin.get_params() == estimator.get_params()


def test_classes_derived_from_ours_may_take_other_names():
    class Wide(ChainCRF):
        def __init__(self, **settings):
            super().__init__(**{name: value for name, value in settings.items() if name != "C"})

    assert Wide(C=1.0, tol=0.5).tol == 0.5
    with pytest.raises(TypeError, match="Wide has no parameter 'gamma'"):
        Wide(gamma=1.0)


#: Names of our own that advice may speak of.
OWN = re.compile(
    r"\b(predict\w*|log_likelihood|(?:weights|explain)(?=\()|laplace|transitions_|basis_|coef_|solution_)(?=[ (\[:]|$)"
)


def test_advice_names_what_there_is():
    """No class is told to use a method, an attribute or a parameter that it has not."""
    X, y = labelled_sequences()
    rows, labels = labelled_instances()
    for field in (
        ChainCRF("linear").fit(X, y),
        GraphCRF("linear").fit([(x, []) for x in X], y),
        MultiLabelCRF("linear", random_state=0).fit(rows, labels),
        KernelClassifier(random_state=0).fit(rows, labels[:, 0]),
    ):
        cls, parameters = type(field), type(field)._get_param_names()
        attributes = [name for name in ATTRIBUTES if not hasattr(field, name)]
        told = [advice(ATTRIBUTES, cls, name) for name in attributes]
        told += [advice(PARAMETERS, cls, name) for name in PARAMETERS if name not in parameters]
        missing = {name for words in told for name in OWN.findall(words) if not hasattr(field, name)}
        assert not missing, (cls, missing)
        for name in set(PARAMETERS) - set(parameters):
            used = re.match(r"use (\w+)", advice(PARAMETERS, cls, name))
            assert used is None or used[1] in [*parameters, "GridSearchCV"], (cls, name)


def test_constraints_are_those_of_labels_that_meet():
    for kind in (KernelClassifier, MultiLabelCRF):
        with pytest.raises(TypeError, match="rows have no neighbours whose labels could be forbidden"):
            kind(constraints="bio")
    for kind in (ChainCRF, RingCRF, SegmentCRF, GraphCRF):
        assert kind(constraints="bio").constraints == "bio"
