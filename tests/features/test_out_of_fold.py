"""OutOfFold: predictions of any classifier for inputs that it has not seen, in the form of the inputs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import kernelfields
from kernelfields import ChainCRF, ChainCRFCV, FrameCRF, MultiLabelCRF, OutOfFold, SoftTargets
from kernelfields.features import SequenceUnion
from kernelfields.features.stored_classifiers import StoredClassifier, store_classifier
from tests.samples import labelled_sequences

X, Y = labelled_sequences(n_sequences=12, longest=7, n_labels=3)
MEMORY = KNeighborsClassifier(1)  # what it was fitted to, it repeats with probability one
LOGISTIC = LogisticRegression(max_iter=1000)


def by_hand(model, X, Y, folds):
    """Log-probabilities of each sequence by a classifier fitted to all sequences of other folds."""
    made = []
    for i, x in enumerate(X):
        others = [j for j in range(len(X)) if folds[j] != folds[i]]
        fitted = clone(model).fit(np.vstack([X[j] for j in others]), np.concatenate([Y[j] for j in others]))
        made.append(np.log(np.maximum(fitted.predict_proba(x), 1e-3)))
    return made


def test_predictions_are_those_of_models_fitted_to_the_other_folds():
    transformer = OutOfFold(LOGISTIC, cv=3)
    made = transformer.fit_transform(X, Y)
    assert sorted(np.bincount(transformer.folds_)) == [4, 4, 4]
    for ours, theirs in zip(made, by_hand(LOGISTIC, X, Y, transformer.folds_), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    whole = clone(LOGISTIC).fit(np.vstack(X), np.concatenate(Y))
    chances = np.maximum(whole.predict_proba(X[0]), 1e-3)
    np.testing.assert_allclose(transformer.transform(X[:1])[0], np.log(chances), atol=1e-10)
    assert transformer.transform([]) == []


def test_folds_follow_groups_and_splitters():
    by_length = OutOfFold(LOGISTIC, cv=2, groups=len)
    by_length.fit_transform(X, Y)
    pairs = {(len(x), fold) for x, fold in zip(X, by_length.folds_, strict=True)}
    assert len(pairs) == len({len(x) for x in X})
    ordered = OutOfFold(LOGISTIC, cv=KFold(3))
    ordered.fit_transform(X, Y)
    np.testing.assert_array_equal(ordered.folds_, np.repeat([0, 1, 2], 4))


def test_sparse_inputs_and_feature_dicts():
    expected = OutOfFold(LOGISTIC, cv=3).fit_transform(X, Y)
    sparse = OutOfFold(LOGISTIC, cv=3).fit_transform([sp.csr_array(x) for x in X], Y)
    np.testing.assert_allclose(sparse[0], expected[0], atol=1e-4)
    words = [[{"sign": str(np.sign(row[0])), "size": row[1]} for row in x] for x in X]
    named = OutOfFold(LOGISTIC, cv=3)
    assert [len(x) for x in named.fit_transform(words, Y)] == [len(x) for x in X]
    assert named.transform(words[:1])[0].shape == (len(X[0]), 3)
    union = SequenceUnion([("own", "passthrough"), ("classes", OutOfFold(LOGISTIC, cv=3))])
    np.testing.assert_allclose(union.fit_transform(X, Y)[0], np.hstack([X[0], expected[0]]), atol=1e-10)


def test_positions_without_a_label_are_predicted_and_not_learned():
    known = [[*y[:-1].tolist(), None] for y in Y]
    transformer = OutOfFold(LOGISTIC, cv=3)
    made = transformer.fit_transform(X, known)
    assert all(len(ours) == len(x) for ours, x in zip(made, X, strict=True))
    own = clone(LOGISTIC).fit(np.vstack([x[:-1] for x in X]), np.concatenate([y[:-1] for y in Y]))
    np.testing.assert_allclose(transformer.estimator_.coef_, own.coef_, atol=1e-8)
    soft = OutOfFold(LOGISTIC, cv=3).fit(X, SoftTargets([np.eye(3)[y] for y in Y], classes=[0, 1, 2]))
    np.testing.assert_allclose(soft.estimator_.coef_, OutOfFold(LOGISTIC).fit(X, Y).estimator_.coef_)


def test_classes_that_a_fold_lacks_have_the_least_probability():
    rare = [y.copy() for y in Y]
    for y in rare[1:]:
        y[y == 2] = 1
    rare[0][:] = 2
    transformer = OutOfFold(LOGISTIC, cv=3)
    made = transformer.fit_transform(X, rare)
    assert transformer.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(made[0][:, 2], np.log(1e-3))


def test_graphs_keep_their_edges_and_tables_their_rows():
    graphs = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]
    made = OutOfFold(LOGISTIC, cv=3).fit_transform(graphs, Y)
    chains = OutOfFold(LOGISTIC, cv=3).fit_transform(X, Y)
    for (nodes, edges), given, chain in zip(made, graphs, chains, strict=True):
        np.testing.assert_array_equal(edges, given[1])
        np.testing.assert_allclose(nodes, chain)
    dicts = [{"x": x, "edges": edges} for x, edges in graphs]
    np.testing.assert_allclose(OutOfFold(LOGISTIC, cv=3).fit_transform(dicts, Y)[0]["x"], chains[0])
    alone = OutOfFold(LOGISTIC, cv=3)
    ((nodes, _),) = alone.fit_transform([(np.vstack(X), graphs[0][1])], [np.concatenate(Y)])
    assert nodes.shape == (len(alone.folds_), 3)
    table = OutOfFold(LOGISTIC, cv=3)
    rows = table.fit_transform(np.vstack(X), np.concatenate(Y))
    counts = np.array([np.bincount(np.concatenate(Y)[table.folds_ == fold]) for fold in range(3)])
    assert np.ptp(counts, axis=0).max() <= 1
    assert rows.shape == (len(np.concatenate(Y)), 3)


def test_networkx_graphs():
    networkx = pytest.importorskip("networkx")
    graphs = [networkx.path_graph(len(x)) for x in X]
    for graph, x in zip(graphs, X, strict=True):
        networkx.set_node_attributes(graph, dict(enumerate(x)), "features")
    made = OutOfFold(LOGISTIC, cv=3).fit_transform(graphs, Y)
    expected = OutOfFold(LOGISTIC, cv=3).fit_transform(X, Y)
    np.testing.assert_allclose(made[0].nodes[1]["x"], expected[0][1])
    assert "features" in graphs[0].nodes[1]


def test_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.vstack(X), columns=["a", "b", "c"][: X[0].shape[1]])
    table["sequence"] = np.repeat(np.arange(len(X)), [len(x) for x in X])
    table["label"] = np.concatenate(Y)
    model = FrameCRF(make_pipeline(OutOfFold(LOGISTIC, cv=3), ChainCRF("linear", prior_variance=1.0)))
    assert (model.fit(table).predict(table) == table["label"]).mean() > 0.5
    model.save(tmp_path / "frames.kfm")
    loaded = FrameCRF.load(tmp_path / "frames.kfm")
    pandas.testing.assert_series_equal(loaded.predict(table), model.predict(table))
    pandas.testing.assert_series_equal(kernelfields.load(tmp_path / "frames.kfm").predict(table), model.predict(table))


def test_files_hold_forests_of_several_labels_and_the_best_of_a_search(tmp_path):
    rows, targets = np.vstack(X), np.column_stack([np.concatenate(Y) == 0, np.concatenate(Y) == 1]).astype(int)
    forest = RandomForestClassifier(5, random_state=0)
    several = make_pipeline(OutOfFold(forest, cv=3), MultiLabelCRF("linear", prior_variance=1.0)).fit(rows, targets)
    search = ChainCRFCV(kernels=["linear"], prior_variances=[0.1, 1.0], cv=2, halving=False)
    searched = make_pipeline(OutOfFold(LOGISTIC, cv=3), search).fit(X, Y)
    for model, inputs in ((several, rows), (searched, X)):
        kernelfields.save(model, tmp_path / "model.kfm")
        loaded = kernelfields.load(tmp_path / "model.kfm")
        found, expected = (np.vstack(own[-1].predict_marginals(own[0].transform(inputs))) for own in (loaded, model))
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert isinstance(loaded[-1], ChainCRF)
    with pytest.raises(TypeError, match="a forest of several labels where each has two values: fit one for each"):
        store_classifier(RandomForestClassifier(2).fit(rows, np.column_stack([targets[:, 0], np.concatenate(Y)])))


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize(
    "model",
    [
        LOGISTIC,
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(7, random_state=0),
        ExtraTreesClassifier(7, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_files_hold_classifiers_as_arrays(model, n_labels, tmp_path):
    X, Y = labelled_sequences(n_sequences=25, longest=7, n_labels=n_labels)
    pipeline = make_pipeline(OutOfFold(model, cv=3), ChainCRF("linear", prior_variance=1.0)).fit(X, Y)
    kernelfields.save(pipeline, tmp_path / "stack.kfm")
    loaded = kernelfields.load(tmp_path / "stack.kfm")
    chances = pipeline[0].estimator_.predict_proba(X[0])
    np.testing.assert_allclose(loaded[0].estimator_.predict_proba(X[0]), chances, atol=1e-12)
    for ours, theirs in zip(loaded.predict(X), pipeline.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(TypeError, match="read from a file of data and cannot be fitted again"):
        loaded[0].fit(X, Y)
    assert store_classifier(loaded[0].estimator_) is loaded[0].estimator_.stored


def test_missing_inputs_go_where_the_trees_send_them():
    inputs, labels = np.vstack(X), np.concatenate(Y)
    inputs[::3, 0] = np.nan
    for model in (HistGradientBoostingClassifier(max_iter=5), RandomForestClassifier(5, random_state=0)):
        stored = StoredClassifier(store_classifier(model.fit(inputs, labels)))
        np.testing.assert_allclose(stored.predict_proba(inputs), model.predict_proba(inputs), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"estimator": "forest"}, TypeError, "estimator must be a classifier with predict_proba, got 'forest'"),
        ({"estimator": RidgeClassifier()}, TypeError, r"got RidgeClassifier\(\): .*CalibratedClassifierCV gives one"),
        ({"clip": 0.0}, ValueError, "clip must be a probability between 0 and 1, got 0.0"),
        ({"groups": len, "cv": 9}, ValueError, "cv=9 folds of . groups of sequences"),
        ({"cv": 13}, ValueError, "cv=13 folds of 12 sequences: use at least 2 folds"),
        ({"cv": 1}, ValueError, "cv=1 folds of 12 sequences"),
        ({"cv": ShuffleSplit(3)}, ValueError, "cv must put each sequence into one fold|in no fold"),
        ({"estimator": KNeighborsClassifier(500)}, ValueError, "fold 1 of 5: KNeighborsClassifier failed: Expected"),
    ],
)
def test_what_is_refused(settings, error, message):
    transformer = OutOfFold(**{"estimator": LOGISTIC, **settings})
    with pytest.raises(error, match=message):
        transformer.fit_transform(X, Y)
    assert not hasattr(transformer, "estimator_")


def test_sequences_of_feature_dicts_may_be_tuples():
    named = [tuple({"word": str(int(row[0] > 0))} for row in x) for x in X]
    lists = OutOfFold(LOGISTIC, cv=3).fit_transform([list(x) for x in named], Y)
    for found, expected in zip(OutOfFold(LOGISTIC, cv=3).fit_transform(named, Y), lists, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_labels_and_widths_that_do_not_fit():
    transformer = OutOfFold(LOGISTIC, cv=3)
    with pytest.raises(ValueError, match="no position of y is labelled"):
        transformer.fit_transform(X, [[None] * len(y) for y in Y])
    alone = [y if i == 0 else [None] * len(y) for i, y in enumerate(Y)]
    with pytest.raises(ValueError, match=r"fold . of 3: no label is known among its training rows"):
        transformer.fit_transform(X, alone)
    halves = [np.full(len(y), i < 1) for i, y in enumerate(Y)]
    with pytest.raises(ValueError, match=r"fold . of 3: its training rows have one class only"):
        transformer.fit_transform(X, halves)
    transformer.fit(X, Y)
    with pytest.raises(ValueError, match="X has 1 features per position, but this model was fitted with"):
        transformer.transform([x[:, :1] for x in X])
    with pytest.raises(TypeError, match="cannot hold a KNeighborsClassifier"):
        OutOfFold(MEMORY).fit(X, Y).describe()


def test_groups_of_the_rows_of_a_sparse_table_are_those_of_a_dense_one():
    rows, labels = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    rows[:, 0] = np.arange(40) // 4
    made = [OutOfFold(LOGISTIC, cv=3, groups=lambda row: row[0] if row.shape == (2,) else None) for _ in range(2)]
    dense, sparse = made[0].fit_transform(rows, labels), made[1].fit_transform(sp.csr_matrix(rows), labels)
    np.testing.assert_array_equal(made[0].folds_, made[1].folds_)
    np.testing.assert_allclose(dense, sparse, atol=1e-6)


@pytest.mark.parametrize("value", [0, 1])
def test_each_of_several_labels_has_one_column_also_where_a_fold_shows_one_value(value):
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(40, 2)), random.integers(0, 2, size=(40, 3))
    labels[:, 2] = value
    labels[5, 2] = 1 - value
    forest = OutOfFold(RandomForestClassifier(5, random_state=0), cv=4)
    made = forest.fit_transform(rows, labels)
    assert forest.get_feature_names_out().tolist() == ["log p(label 0)", "log p(label 1)", "log p(label 2)"]
    # The fold that holds out row 5 has learnt that the label is always the same.
    own = forest.folds_ == forest.folds_[5]
    np.testing.assert_array_equal(made[own, 2], 0.0 if value else np.log(forest.clip))
    labels[5, 2] = value
    constant = OutOfFold(RandomForestClassifier(5, random_state=0), cv=4)
    assert constant.fit_transform(rows, labels).shape == constant.transform(rows).shape == (40, 3)


def test_several_labels_of_more_than_two_values_have_a_column_for_each_but_the_first():
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(60, 2)), np.column_stack([np.arange(60) % 3, np.arange(60) % 2])
    forest = OutOfFold(RandomForestClassifier(5, random_state=0), cv=3).fit(rows, labels)
    assert forest.get_feature_names_out().tolist() == ["log p(label 0 is 1)", "log p(label 0 is 2)", "log p(label 1)"]
    assert forest.transform(rows).shape == (60, 3)
