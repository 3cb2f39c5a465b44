"""Labels that share weights: fits are those on data moved by the whole group, answers move with the inputs."""

from itertools import chain

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    FieldSearchCV,
    GraphCRF,
    GraphFactors,
    KernelClassifier,
    NodeCliques,
    RingCRF,
    SegmentCRF,
    SkipCliques,
    load,
)
from kernelfields.data import LabelSymmetry, repeated_columns
from kernelfields.kernels import RBF, Polynomial
from kernelfields.selection import StructureSearch

# Three labels that turn, with three columns, and one that stays, with a column of its own.
TURN = {"a": "b", "b": "c", "c": "a"}
COLUMNS = [1, 2, 0, 3]
SYMMETRY = LabelSymmetry(TURN, COLUMNS)
LABELS = ["a", "b", "c", "o"]
EXACT = {"tol": 1e-12, "scale": False, "dtype": "float64", "random_state": 0}


def moved_inputs(X):
    """Return inputs (n, 4) after one turn."""
    moved = np.empty_like(X)
    moved[:, COLUMNS] = X
    return moved


def moved_labels(y):
    return [TURN.get(label, label) for label in y]


def positions(random, n):
    y = [LABELS[place] for place in random.integers(4, size=n)]
    X = random.normal(size=(n, 4))
    X[np.arange(n), [LABELS.index(label) for label in y]] += 1.5
    return X, y


def sequences(seed=0, n=8, length=6):
    random = np.random.default_rng(seed)
    return [list(each) for each in zip(*[positions(random, length) for _ in range(n)], strict=True)]


def graphs(seed=0, n=6, size=5):
    """Return trees whose edges have two features, the first of which is a number that no turn changes."""
    random, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        inputs, labels = positions(random, size)
        edges = np.array([[random.integers(v), v] for v in range(1, size)])
        X.append((inputs, edges, random.normal(size=(len(edges), 2))))
        y.append(labels)
    return X, y


class Sequences:
    """How data of an estimator are made and moved."""

    make = staticmethod(sequences)

    @staticmethod
    def move(X):
        return [moved_inputs(x) for x in X]

    @staticmethod
    def move_labels(y):
        return [moved_labels(labels) for labels in y]

    @staticmethod
    def marginals(model, X):
        return np.concatenate(model.predict_marginals(X))


class Trees(Sequences):
    make = staticmethod(graphs)

    @staticmethod
    def move(X):
        return [(moved_inputs(x), edges, features) for x, edges, features in X]


class Rows(Sequences):
    @staticmethod
    def make(seed=0):
        return positions(np.random.default_rng(seed), 40)

    move = staticmethod(moved_inputs)
    move_labels = staticmethod(moved_labels)

    @staticmethod
    def marginals(model, X):
        return model.predict_proba(X)


CASES = {
    "chain": (Sequences, lambda **own: ChainCRF("linear", window=3, **own)),
    "chain of pivots": (Sequences, lambda **own: ChainCRF(RBF(0.3), rank=None, **own)),
    "edges that see inputs": (Sequences, lambda **own: ChainCRF("linear", edges=EdgeCliques("linear"), **own)),
    "ring": (Sequences, lambda **own: RingCRF("linear", **own)),
    "segments": (Sequences, lambda **own: SegmentCRF("linear", max_duration=4, **own)),
    "trees": (Trees, lambda **own: GraphCRF("linear", **own)),
    "edges without direction": (Trees, lambda **own: GraphCRF("linear", edges=GraphFactors(symmetric=True), **own)),
    "rows": (Rows, lambda **own: KernelClassifier(RBF(0.3), rank=None, **own)),
    # Fifteen functions, of which orbits of three bring more sums, or more differences, than there are.
    "chain of finite rank": (Sequences, lambda **own: ChainCRF(Polynomial(2), rank=None, **own)),
    "rows of finite rank": (Rows, lambda **own: KernelClassifier(Polynomial(2), basis="all", **own)),
}


def permutation(model):
    labels = list(model.classes_)
    return [labels.index(label) for label in moved_labels(labels)]


@pytest.fixture(params=CASES)
def case(request):
    kind, make = CASES[request.param]
    return kind, make


