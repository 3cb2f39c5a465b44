"""Importance of features by shuffling: what helps is lost, what does not is not, for every estimator and form of X."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SegmentCRF
from kernelfields.compat import CRF
from kernelfields.evaluation import feature_importance

SETTINGS = {"tol": 1e-2, "n_jobs": 1, "random_state": 0, "prior_variance": 1.0}


def sequences(count=16, length=12, seed=0):
    """Labels by the sign of the second column, which the two others say nothing of."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 3)) for _ in range(count)]
    return X, [np.where(x[:, 1] + 0.1 * random.normal(size=length) > 0, "up", "down") for x in X]


X, Y = sequences()
TRAIN, TEST = slice(0, 10), slice(10, None)


@pytest.fixture(scope="module")
def chain():
    return ChainCRF("rbf", rank=40, **SETTINGS).fit(X[TRAIN], Y[TRAIN])


def asked(model, X, y, **options):
    return feature_importance(model, X, y, **{"n_repeats": 2, "n_resamples": 100, "random_state": 0, **options})


def test_the_column_that_tells_the_label_is_found(chain):
    found = asked(chain, X[TEST], Y[TEST])
    assert next(iter(found.drops)) == "x1"
    assert found.drops["x1"].low > 0.2
    assert abs(found.drops["x0"].value) < 0.1
    positions = sum(map(len, Y[TEST]))
    assert found.quality == pytest.approx(chain.log_likelihood(X[TEST], Y[TEST]) / positions)
    right = asked(chain, X[TEST], Y[TEST], scoring="accuracy")
    assert next(iter(right.drops)) == "x1"
    assert right.quality == pytest.approx(chain.score(X[TEST], Y[TEST]))
    assert 0.2 < right.drops["x1"].value <= right.quality


def test_a_drop_is_the_mean_loss_of_shuffled_data(chain):
    found = asked(chain, X[TEST], Y[TEST], n_repeats=1, features=["x1"], n_resamples=0)
    order = np.random.default_rng(0).permutation(sum(map(len, X[TEST])))
    stacked = np.concatenate(X[TEST])
    stacked[:, 1] = stacked[order, 1]
    shuffled = np.split(stacked, np.cumsum([len(x) for x in X[TEST]])[:-1])
    lost = chain.log_likelihood(X[TEST], Y[TEST]) - chain.log_likelihood(shuffled, Y[TEST])
    assert found.drops["x1"].value == pytest.approx(lost / len(stacked))
    assert found.drops["x1"].low is None


def test_items_have_the_name_that_fits_them(chain):
    one = str(asked(chain, X[-1:], Y[-1:], n_repeats=1, n_resamples=0))
    assert "log-likelihood per position" in one
    assert "means over 1 shuffle and 1 sequence," in " ".join(one.split())
    samples, labels = np.concatenate(X[TRAIN])[:40], np.concatenate(Y[TRAIN])[:40]
    classifier = KernelClassifier("rbf", rank=20, **SETTINGS).fit(samples, labels)
    found = " ".join(str(asked(classifier, samples, labels)).split())
    assert "log-likelihood per sample" in found
    assert "means over 2 shuffles and 40 samples," in found


def test_features_may_be_grouped_and_named(chain):
    given = {"features": {"noise": ["a", "c"], "signal": ["b"]}, "feature_names": ["a", "b", "c"]}
    found = asked(chain, X[TEST], Y[TEST], **given)
    assert list(found.drops) == ["signal", "noise"]
    again = asked(chain, X[TEST], Y[TEST], **given)
    assert again == found


def test_dicts_strings_and_sparse_sequences():
    dicts = [
        [{"sign": "+" if value > 0 else "-", "noise": float(row[0])} for row, value in zip(x, x[:, 1], strict=True)]
        for x in X
    ]
    model = ChainCRF("linear", **SETTINGS).fit(dicts[TRAIN], Y[TRAIN])
    found = asked(model, dicts[TEST], Y[TEST])
    assert list(found.drops) == ["sign", "noise"]
    assert found.drops["sign"].low > 0.2
    strings = [[[f"sign={each['sign']}", f"odd:{t % 2}", "always"] for t, each in enumerate(x)] for x in dicts]
    model = ChainCRF("linear", **SETTINGS).fit(strings[TRAIN], Y[TRAIN])
    found = asked(model, strings[TEST], Y[TEST])
    assert next(iter(found.drops)) == "sign"
    assert set(found.drops) == {"sign", "odd", "always"}
    assert found.drops["always"].value == pytest.approx(0.0, abs=1e-12)
    sparse = [sp.csr_array(x) for x in X]
    model = ChainCRF("linear", **SETTINGS).fit(sparse[TRAIN], Y[TRAIN])
    dense = ChainCRF("linear", **SETTINGS).fit(X[TRAIN], Y[TRAIN])
    ours, theirs = (asked(each, data[TEST], Y[TEST]).drops["x1"].value for each, data in ((model, sparse), (dense, X)))
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_graphs_tables_and_several_labels():
    edges = np.column_stack([np.arange(11), np.arange(1, 12)])
    graphs = [(x, edges) for x in X]
    crf = GraphCRF("linear", **SETTINGS).fit(graphs[TRAIN], Y[TRAIN])
    assert next(iter(asked(crf, graphs[TEST], Y[TEST]).drops)) == "x1"
    described = [{"x": x, "edges": edges} for x in X]
    assert asked(crf, described[TEST], Y[TEST]) == asked(crf, graphs[TEST], Y[TEST])
    rows, labels = np.concatenate(X), np.concatenate(Y)
    classifier = KernelClassifier("rbf", rank=30, prior_variance=1.0, random_state=0).fit(rows[:120], labels[:120])
    found = asked(classifier, rows[120:], labels[120:])
    assert next(iter(found.drops)) == "x1"
    assert found.quality == pytest.approx(
        np.mean(classifier.predict_log_proba(rows[120:])[np.arange(72), (labels[120:] == "up").astype(int)])
    )
    both = np.column_stack([rows[:, 1] > 0, rows[:, 2] > 0]).astype(int)
    several = MultiLabelCRF("linear", **SETTINGS).fit(rows[:120], both[:120])
    for scoring in ("log_likelihood", "accuracy"):
        found = asked(several, rows[120:], both[120:], scoring=scoring)
        assert set(list(found.drops)[:2]) == {"x1", "x2"}


