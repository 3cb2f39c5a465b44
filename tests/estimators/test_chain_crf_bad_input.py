"""Wrong inputs and parameters: each error names what came, where, and what to do."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF, EdgeCliques, KernelClassifier, NodeCliques
from kernelfields.kernels import RBF, Precomputed
from tests.samples import labelled_sequences

X, y = labelled_sequences()
LENGTH = len(X[3])


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(random_state=0).fit(X, y)


def replaced(items, index, item):
    return [*items[:index], item, *items[index + 1 :]]


def spoilt(value):
    x = X[3].copy()
    x[1, 2] = value
    return replaced(X, 3, x)


def assert_says(error, words):
    for word in words:
        assert word in str(error.value), str(error.value)


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (replaced(X, 3, X[3][:0]), replaced(y, 3, []), ["sequence 3 has no rows", "remove empty sequences"]),
        ([], [], ["list of sequences", "at least one sequence is needed"]),
        (X, y[:-1], ["X has 10 sequences but y has 9"]),
        (
            X,
            replaced(y, 3, y[3][:-1]),
            [f"sequence 3 has {LENGTH} rows in X but {LENGTH - 1} labels", "None where it is not known"],
        ),
        (replaced(X, 3, X[3][:, :2]), y, ["sequence 3 has 2 features but sequence 0 has 3", "same columns"]),
        (replaced(X, 3, [[1.0, 2.0], [3.0]]), y, ["sequence 3", "different lengths"]),
        (
            spoilt(np.nan),
            y,
            [
                "sequence 3 holds nan in row 1, column 2: inputs must be finite",
                "NaN or infinity are in 1 row of X, in columns 2. ",
                "Impute or drop them: sklearn.impute.SimpleImputer",
                "within features.Sequencewise",
            ],
        ),
        (spoilt(np.inf), y, ["sequence 3 holds inf in row 1, column 2"]),
        ([sp.csr_array(x) for x in spoilt(np.nan)], y, ["sequence 3 holds nan in row 1, column 2"]),
        (replaced(X, 3, sp.csr_array(X[3])), y, ["sequence 3 is sparse but sequence 0 is dense", "toarray"]),
        (np.tri(3)[:, :, None], [[0, 1, 0]] * 3, ["looks padded", "lengths=[...]", "list(X)"]),
        (np.ones((3, 2, 4)), [[0, 1, 0, 1]] * 3, ["2 rows in X but 4 labels in y", "X.transpose(0, 2, 1)"]),
        (np.zeros((4, 2)), [0, 1, 0, 1], ["one ndarray of shape (4, 2)", "wrap it: [X]"]),
        (replaced(X, 3, X[3][:, 0]), y, ["sequence 3 has shape", "reshape(-1, 1)"]),
        ([np.array([["a", "b"]] * len(x)) for x in X], y, ["sequence 0 holds", "numbers are needed", "dicts"]),
        ([[b"word"] * len(x) for x in X], y, ["sequence 0 holds", "numbers are needed", "dicts"]),
        (X, [np.zeros(len(x), int) for x in X], ["one class only, 0", "at least two different labels"]),
        (X, replaced(y, 3, ["a"] * LENGTH), ["mix strings and numbers", "sequence 3"]),
        (X, replaced(y, 3, [0.5] * LENGTH), ["label 0.5 at sequence 3, position 0", "regression"]),
        (X, replaced(y, 3, [{"a": 0.0}] * LENGTH), ["no label has a positive weight at sequence 3, position 0"]),
        (X, np.concatenate(y), ["X has 10 sequences but y has"]),
        (X, ["label"] * len(X), ["sequence 0 of y is 'label'"]),
        (X, replaced(y, 3, np.eye(LENGTH)), ["sequence 3 of y has shape", "argmax"]),
    ],
)
def test_sequences_that_cannot_be_fitted(inputs, labels, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below
        ChainCRF().fit(inputs, labels)
    assert_says(error, words)


@pytest.mark.parametrize(("inputs", "labels"), [(3, y), (X, None), (X, 3), ({"a": 1}, y), (iter(X), y)])
def test_things_that_are_no_sequences(inputs, labels):
    with pytest.raises(TypeError, match="must be a list"):
        ChainCRF().fit(inputs, labels)


def by_distance(a, b):
    return -np.square(a[:, None] - b[None]).sum(axis=2)


def of_wrong_shape(a, b):
    return np.zeros((len(a), 1))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        *(({"prior_variance": value}, ["prior_variance", "a positive number", repr(value)]) for value in (
            0, -1.0, np.nan, "1", None, True
        )),
        ({"prior_variance": np.inf}, ["prior_variance of clique set 'node' must be finite", "RBF"]),
        (
            {"edges": EdgeCliques(prior_variance=0.0)},
            ["clique set 'edge': prior_variance must be a positive number (inf for no Gaussian prior), got 0.0"],
        ),
        *(({"rank": value}, ["rank", "at least 1 (or None for no limit)", repr(value)]) for value in (
            0, -3, 2.5, "10", True
        )),
        ({"rank": 0, "kernel": "linear"}, ["rank must be a whole number"]),
        *(({"tol": value}, ["tol must be a positive relative gap", repr(value)]) for value in (
            0, -1e-3, np.nan, "1e-3", None
        )),
        *(({"max_iter": value}, ["max_iter must be a whole number", repr(value)]) for value in (0, -1, 1.5, None)),
        ({"solver": "sgd"}, ["solver must be 'auto' or one of", "newton-cg", "'sgd'"]),
        ({"solver": 3}, ["solver must be 'auto' or one of", "3"]),
        ({"basis": "nystroem"}, ["basis must be", "random-cholesky", "'nystroem'"]),
        ({"kernel": "gauss"}, ["'rbf'", "unknown name 'gauss'"]),
        ({"edges": EdgeCliques("gauss")}, ["'rbf'", "unknown name 'gauss'"]),
        ({"kernel": RBF(gamma=-1.0)}, ["gamma must be a positive finite number", "-1.0"]),
        ({"kernel": None}, ["no clique set has a kernel"]),
        ({"kernel": by_distance}, ["by_distance", "not positive semi-definite", "eigenvalue"]),
        ({"kernel": of_wrong_shape}, ["of_wrong_shape", "must return shape"]),
        ({"window": 2}, ["window must be an odd", "for 2 positions use (1, 0)"]),
        ({"window": 0}, ["window must be an odd"]),
        ({"window": (1, -1)}, ["window", "(1, -1)"]),
        ({"n_jobs": 0}, ["n_jobs", "0"]),
        ({"n_jobs": 1.5}, ["n_jobs", "1.5"]),
        *(({"dtype": value}, ["dtype must be 'auto', 'float32' or 'float64'", repr(value)]) for value in (
            "float16", "int", "double-precision", None
        )),
        ({"dtype": "float16", "kernel": "linear"}, ["dtype must be 'auto'"]),
        ({"cliques": [NodeCliques("rbf", label_kernel="ordinal")]}, ["unknown label kernel 'ordinal'", "'delta'"]),
        ({"cliques": [NodeCliques("rbf", label_kernel=np.eye(2))]}, ["there are 3 labels", "(2, 2)"]),
        ({"cliques": [NodeCliques("rbf", label_kernel=-np.eye(3))]}, ["positive semi-definite"]),
        ({"random_state": "seed"}, ["random_state", "'seed'"]),
        ({"random_state": -1}, ["random_state", "-1"]),
        ({"constraints": [(0, 9)]}, ["unknown label 9 in 'transitions': known are 0, 1, 2"]),
    ],
)  # fmt: skip
def test_parameters_that_cannot_be_used(parameters, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below
        ChainCRF(**parameters).fit(X, y)
    assert_says(error, words)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kernel": RBF}, ["the class RBF. Write RBF()"]),
        ({"kernel": 3}, ["Expected a Kernel", "got 3"]),
        ({"edges": "linear"}, ["edges must be an EdgeCliques(...) or None, got 'linear'"]),
        ({"callbacks": print}, ["callbacks must be a list of functions"]),
        ({"callbacks": [3]}, ["callbacks must be a list of functions", "[3]"]),
        ({"cliques": [NodeCliques("rbf", label_kernel=3)]}, ["a label kernel is", "3"]),
        ({"constraints": 3}, ["transitions must be a collection", "3"]),
    ],
)
def test_parameters_of_the_wrong_type(parameters, words):
    with pytest.raises(TypeError) as error:
        ChainCRF(**parameters).fit(X, y)
    assert_says(error, words)


def test_a_precomputed_matrix_that_is_no_kernel():
    numbers = [np.array([[0.0], [1.0]])]
    with pytest.raises(ValueError, match=r"not positive semi-definite.*eigenvalue -1"):
        ChainCRF(Precomputed(np.array([[1.0, 2.0], [2.0, 1.0]]))).fit(numbers, [[0, 1]])
    with pytest.raises(ValueError, match="not symmetric"):
        ChainCRF(Precomputed(np.array([[1.0, 2.0], [0.0, 1.0]]))).fit(numbers, [[0, 1]])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0] * 3, ["one number per sequence, 10 here", "(3,)"]),
        ([-1.0] + [1.0] * 9, ["sample_weight[0] is -1.0"]),
        ([1.0] * 9 + [np.nan], ["sample_weight[9] is nan"]),
        ([0.0] * 10, ["zero for every sequence"]),
        ([np.ones(len(x)) for x in X], ["one number per sequence", "weigh whole sequences"]),
        ("heavy", ["one number per sequence"]),
    ],
)
def test_weights_that_cannot_be_used(crf, weights, words):
    for use in (ChainCRF().fit, crf.score):
        with pytest.raises(ValueError) as error:  # noqa: PT011  the words are compared below
            use(X, y, sample_weight=weights)
        assert_says(error, words)


def test_unknown_labels_after_fitting(crf):
    strange = replaced(y, 3, [1] * (LENGTH - 1) + [7])
    for ask in (crf.log_likelihood, crf.certify):
        with pytest.raises(
            ValueError, match=f"unknown label 7 at sequence 3, position {LENGTH - 1}: known are 0, 1, 2"
        ):
            ask(X, strange)
    for ask in (crf.score, crf.log_likelihood, crf.certify):
        with pytest.raises(ValueError, match="unknown label 'a' at sequence 0, position 0"):
            ask(X, [["a"] * len(x) for x in X])
        with pytest.raises(ValueError, match=f"sequence 3 has {LENGTH} rows in X but 1 labels in y"):
            ask(X, replaced(y, 3, [1]))


def test_other_inputs_than_those_fitted(crf):
    with pytest.raises(ValueError, match=r"X has 2 features per position.*fitted with 3"):
        crf.predict([x[:, :2] for x in X])
    with pytest.raises(ValueError, match=r"feature dicts, but this model was fitted on numeric arrays.*3 columns"):
        crf.predict([[{"a": 1.0}]])
    with pytest.raises(ValueError, match="sequence 3 holds nan"):
        crf.predict(spoilt(np.nan))
    dicts = ChainCRF("linear").fit([[{"a": 1.0}, {"b": 1.0}]], [[0, 1]])
    for inputs in (X, X[0]):
        with pytest.raises(ValueError, match="this model was fitted on feature dicts"):
            dicts.predict(inputs)
    with pytest.raises(TypeError, match=r"fitted on feature dicts.*sequence 0, position 1"):
        dicts.predict([[{"a": 1.0}, 3.0]])


def test_questions_that_cannot_be_answered(crf):
    with pytest.raises(ValueError, match="decode must be one of 'auto', 'viterbi', 'posterior', got 'beam'"):
        crf.predict(X, decode="beam")
    for k in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
            crf.predict_nbest(X, k)
        with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1 or None"):
            crf.sample(X, k)
    with pytest.raises(ValueError, match="random_state"):
        crf.sample(X, random_state="seed")


def test_a_refused_fit_leaves_the_old_one(crf):
    before = np.concatenate(crf.predict_marginals(X))
    with pytest.raises(ValueError, match="sequence 3 holds nan"):
        crf.fit(spoilt(np.nan), y)
    np.testing.assert_array_equal(np.concatenate(crf.predict_marginals(X)), before)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("gaussian", "got the unknown name 'gaussian': use 'rbf'$"),
        ("Gaussian", "got the unknown name 'Gaussian': use 'rbf'$"),
        ("precomputed", r"got the unknown name 'precomputed': kernels\.Precomputed\(matrix\)"),
        ("rfb", r"got the unknown name 'rfb': did you mean 'rbf'\?"),
        ("bessel", r"got the unknown name 'bessel'\.$"),
    ],
)
def test_names_of_kernels_that_other_packages_have(kernel, words):
    for estimator, data in ((ChainCRF(kernel), (X, y)), (KernelClassifier(kernel), (X[0], y[0]))):
        with pytest.raises(ValueError, match=words):
            estimator.fit(*data)


def test_minus_one_may_stand_for_labels_that_are_not_known():
    marked = [np.where(np.arange(len(labels)) % 3 == 0, -1, labels) for labels in y]
    rows, flat = np.vstack(X), np.concatenate(marked)
    for fit in (lambda: ChainCRF("linear").fit(X, marked), lambda: KernelClassifier("linear").fit(rows, flat)):
        with pytest.warns(UserWarning, match=r"y holds -1 beside the labels 0 to 2.*write None"):
            crf = fit()
        assert crf.classes_.tolist() == [-1, 0, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelClassifier("linear").fit(rows, np.where(flat > 0, 1, -1))


def test_rows_of_probabilities_are_targets():
    shares = [np.eye(3)[labels] for labels in y]
    words = r"SoftTargets\(y, classes=\[\.\.\.\]\)"
    with pytest.raises(ValueError, match=words):
        ChainCRF("linear").fit(X, shares)
    with pytest.raises(ValueError, match=words):
        KernelClassifier("linear").fit(np.vstack(X), np.vstack(shares))
