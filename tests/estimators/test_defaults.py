"""Defaults that follow the data: kernels, scales of columns, decodings; and what they leave in model files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF, EdgeCliques, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.kernels import RBF, Linear
from kernelfields.models.pilot_fit import Pilot
from kernelfields.models.position_loss import PositionLoss


def words(n_sequences=8):
    random = np.random.default_rng(0)
    X = [[{f"w{random.integers(5)}": 1.0} for _ in range(6)] for _ in range(n_sequences)]
    return X, [[int("w1" in each) for each in sequence] for sequence in X]


def readings(n_sequences=12, length=25, factors=(1.0, 1.0, 1.0)):
    random = np.random.default_rng(0)
    X = [random.normal(size=(length, 3)) for _ in range(n_sequences)]
    y = [(x[:, 0] + 0.3 * random.normal(size=length) > 0).astype(int) for x in X]
    return [x * factors + np.array([0.0, 3.0, 900.0]) * (np.array(factors) != 1.0) for x in X], y


def kernel_of(field):
    return next(term.clique.kernel for term in field.field_.terms if term.clique.kernel is not None)


def test_features_that_are_there_or_not_get_a_linear_kernel():
    random = np.random.default_rng(0)
    assert kernel_of(ChainCRF().fit(*words())) == Linear()
    wide = [scipy.sparse.csr_array(np.eye(120)[random.integers(120, size=6)]) for _ in range(4)]
    labels = [random.integers(2, size=6) for _ in range(4)]
    assert kernel_of(ChainCRF().fit(wide, labels)) == Linear()
    table = scipy.sparse.csr_array(np.eye(120)[random.integers(120, size=40)])
    assert kernel_of(KernelClassifier().fit(table, np.arange(40) % 2)) == Linear()


def test_numbers_get_an_rbf_kernel():
    X, y = readings(4)
    assert kernel_of(ChainCRF().fit(X, y)) == RBF()
    narrow = [scipy.sparse.csr_array(x) for x in X]
    assert kernel_of(ChainCRF().fit(narrow, y)) == RBF()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.03, 0.3])
def test_the_same_numbers_give_the_same_field_in_every_container(share):
    random = np.random.default_rng(0)
    weights = random.normal(size=150)
    rows = [(random.random((10, 150)) < share).astype(float) for _ in range(24)]
    labels = [(x @ weights > 0).astype(int) for x in rows]
    edges = np.column_stack([np.arange(9), np.arange(1, 10)])
    for cls, given in ((ChainCRF, lambda x: x), (GraphCRF, lambda x: (x, edges))):
        dense, sparse = [given(x) for x in rows], [given(scipy.sparse.csr_array(x)) for x in rows]
        one, other = (cls(random_state=0, n_jobs=1).fit(X, labels) for X in (dense, sparse))
        assert one.choices_.chosen == other.choices_.chosen
        assert isinstance(kernel_of(one), Linear) or share > 0.1
        answers = [np.vstack(model.predict_marginals(X)) for model in (one, other) for X in (dense, sparse)]
        for found in answers[1:]:
            np.testing.assert_allclose(found, answers[0], rtol=1e-7, atol=1e-9)
    table, targets = np.vstack(rows), np.concatenate(labels)
    one, other = (KernelClassifier().fit(X, targets) for X in (table, scipy.sparse.csr_array(table)))
    np.testing.assert_allclose(one.predict_proba(table), other.predict_proba(table), rtol=1e-7, atol=1e-9)


def test_columns_of_different_scales_get_one_scale_and_the_best_of_the_kernels():
    X, y = readings(factors=(1.0, 40.0, 1e4))
    field = ChainCRF().fit(X, y)
    scaled = [trial for trial in field.choices_.trials if trial.settings.get("scale")]
    tried = {trial.settings["kernel"]: trial.log_loss for trial in reversed(scaled)}
    assert set(tried) >= {"linear", "rbf", "laplacian", "forest"}
    assert tried[field.choices_.chosen["kernel"]] <= min(tried.values()) + 0.005
    assert field.score(X, y) > 0.85
    assert field.scale_


class Judged(Pilot):
    """Short fits whose losses are given, by kernel and scale; those of a last round, if there is one, apart."""

    def __init__(self, losses, last):
        super().__init__(None, (4, 10 if last else 0), print)
        self.losses = {False: losses, True: last}

    def race(self, candidates, before=None):
        """Losses need no fits."""

    def loss(self, settings, before=None):
        return self.losses[self._last][settings["kernel"], settings["scale"]]


def best(losses, last=None):
    columns = [{"kernel": "rbf", "scale": scale} for scale in (True, False)]
    return Judged(losses, last).best(columns, ["linear", "rbf", "laplacian", "forest"], False)


def test_columns_are_chosen_with_two_kernels_then_kernels_on_them():
    losses = {("rbf", True): 1.0, ("linear", True): 1.2, ("laplacian", True): 0.9, ("forest", True): 0.95}
    others = {("rbf", False): 1.05, ("laplacian", False): 0.95}
    assert best({**losses, **others}) == {"kernel": "laplacian", "scale": True}
    swapped = {(kernel, not scale): loss for (kernel, scale), loss in {**losses, **others}.items()}
    assert best(swapped) == {"kernel": "laplacian", "scale": False}
    more = {("linear", False): 1.0, ("forest", False): 1.0, ("laplacian", False): 0.8}
    assert best({**losses, **others, **more}) == {"kernel": "laplacian", "scale": False}


def test_the_last_round_decides_between_the_best_of_two_kinds_of_columns_that_are_near():
    losses = {("rbf", True): 1.0, ("linear", True): 1.2, ("laplacian", True): 0.9, ("forest", True): 0.95}
    losses |= {("rbf", False): 1.05, ("laplacian", False): 0.95}
    last = {("laplacian", True): 0.8, ("laplacian", False): 0.75}
    assert best(losses, last) == {"kernel": "laplacian", "scale": False}
    assert best(losses, {**last, ("laplacian", False): 0.85}) == {"kernel": "laplacian", "scale": True}
    far = {**losses, ("laplacian", False): 1.3}
    assert best(far, last) == {"kernel": "laplacian", "scale": True}


class JudgedAlongPaths(Pilot):
    """Short fits on one fold, whose losses and best temperature are given, by kernel and prior variance."""

    def __init__(self, losses, temperature):
        super().__init__(None, (1, 0), print)
        self.losses, self.temperature = losses, temperature

    def _attempt(self, settings, number):
        loss = self.losses[settings["kernel"]].get(settings["prior_variance"], 3.0)
        return PositionLoss(loss, self.temperature, 0.5)

    def _judge(self, tried, attempt):
        tried.judged.append(attempt)


@pytest.mark.parametrize(("temperature", "chosen"), [(0.5, ("rbf", 100.0)), (2.0, ("linear", 1.0))])
def test_a_kernel_that_needs_a_large_variance_is_followed_unless_it_is_too_certain(temperature, chosen):
    """As on handwritten letters, where the RBF kernel is far behind the linear one at small variances."""
    losses = {"linear": {0.1: 0.9, 1.0: 0.74}, "rbf": {0.1: 2.1, 1.0: 1.0, 10.0: 0.49, 100.0: 0.41}}
    found = JudgedAlongPaths(losses, temperature).best([{"kernel": "rbf"}], ["linear", "rbf"], True)
    assert (found["kernel"], found["prior_variance"]) == chosen


@pytest.mark.parametrize("rounding", [-1e-3, -1e-13, 0.0, 1e-13])
def test_last_digits_make_no_choice(rounding):
    losses = {("linear", True): 1.0, ("rbf", True): 1.0 + rounding, ("laplacian", True): 1.0 + 2 * rounding}
    losses |= {("forest", True): 1.0 - rounding, ("rbf", False): 1.0 + rounding, ("laplacian", False): 1.0}
    assert best(losses) == {"kernel": "linear", "scale": True}
    losses["forest", True] = 0.99
    assert best(losses) == {"kernel": "forest", "scale": True}


@pytest.mark.parametrize(
    ("settings", "scaled"),
    [
        ({"kernel": "rbf"}, True),
        ({"kernel": RBF()}, True),
        ({"kernel": "linear"}, True),
        ({"kernel": RBF(0.5)}, False),
        ({"kernel": RBF() + Linear()}, False),
        ({"kernel": "rbf", "scale": False}, False),
        ({"kernel": RBF(0.5), "scale": True}, True),
    ],
)
@pytest.mark.filterwarnings("ignore:columns have very different spreads")
def test_numbers_that_the_user_gave_keep_their_meaning(settings, scaled):
    X, y = readings(4, factors=(1.0, 40.0, 1e4))
    field = ChainCRF(prior_variance=1.0, **settings).fit(X, y)
    assert field.scale_ == scaled


def test_other_estimators_scale_too_and_files_keep_it(tmp_path):
    X, y = readings(10, factors=(1.0, 40.0, 1e4))
    edges = np.column_stack([np.arange(24), np.arange(1, 25)])
    graphs = [(x, edges, np.column_stack([x[1:, 2], x[1:, 0]])) for x in X]
    table, labels = np.vstack(X), np.concatenate(y)
    fields = [
        (ChainCRF("rbf", prior_variance=1.0), X, y),
        (GraphCRF("rbf", prior_variance=1.0), graphs, y),
        (KernelClassifier("rbf", prior_variance=1.0), table, labels),
        (MultiLabelCRF("rbf", prior_variance=1.0), table, np.column_stack([labels, 1 - labels])),
    ]
    for field, given, targets in fields:
        field.fit(given, targets)
        assert field.scale_
        field.save(tmp_path / "model")
        again = type(field).load(tmp_path / "model")
        np.testing.assert_array_equal(np.hstack(again.predict(given)), np.hstack(field.predict(given)))
        assert again.get_params()["scale"] == "auto"


def test_labels_that_need_not_fit_are_taken_one_by_one():
    X, y = readings()
    field = ChainCRF("rbf").fit(X, y)
    single = [classes.argmax(axis=1) for classes in field.predict_marginals(X)]
    np.testing.assert_array_equal(np.hstack(field.predict(X)), np.hstack(single))
    assert field.score(X, y) == field.score(X, y, decode="posterior")


def entities():
    X, _ = words(20)
    y = [["O", "B-X", "I-X", "O", "B-X", "O"] for _ in X]
    return X, y


@pytest.mark.parametrize("settings", [{}, {"constraints": "bio"}])
def test_labels_that_have_to_fit_are_taken_together(settings):
    X, y = entities()
    field = ChainCRF(prior_variance=0.01, **settings).fit(X, y)
    assert list(map(list, field.predict(X))) == list(map(list, field.predict(X, decode="viterbi")))


def test_the_parameter_decides_and_the_call_decides_over_it():
    X, y = readings(factors=(0.1, 0.1, 0.1))
    field = ChainCRF("rbf", decode="viterbi", prior_variance=0.1).fit(X, y)
    together, single = field.predict(X), field.predict(X, decode="posterior")
    np.testing.assert_array_equal(np.hstack(together), np.hstack(field.predict(X, decode="viterbi")))
    assert field.score(X, y) == np.mean(np.hstack(together) == np.hstack(y))
    assert field.score(X, y, decode="posterior") == np.mean(np.hstack(single) == np.hstack(y))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"decode": "best"}, "decode must be one of 'auto', 'viterbi', 'posterior', 'f1', got 'best'"),
        ({"scale": "yes"}, "scale must be one of 'auto', True, False, got 'yes'"),
        ({"prior_variance": "large"}, "prior_variance must be a positive number"),
        ({"edges": EdgeCliques(prior_variance="auto")}, "clique set 'edge': prior_variance must be a positive number"),
    ],
)
def test_words_that_are_not_known_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        ChainCRF(**settings).fit(*readings(3))


def test_a_kernel_of_ones_own_scale_on_uneven_columns_is_told_of():
    random = np.random.default_rng(0)
    X = [random.normal(size=(6, 4)) * [1.0, 1.0, 1.0, 1000.0] for _ in range(10)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    with pytest.warns(UserWarning, match=r"0\.9\d+ is usual and 1e\+03|very different spreads") as told:
        ChainCRF(RBF(0.5), prior_variance=1.0).fit(X, y)
    assert told[0].filename == __file__
    for settings in ({"scale": True}, {"scale": False}):
        ChainCRF(RBF(0.5), prior_variance=1.0, **settings).fit(X, y)
    ChainCRF("rbf", prior_variance=1.0).fit(X, y)


def test_a_warning_of_a_fit_names_the_line_of_the_caller():
    X = [np.random.default_rng(0).normal(size=(6, 4)) for _ in range(10)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    with pytest.warns(ConvergenceWarning, match="stopped at a relative gap") as told:
        ChainCRF("rbf", prior_variance=1.0, max_iter=1, tol=1e-9).fit(X, y)
    assert told[0].filename == __file__