def test_columns_of_frames_have_their_names():
    pandas = pytest.importorskip("pandas")
    rows, labels = np.concatenate(X), np.concatenate(Y)
    table = pandas.DataFrame(rows, columns=["first", "second", "third"])
    classifier = KernelClassifier("linear", prior_variance=1.0).fit(table[:120], labels[:120])
    assert next(iter(asked(classifier, table[120:], labels[120:]).drops)) == "second"
    frames = [pandas.DataFrame(x, columns=["first", "second", "third"]) for x in X]
    crf = ChainCRF("linear", **SETTINGS).fit(frames[TRAIN], Y[TRAIN])
    assert next(iter(asked(crf, frames[TEST], Y[TEST]).drops)) == "second"


def test_importances_show_themselves(chain):
    found = asked(chain, X[TEST], Y[TEST])
    lines = str(found).splitlines()
    assert lines[0].startswith("What is lost without a feature, in nats of log-likelihood per position")
    assert lines[3].split()[0] == "x1"
    assert f"{found.drops['x1']:+.4f}" in lines[3]
    assert "<table>" in found._repr_html_()
    assert json.loads(json.dumps(found.to_dict()))["drops"]["x1"]["value"] == found.drops["x1"].value
    assert [row["feature"] for row in found.to_rows()] == list(found.drops)
    wide = feature_importance(
        KernelClassifier("linear", prior_variance=1.0).fit(np.eye(40), np.arange(40) % 2),
        np.eye(40),
        np.arange(40) % 2,
        n_repeats=1,
        n_resamples=0,
    )
    assert "10 more, each at most" in str(wide)


def test_what_cannot_be_shuffled_is_named(chain):
    with pytest.raises(ValueError, match="features names 'x7', which the inputs do not have: there are x0, x1, x2"):
        asked(chain, X[TEST], Y[TEST], features=["x7"])
    with pytest.raises(ValueError, match="feature_names has 1 names, but the inputs have 3"):
        asked(chain, X[TEST], Y[TEST], feature_names=["one"])
    with pytest.raises(ValueError, match="scoring must be one of 'log_likelihood', 'accuracy', got 'f1'"):
        asked(chain, X[TEST], Y[TEST], scoring="f1")
    with pytest.raises(ValueError, match="n_repeats must be"):
        asked(chain, X[TEST], Y[TEST], n_repeats=0)
    with pytest.raises(ValueError, match="X is empty"):
        asked(chain, [], [])


def test_the_face_of_sklearn_crfsuite_and_segments_are_taken():
    words = [[{"sign": "+" if value > 0 else "-", "noise": str(round(value, 1))} for value in x[:, 1]] for x in X]
    tags = [list(map(str, labels)) for labels in Y]
    found = asked(CRF(c2=1.0).fit(words[TRAIN], tags[TRAIN]), words[TEST], tags[TEST])
    assert next(iter(found.drops)) == "sign"
    ends = [[*(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)] for labels in map(np.asarray, Y)]
    segments = [
        [(begin, end, str(labels[begin])) for begin, end in zip([0, *cuts[:-1]], cuts, strict=True)]
        for labels, cuts in zip(Y, ends, strict=True)
    ]
    crf = SegmentCRF("linear", **SETTINGS).fit(X[TRAIN], segments[TRAIN])
    for scoring in ("log_likelihood", "accuracy"):
        assert next(iter(asked(crf, X[TEST], segments[TEST], scoring=scoring).drops)) == "x1"
    assert asked(crf, X[TEST], segments[TEST], scoring="accuracy").quality == crf.score(X[TEST], segments[TEST])