def test_is_the_fit_to_data_moved_by_the_group(case):
    kind, make = case
    X, y = kind.make()
    tied = make(ties=SYMMETRY, prior_variance=0.7, **EXACT).fit(X, y)
    moved = [(X, y)]
    for _ in range(2):
        moved.append((kind.move(moved[-1][0]), kind.move_labels(moved[-1][1])))
    inputs, labels = zip(*moved, strict=True)
    every = np.vstack(inputs) if kind is Rows else [*chain(*inputs)]
    weights = np.full(3 * len(X), 1 / 3)
    free = make(prior_variance=0.7, **EXACT).fit(every, [*chain(*labels)], sample_weight=weights)
    assert free.solution_.value == pytest.approx(tied.solution_.value, abs=1e-7)
    new, _ = kind.make(seed=1)
    np.testing.assert_allclose(kind.marginals(tied, new), kind.marginals(free, new), atol=2e-6)


def test_answers_move_with_the_inputs(case):
    kind, make = case
    model = make(ties=SYMMETRY, prior_variance=0.7, **EXACT | {"tol": 1e-3}).fit(*kind.make())
    X, _ = kind.make(seed=1)
    there = kind.marginals(model, kind.move(X))[:, permutation(model)]
    np.testing.assert_allclose(there, kind.marginals(model, X), atol=1e-10)


def test_certificates_hold(case):
    kind, make = case
    X, y = kind.make()
    tight = make(ties=SYMMETRY, prior_variance=0.7, **EXACT).fit(X, y)
    rough = make(ties=SYMMETRY, prior_variance=0.7, **EXACT | {"tol": 0.05}).fit(X, y)
    for model in (tight, rough):
        span, whole = model.certify(X, y, scope="span"), model.certify(X, y)
        assert span.value == pytest.approx(model.solution_.value, rel=1e-9)
        for certificate in (span, whole, model.certificate_, model.rkhs_certificate_):
            assert certificate.lower_bound <= tight.solution_.value * (1 + 1e-9)
    assert tight.certify(X, y, scope="span").relative_gap < 1e-8
    # Pivots are all inputs and what ties make of them: nothing lies outside their span.
    assert tight.certify(X, y).relative_gap < 1e-6


def test_weights_are_those_of_all_labels():
    crf = ChainCRF("linear", ties=SYMMETRY, prior_variance=0.7, **EXACT).fit(*sequences())
    weights, transitions = crf.coef_["node"], crf.transitions_
    turned = permutation(crf)
    np.testing.assert_allclose(weights[np.ix_(COLUMNS, turned)], weights, atol=1e-12)
    np.testing.assert_allclose(transitions[np.ix_(turned, turned)], transitions, atol=1e-12)
    # Of columns that turn with labels that turn and with the one that stays; of the last column with both.
    assert len(np.unique(np.round(weights, 10))) == 3 + 1 + 1 + 1
    np.testing.assert_array_equal(crf.weights().transitions, transitions)


def test_explanations_name_inputs_and_where_ties_have_moved_them():
    X, y = sequences()
    crf = ChainCRF(RBF(0.3), ties=SYMMETRY, rank=None, prior_variance=0.7, **EXACT | {"tol": 1e-3}).fit(X, y)
    assert "moved by ties" in str(crf.explain(X[0], neighbours=30))


