"""StructureSearch as an estimator of scikit-learn: what it holds, delegates, stores and refuses."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    FrameCRF,
    GraphCRF,
    MultiLabelCRF,
    NodeCliques,
    Sequencewise,
    SkipCliques,
    load,
    save,
)
from kernelfields.kernels import RBF, Linear
from kernelfields.models import structure
from kernelfields.selection import StructureSearch

QUICK = {"prior_variance": 1.0, "random_state": 0}
LAGS = [SkipCliques(lag=2), SkipCliques(lag=3)]


def sequences(seed=0, n_sequences=40, length=8):
    """Labels that follow those two steps before."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        x, labels = random.normal(size=(length, 3)), np.zeros(length, dtype=int)
        for t in range(length):
            scores = x[t] + random.gumbel(size=3)
            if t > 1:
                scores[labels[t - 2]] += 1.5
            labels[t] = scores.argmax()
        X.append(x)
        y.append(labels)
    return X, y


def instances(n_instances=150):
    """Five labels, of which 0 and 1 are mostly alike."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_instances, 3))
    Y = (X @ random.normal(size=(3, 4)) + random.logistic(size=(n_instances, 4)) > 0).astype(int)
    Y[:, 1] = np.where(random.random(n_instances) < 0.8, Y[:, 0], Y[:, 1])
    return X, Y


X, Y = sequences()


@pytest.fixture(scope="module")
def found():
    return StructureSearch(ChainCRF("linear", **QUICK), LAGS, max_additions=1).fit(X, Y)


def test_the_best_estimator_has_the_structure_as_a_parameter(found):
    """It is the field of these clique sets, as if they had been given."""
    assert found.structure_path_.added == ["lag2"]
    cliques = found.best_params_["cliques"]
    assert [type(clique) for clique in cliques] == [NodeCliques, EdgeCliques, SkipCliques]
    given = ChainCRF(cliques=cliques, **QUICK).fit(X, Y)
    np.testing.assert_allclose(found.solution_.theta, given.solution_.theta, atol=1e-12)
    again = clone(found.best_estimator_).fit(X, Y)
    np.testing.assert_allclose(found.solution_.theta, again.solution_.theta, atol=1e-12)
    assert found.estimator.cliques is None, "what the user passed is unchanged"
    assert not hasattr(found.estimator, "field_")


def test_questions_are_answered_by_the_best_estimator(found):
    best = found.best_estimator_
    np.testing.assert_array_equal(np.concatenate(found.predict(X)), np.concatenate(best.predict(X)))
    for mine, theirs in zip(found.predict_marginals(X), best.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert found.score(X, Y) == best.score(X, Y)
    assert found.log_likelihood(X, Y) == best.log_likelihood(X, Y)
    assert found.classes_ is best.classes_
    assert set(found.coef_) == {"node", "edge", "lag2"}
    with pytest.raises(AttributeError, match="Go on with best_estimator_"):
        found.partial_fit(X, Y)


def test_parameters_are_nested_and_copied():
    search = StructureSearch(ChainCRF("linear", **QUICK), LAGS, max_additions=1)
    assert search.get_params()["estimator__prior_variance"] == 1.0
    search.set_params(estimator__prior_variance=2.0, threshold=3.0)
    copied = clone(search)
    assert copied.estimator.prior_variance == 2.0
    assert (copied.threshold, copied.max_additions) == (3.0, 1)
    assert [clique.lag for clique in copied.candidates] == [2, 3]
    assert copied.candidates[0] is not search.candidates[0]


def test_folds_and_grids_search_anew():
    search = StructureSearch(ChainCRF("linear", **QUICK), LAGS)
    assert len(cross_val_score(search, X, Y, cv=2)) == 2
    grid = GridSearchCV(search, {"estimator__prior_variance": [1e-6, 1.0], "max_additions": [1]}, cv=2).fit(X, Y)
    assert grid.best_params_ == {"estimator__prior_variance": 1.0, "max_additions": 1}
    assert grid.best_estimator_.structure_path_.added == ["lag2"]
    assert grid.predict(X[:1])[0].shape == (8,)


def test_a_pipeline_may_end_in_a_search():
    pipeline = make_pipeline(Sequencewise(StandardScaler()), StructureSearch(ChainCRF("linear", **QUICK), LAGS[:1]))
    assert pipeline.fit(X, Y)[-1].structure_path_.added == ["lag2"]
    assert pipeline.score(X, Y) > 0.5


def test_a_frame_takes_a_search():
    pandas = pytest.importorskip("pandas")
    rows = np.concatenate(X[:20])
    frame = pandas.DataFrame(rows, columns=list("abc"))
    frame["id"], frame["label"] = np.repeat(np.arange(20), 8), np.concatenate(Y[:20])
    search = StructureSearch(ChainCRF("linear", **QUICK), LAGS, validation=0.0)
    crf = FrameCRF(search, sequence="id", label="label").fit(frame)
    assert crf.estimator_.structure_path_.added[0] == "lag2"
    assert set(crf.coef_) >= {"node", "edge", "lag2"}


def test_files_hold_the_best_estimator(found, tmp_path):
    found.save(tmp_path / "field.kfm")
    loaded = StructureSearch.load(tmp_path / "field.kfm")
    assert loaded.log_likelihood(X, Y) == found.log_likelihood(X, Y)
    field = ChainCRF.load(tmp_path / "field.kfm")
    assert [type(clique) for clique in field.cliques] == [NodeCliques, EdgeCliques, SkipCliques]
    save(found.best_estimator_, tmp_path / "again.kfm")
    assert (tmp_path / "again.kfm").read_bytes() == (tmp_path / "field.kfm").read_bytes()
    assert load(tmp_path / "again.kfm").score(X, Y) == found.score(X, Y)
    with pytest.raises(ValueError, match="MultiLabelCRF"):
        MultiLabelCRF.load(tmp_path / "field.kfm")


def test_thresholds_of_rare_labels_are_kept_in_files(tmp_path):
    crf = ChainCRF("linear", decode="f1", **QUICK)
    found = StructureSearch(crf, LAGS, max_additions=1, validation=0.0).fit(X, Y)
    found.save(tmp_path / "field.kfm")
    loaded = StructureSearch.load(tmp_path / "field.kfm")
    assert loaded.thresholds_ == found.thresholds_
    np.testing.assert_array_equal(np.concatenate(loaded.predict(X)), np.concatenate(found.predict(X)))


def test_a_fit_goes_on_with_the_structure(found):
    field = clone(found.best_estimator_).set_params(warm_start=True).fit(X[:30], Y[:30])
    assert field.fit(X, Y).solution_.value == pytest.approx(found.solution_.value, rel=1e-2)
    assert set(field.coef_) == {"node", "edge", "lag2"}


def test_the_search_begins_with_the_structure_of_its_estimator():
    base = [NodeCliques("linear"), EdgeCliques(), SkipCliques(lag=2)]
    search = StructureSearch(ChainCRF(cliques=base, **QUICK), [SkipCliques(lag=3)], threshold=0.0, validation=0.0)
    assert set(search.fit(X, Y).coef_) == {"node", "edge", "lag2", "lag3"}
    inputs, labels = instances()
    pairs = StructureSearch(MultiLabelCRF("linear", label_graph=[(2, 3)], **QUICK), [(3, 2), (0, 1)])
    assert pairs.fit(inputs, labels).label_edges_ == [(0, 1), (2, 3)]
    assert pairs.structure_path_.added == ["pair 0 ~ 1"]
    assert pairs.best_params_ == {"label_graph": [(0, 1), (2, 3)]}


def test_parts_of_sums_and_sets_without_names_keep_the_names_of_the_search():
    choice = [NodeCliques(RBF(0.3), rank=5), NodeCliques(RBF(0.3) + Linear(), rank=5, name="sum"), SkipCliques(lag=2)]
    crf = ChainCRF("linear", **QUICK)
    found = StructureSearch(crf, choice, threshold=0.0, validation=0.0).fit(X, Y)
    assert set(found.structure_path_.added) == {"node_2", "sum", "sum_2", "lag2"}
    assert list(found.coef_) == ["node", "edge", "node_2", "sum", "sum_2", "lag2"]
    assert list(clone(found.best_estimator_).fit(X, Y).coef_) == list(found.coef_)


def test_groups_are_held_out_as_a_whole(monkeypatch):
    held = []

    def noted(data, *arguments):
        held.append(data.inputs[:, 0].copy())
        return 0.0

    monkeypatch.setattr("kernelfields.selection.structure_search.log_likelihood", noted)
    marked = [np.column_stack([np.full(len(x), number // 8), x]) for number, x in enumerate(X)]
    groups = np.arange(len(X)) // 8
    crf = ChainCRF("linear", scale=False, **QUICK)
    StructureSearch(crf, LAGS, validation=0.3, threshold=1e9).fit(marked, Y, groups=groups)
    present, counts = np.unique(held[0], return_counts=True)
    assert len(present) == 2
    assert set(counts) == {64}
    with pytest.raises(ValueError, match="1 groups cannot be split"):
        StructureSearch(crf, LAGS).fit(marked, Y, groups=np.zeros(len(X)))


def test_callbacks_see_the_last_fit_and_are_not_copied():
    seen = []
    crf = ChainCRF("linear", callbacks=[seen.append], **QUICK)
    found = StructureSearch(crf, LAGS, validation=0.0).fit(X, Y)
    assert [iteration.iteration for iteration in seen] == list(range(len(seen)))
    assert len(seen) == found.solution_.iterations + 1


@pytest.mark.parametrize("number", [0, 1])
def test_an_interrupt_keeps_the_best_structure_so_far(monkeypatch, number):
    """The second fit of the search is that with lag 2."""
    calls = []

    def interrupted(*arguments, **settings):
        calls.append(1)
        if len(calls) == number + 2:
            raise KeyboardInterrupt
        return fit_field(*arguments, **settings)

    fit_field = structure.fit_field
    monkeypatch.setattr(structure, "fit_field", interrupted)
    search = StructureSearch(ChainCRF("linear", **QUICK), LAGS, threshold=0.0, validation=0.0)
    with pytest.warns(ConvergenceWarning, match=f"interrupted; the field with {number} additions was kept"):
        search.fit(X, Y)
    assert search.structure_path_.reason == "the search was interrupted"
    assert list(search.coef_) == ["node", "edge", "lag2"][: 2 + number]
    assert search.solution_.converged


def test_a_file_of_an_earlier_search_answers_as_it_did(found, tmp_path, monkeypatch):
    """What such a file says of the search is left out."""
    described = {"as": "structure search", "parameters": {"candidates": None}}
    kind, document = "ChainCRF", found.best_estimator_._to_document()
    document["parameters"]["cliques"] = described
    structure_documents = pytest.importorskip("kernelfields.models.documents")
    structure_documents.write_document(tmp_path / "old.kfm", kind, document)
    with pytest.warns(UserWarning, match="cliques of ChainCRF was a structure search in this file"):
        loaded = ChainCRF.load(tmp_path / "old.kfm")
    assert loaded.log_likelihood(X, Y) == found.log_likelihood(X, Y)


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (StructureSearch(), "estimator must be a ChainCRF, RingCRF or MultiLabelCRF, got None"),
        (StructureSearch(GraphCRF(), LAGS), "estimator must be a ChainCRF"),
        (StructureSearch(ChainCRF), "estimator must be a ChainCRF"),
        (StructureSearch(ChainCRF("linear"), 3), "candidates must be a list of clique sets"),
        (StructureSearch(ChainCRF("linear")), "candidates must be a list of clique sets"),
        (StructureSearch(ChainCRF("linear", prior_variance=1.0), ["lag2"]), r"cliques\[2\] is 'lag2'"),
        (StructureSearch(ChainCRF("linear"), LAGS, max_additions=0), "max_additions must be"),
        (StructureSearch(ChainCRF("linear"), LAGS, validation=1.0), "validation must be a share"),
        (StructureSearch(ChainCRF("linear"), LAGS, threshold=-1.0), "threshold must be at least 0"),
        (StructureSearch(ChainCRF("linear", prior_variance=1.0), LAGS, validation=0.001), "cannot be split"),
        (StructureSearch(ChainCRF("linear", max_iter=0), LAGS), "max_iter must be"),
        (ChainCRF("linear", cliques=StructureSearch()), "cliques must be a list of clique sets such as NodeCliques"),
        (ChainCRF("linear", cliques="all"), "cliques must be a list of clique sets such as NodeCliques"),
    ],
)
def test_bad_parameters_are_named(search, words):
    with pytest.raises((ValueError, TypeError), match=words):
        search.fit(X[:5], Y[:5])