def test_sparse_inputs_and_columns_that_training_lacks():
    X, y = sequences()
    for x in X:
        x[:, 2] = 0.0  # its weights are those of the columns that turn into it
    crf = ChainCRF("linear", ties=SYMMETRY, **EXACT | {"tol": 1e-6})
    sparse = clone(crf).fit([scipy.sparse.csr_array(x) for x in X], y)
    dense = crf.fit(X, y)
    np.testing.assert_allclose(sparse.coef_["node"], dense.coef_["node"], atol=1e-4)
    assert np.abs(dense.coef_["node"][2]).max() > 0.1
    new, _ = sequences(seed=1)
    rows = [scipy.sparse.csr_array(x) for x in new]
    moved = [scipy.sparse.csr_array(moved_inputs(x)) for x in new]
    there = np.concatenate(sparse.predict_marginals(moved))[:, permutation(sparse)]
    np.testing.assert_allclose(there, np.concatenate(sparse.predict_marginals(rows)), atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_model_files_and_warm_starts(tmp_path, kernel):
    X, y = sequences()
    crf = ChainCRF(kernel, ties=SYMMETRY, prior_variance=0.7, warm_start=True, **EXACT).fit(X, y)
    crf.save(tmp_path / "model.kf")
    again = load(tmp_path / "model.kf")
    assert again.ties == SYMMETRY
    np.testing.assert_array_equal(np.concatenate(again.predict_marginals(X)), np.concatenate(crf.predict_marginals(X)))
    assert again.certify(X, y, scope="span").relative_gap < 1e-8
    again.fit(X, y)
    assert again.solution_.iterations <= 2
    again.ties = LabelSymmetry({"a": "b", "b": "a"}, [1, 0, 2, 3])
    with pytest.raises(ValueError, match="ties was"):
        again.fit(X, y)


def test_names_of_columns_and_searches():
    pandas = pytest.importorskip("pandas")
    X, y = sequences()
    frames = [pandas.DataFrame(x, columns=["left", "right", "up", "still"]) for x in X]
    named = LabelSymmetry(TURN, {"left": "right", "right": "up", "up": "left"})
    crf = ChainCRF("linear", ties=named, prior_variance=0.7, **EXACT).fit(frames, y)
    same = ChainCRF("linear", ties=SYMMETRY, prior_variance=0.7, **EXACT).fit(X, y)
    np.testing.assert_allclose(crf.coef_["node"], same.coef_["node"], atol=1e-12)
    crf = ChainCRF("linear", ties=SYMMETRY, scale=False, tol=1e-3)
    search = FieldSearchCV(crf, prior_variances=[0.1, 1.0], cv=2).fit(X, y)
    assert search.best_estimator_.ties == SYMMETRY
    turned = permutation(search.best_estimator_)
    weights = search.best_estimator_.coef_["node"]
    np.testing.assert_allclose(weights[np.ix_(COLUMNS, turned)], weights, atol=1e-10)


def test_several_generators_and_names_of_features():
    """Four labels that turn by quarters, and are mirrored: the group of a square."""
    places = {"n": "e", "e": "s", "s": "w", "w": "n"}
    turn = LabelSymmetry(places, {f"go={a}": f"go={b}" for a, b in places.items()})
    mirror = LabelSymmetry({"e": "w", "w": "e"}, {"go=e": "go=w", "go=w": "go=e"})
    random, X, y = np.random.default_rng(0), [], []
    for _ in range(6):
        y.append([list(places)[place] for place in random.integers(4, size=5)])
        X.append([{f"go={label}": 1.0, "bias": 1.0} for label in y[-1]])
    crf = ChainCRF(ties=[turn, mirror], prior_variance=1.0).fit(X, y)
    numbers = np.round(crf.coef_["node"], 10)
    assert len(np.unique(numbers)) <= 4  # the same place, the next ones, the opposite one, and the constant
    assert len(np.unique(np.round(crf.transitions_, 10))) == 3


@pytest.mark.parametrize("scale", [True, "auto"])
def test_scales_of_columns_are_tied(scale):
    X, y = sequences()
    for x in X:
        x[:, 0] *= 5.0
        x[:, 3] *= 1000.0
    crf = ChainCRF("linear", ties=SYMMETRY, prior_variance=0.7, scale=scale).fit(X, y)
    assert crf.scale_
    there = np.concatenate(crf.predict_marginals(Sequences.move(X)))[:, permutation(crf)]
    np.testing.assert_allclose(there, np.concatenate(crf.predict_marginals(X)), atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_samples_of_the_posterior_are_tied(kernel):
    X, y = sequences(n=4)
    crf = ChainCRF(kernel, ties=SYMMETRY, prior_variance=0.7, **EXACT).fit(X, y)
    crf.laplace(X, y, n_samples=20, random_state=0)
    new = sequences(seed=1, n=2)[0]
    there = np.concatenate(crf.predict_variances(Sequences.move(new)))[:, permutation(crf)]
    np.testing.assert_allclose(there, np.concatenate(crf.predict_variances(new)), atol=1e-8)
    weights = crf.laplace_.samples[1]  # tables of steps
    steps = weights.reshape(len(weights), 4, 4)
    turned = permutation(crf)
    np.testing.assert_allclose(steps[:, turned][:, :, turned], steps, atol=1e-10)


WRONG = [
    (LabelSymmetry({"a": "b"}, COLUMNS), "none becomes 'a': two labels become the same one"),
    (LabelSymmetry({"a": "z", "z": "a"}, COLUMNS), "unknown label 'z'.*PartialLabels"),
    (LabelSymmetry(TURN, [1, 0]), r"a place for each of 4 columns, got shape \(2,\)"),
    (LabelSymmetry(TURN, [1, 1, 0, 3]), "must be a permutation of 0 to 3"),
    (LabelSymmetry(TURN, {0: 1}), "must be a permutation of 0 to 3"),
    (LabelSymmetry(TURN, {"left": 1}), "'left', which is no column: there are 0 to 3"),
    ([], "ties is an empty list"),
]


@pytest.mark.parametrize(("ties", "message"), WRONG)
def test_refuses_what_is_no_symmetry(ties, message):
    with pytest.raises(ValueError, match=message):
        ChainCRF("linear", ties=ties, scale=False).fit(*sequences())


@pytest.mark.parametrize("ties", [{"a": "b"}, LabelSymmetry(["a", "b"]), "chords"])
def test_refuses_what_is_no_label_symmetry(ties):
    with pytest.raises(TypeError, match="LabelSymmetry"):
        ChainCRF("linear", ties=ties).fit(*sequences())


REFUSED = [
    ({"kernel": "linear", "support": "observed"}, "'node' has support='observed'"),
    ({"kernel": "linear", "l1": 0.1}, "'node' has l1=0.1"),
    ({"cliques": [NodeCliques("linear", label_kernel=np.diag([1.0, 2.0, 3.0, 4.0]))]}, "label_kernel='delta'"),
    ({"kernel": "rbf", "basis": "gradient"}, "basis='gradient'"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_refuses_what_has_no_ties(settings, message):
    with pytest.raises(ValueError, match=message):
        ChainCRF(ties=SYMMETRY, **{"prior_variance": 1.0, **settings}).fit(*sequences())


def test_refuses_fits_that_need_other_coordinates():
    X, y = sequences()
    crf = ChainCRF("rbf", ties=SYMMETRY)
    with pytest.raises(ValueError, match="leave out ties"):
        clone(crf).partial_fit(X, y)
    with pytest.raises(ValueError, match="leave out ties"):
        clone(crf).fit(X, y, optimize="evidence")
    with pytest.raises(ValueError, match="a StructureSearch judges sets whose labels share no weights"):
        StructureSearch(crf, [SkipCliques()]).fit(X, y)


def test_refuses_kernels_that_see_columns_differently():
    def uneven(X, Z):
        return (X * [1.0, 2.0, 3.0, 4.0]) @ Z.T

    X, y = sequences()
    with pytest.raises(ValueError, match="changes when ties move the columns"):
        ChainCRF(uneven, ties=SYMMETRY, prior_variance=1.0, scale=False).fit(X, y)


def test_refuses_pivots_of_large_groups():
    labels = [f"l{number}" for number in range(8)]
    swap = LabelSymmetry({"l0": "l1", "l1": "l0"}, {0: 1, 1: 0})
    turn = LabelSymmetry({label: labels[(place + 1) % 8] for place, label in enumerate(labels)}, (np.arange(8) + 1) % 8)
    random = np.random.default_rng(0)
    y = [label for label in labels for _ in range(4)]
    X = np.eye(8)[np.repeat(np.arange(8), 4)] + random.normal(size=(32, 8))
    with pytest.raises(ValueError, match="more than 5,040 elements"):
        KernelClassifier("rbf", ties=[swap, turn], prior_variance=1.0, scale=False).fit(X, y)
    linear = KernelClassifier("linear", ties=[swap, turn], prior_variance=1.0, scale=False).fit(X, y)
    assert len(np.unique(np.round(linear.coef_["node"], 10))) == 2  # on the diagonal, and beside it


def test_blocks_of_columns():
    np.testing.assert_array_equal(repeated_columns([1, 2, 0], 2, 1), [1, 2, 0, 4, 5, 3, 6])
    with pytest.raises(ValueError, match="permutation"):
        repeated_columns([1, 1], 2)


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "lbfgs", "block-jacobi", "subspace", "sgd+lbfgs"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_solvers_agree(solver, kernel):
    X, y = sequences(n=4)
    crf = ChainCRF(kernel, ties=SYMMETRY, prior_variance=0.7, solver=solver, **EXACT | {"tol": 1e-7}).fit(X, y)
    best = ChainCRF(kernel, ties=SYMMETRY, prior_variance=0.7, solver="newton", **EXACT).fit(X, y)
    assert crf.solution_.value == pytest.approx(best.solution_.value, rel=1e-6)


def test_pivots_of_sparse_inputs():
    random = np.random.default_rng(0)
    X = scipy.sparse.csr_array(random.integers(0, 2, size=(40, 4)).astype(float))
    y = [LABELS[place] for place in random.integers(4, size=40)]
    model = KernelClassifier("rbf", ties=SYMMETRY, rank=12, prior_variance=1.0, scale=False).fit(X, y)
    assert model.basis_["node"].rank <= 12
    moved = scipy.sparse.csr_array(moved_inputs(X.toarray()))
    np.testing.assert_allclose(model.predict_proba(moved)[:, permutation(model)], model.predict_proba(X), atol=1e-10)
