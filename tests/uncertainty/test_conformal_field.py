"""Prediction sets: the guarantee where the law is known, every estimator and target, groups, bad input."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelfields
from kernelfields import (
    ChainCRF,
    ConformalField,
    FieldSearchCV,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    SegmentCRF,
    Sequencewise,
    WindowFeatures,
)
from kernelfields.compat import CRF
from kernelfields.uncertainty import calibrate
from kernelfields.uncertainty.conformal import event_threshold, least_items, score_quantile

LINEAR = {"kernel": "linear", "prior_variance": 1.0, "random_state": 0}
LABELS = np.array(["B-x", "I-x", "O"])


def draw(count, seed, noise=0.8):
    random, X, y = np.random.default_rng(seed), [], []
    for _ in range(count):
        numbers = random.integers(3, size=int(random.integers(2, 7)))
        X.append(np.eye(3)[numbers] + noise * random.normal(size=(len(numbers), 3)))
        y.append(LABELS[numbers].tolist())
    return X, y


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(**LINEAR).fit(*draw(60, 0))


# ---- thresholds


def test_the_quantile_has_the_coverage_of_the_beta_law():
    random = np.random.default_rng(0)
    shares = [score_quantile(random.random(39), 0.1) for _ in range(2000)]  # uniform scores: the threshold is its share
    rank = 36
    assert np.mean(shares) == pytest.approx(rank / 40, abs=3 * beta(rank, 40 - rank).std() / np.sqrt(2000))
    assert np.mean(np.array(shares) <= beta(rank, 40 - rank).ppf(0.3)) == pytest.approx(0.3, abs=0.03)
    assert score_quantile(random.random(8), 0.1) == math.inf
    assert least_items(0.1) == 9
    assert score_quantile(np.arange(9.0), 0.1) == 8.0


def test_the_risk_is_controlled_where_the_law_is_known():
    random, risks = np.random.default_rng(1), []
    for _ in range(2000):
        n_items = 20
        scores, items = random.random(60), np.repeat(np.arange(n_items), 3)
        level = event_threshold(scores, np.full(60, 1 / 3), n_items, 0.2)
        risks.append(level)  # a uniform score is below lambda with probability lambda
        mean = np.bincount(items, (scores < level) / 3).sum()
        assert (mean + 1) / (n_items + 1) <= 0.2 + 1e-9
    assert 0.16 < np.mean(risks) <= 0.2
    assert event_threshold(scores[:6], np.full(6, 1 / 3), 2, 0.2) == -math.inf
    assert event_threshold(np.empty(0), np.empty(0), 20, 0.2) == math.inf


# ---- sets


def test_sets_of_positions_hold_the_share_that_was_promised(crf):
    sets = ConformalField(crf, confidence_level=0.8).conformalize(*draw(400, 1))
    X, y = draw(800, 2)
    found = sets.coverage(X, y)
    assert found.coverage == pytest.approx(0.8, abs=0.03)
    held = [
        np.mean([label in own for label, own in zip(labels, item, strict=True)])
        for labels, item in zip(y, sets.predict_set(X), strict=True)
    ]
    assert np.mean(held) == pytest.approx(found.coverage)
    assert set(found.by_label) == set(LABELS)
    marginals, listed = crf.predict_marginals(X[:3]), sets.predict_set(X[:3])
    (level,) = sets.thresholds_.values()
    for rows, item in zip(marginals, listed, strict=True):
        for row, own in zip(rows, item, strict=True):
            assert set(own) == set(LABELS[row >= level])
            assert list(own) == sorted(own, key=lambda label, row=row: -row[LABELS.tolist().index(label)])
    assert sets.predict(X[:1])[0] == crf.predict(X[:1])[0]  # other questions go to the field


def test_labellings_are_all_that_are_likely_enough(crf):
    sets = ConformalField(crf, confidence_level=0.7, target="labellings").conformalize(*draw(300, 1))
    X, y = draw(300, 2)
    (level,) = sets.thresholds_.values()
    found = sets.predict_set(X)
    right = []
    for x, truth, own in zip(X, y, found, strict=True):
        ranked = crf.predict_nbest([x], 3 ** len(x))[0]
        expected = [labels.tolist() for labels, log in ranked if -log <= level]
        assert [labels.tolist() for labels, _ in own.labellings] == expected
        assert not own.everything
        right.append(truth in expected)
    assert np.mean(right) == pytest.approx(0.7, abs=0.08)
    assert sets.coverage(X, y).coverage == pytest.approx(np.mean(right))
    few = (
        ConformalField(crf, confidence_level=0.7, target="labellings", limit=2)
        .conformalize(*draw(300, 1))
        .predict_set(X)
    )
    assert any(own.everything for own in few)
    assert all(len(own.labellings) <= 2 for own in few)


def test_the_share_of_entities_that_are_missed_is_controlled(crf):
    sets = ConformalField(crf, confidence_level=0.8, target="entities").conformalize(*draw(400, 1))
    X, y = draw(400, 2)
    losses = []
    for labels, own in zip(y, sets.predict_set(X), strict=True):
        true = {(span.type, span.start, span.stop) for span in kernelfields.evaluation.entity_spans(labels)}
        losses.append(len(true - {span[:3] for span in own.spans}) / max(len(true), 1))
    assert np.mean(losses) <= 0.2 + 0.03
    assert sets.coverage(X, y).coverage == pytest.approx(1 - np.mean(losses))


def test_a_level_that_lists_nearly_all_spans_is_taken_for_all(crf):
    """Spans below a thousandth are not listed: a set that should hold them says that it is to be taken for all."""
    X, y = draw(120, 1, noise=2.5)
    sets = ConformalField(crf, confidence_level=0.99, target="entities").conformalize(X, y)
    assert 0.0 <= sets.thresholds_["all"] < 1e-3
    assert all(own.everything for own in sets.predict_set(X))
    assert sets.coverage(X, y).coverage == 1.0


def test_true_segments_are_those_that_were_written():
    """Segments of one label that follow each other are two entities, not one."""
    random = np.random.default_rng(0)
    y = [[(0, 2, "x"), (2, 4, "x"), (4, 5, "O")], [(0, 1, "O"), (1, 3, "x"), (3, 5, "O")]] * 20
    X = [random.normal(size=(5, 1)) + np.array([[2.0], [2.0], [2.0], [2.0], [0.0]]) for _ in y]
    sets = ConformalField(SegmentCRF(max_duration=3, repeats=True, **LINEAR), target="entities", confidence_level=0.8)
    sets.fit(X[:10], y[:10]).conformalize(X[10:], y[10:])
    assert sets.thresholds_["all"] > 0.0
    held = [
        np.mean([("x", begin, end) in {span[:3] for span in own.spans} for begin, end, label in truth if label == "x"])
        for truth, own in zip(y, sets.predict_set(X), strict=True)
    ]
    assert sets.coverage(X, y).coverage == pytest.approx(np.mean(held))
    assert np.mean(held[10:]) >= 0.8


def test_groups_have_thresholds_of_their_own(crf):
    X, y = draw(400, 1)
    by_label = ConformalField(crf, groups="label", confidence_level=0.8).conformalize(X, y)
    assert set(by_label.thresholds_) == set(LABELS)
    new = draw(600, 2)
    assert all(share > 0.75 for share in by_label.coverage(*new).by_label.values())
    by_length = ConformalField(crf, groups="length", confidence_level=0.8).conformalize(X, y)
    assert sorted(by_length.thresholds_) == [0, 1, 2, 3]
    assert all(share > 0.72 for share in by_length.coverage(*new).by_length.values())


def test_items_of_a_group_without_calibration_items_get_everything(crf):
    X, y = draw(300, 1)
    short, long = ([i for i, x in enumerate(X) if len(x) == length][:20] for length in (2, 6))
    sets = ConformalField(crf, groups="length")
    sets.conformalize([X[i] for i in short + long], [y[i] for i in short + long])
    with pytest.warns(UserWarning, match="no calibration item belongs to 1: the answer there is the safe one"):
        (labels,) = sets.predict_set([next(x for x in X if len(x) == 4)])
    assert {len(own) for own in labels} == {3}


def graphs(count, seed):
    X, y = draw(count, seed)
    return [(x, np.array([[t, t + 1] for t in range(len(x) - 1)]).reshape(-1, 2)) for x in X], y


def rows(count, seed):
    random = np.random.default_rng(seed)
    numbers = random.integers(3, size=count)
    return np.eye(3)[numbers] + 0.7 * random.normal(size=(count, 3)), LABELS[numbers]


def several(count, seed):
    X, numbers = rows(count, seed)
    return X, (numbers[:, None] == LABELS[:2]).astype(int)


def frames(count, seed):
    X, y = draw(count, seed)
    table = pd.DataFrame(np.concatenate(X), columns=["a", "b", "c"])
    table["sequence"], table["label"] = np.repeat(range(count), [len(x) for x in X]), np.concatenate(y)
    return table, None


ESTIMATORS = {
    "pipeline": (make_pipeline(WindowFeatures(widths=(3,)), ChainCRF(**LINEAR)), draw),
    "several": (MultiLabelCRF(**LINEAR), several),
    "single": (KernelClassifier(**LINEAR), rows),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("target", ["positions", "labellings"])
def test_sets_of_positions_and_labellings_are_kept_in_files(name, target, tmp_path):
    estimator, data = ESTIMATORS[name]
    X, y = data(40, 0)
    sets = ConformalField(estimator, target=target, confidence_level=0.8).fit(X, y).conformalize(*data(60, 1))
    new, truth = data(60, 2)
    found = sets.predict_set(new)
    assert len(found) == 60
    assert 0.6 < sets.coverage(new, truth).coverage <= 1.0
    sets.save(tmp_path / "sets")
    again = kernelfields.load(tmp_path / "sets")
    assert str(again.predict_set(new)) == str(found)
    assert again.thresholds_ == sets.thresholds_


def test_cross_calibration_uses_every_item(crf):
    X, y = draw(80, 3)
    sets = ConformalField(ChainCRF(**LINEAR), cv="cross", confidence_level=0.8, random_state=0).fit(X, y)
    assert sets.n_items_ == {"all": 80}
    assert sets.coverage(*draw(300, 4)).coverage == pytest.approx(0.8, abs=0.06)
    assert ConformalField(ChainCRF(**LINEAR), cv=3, target="labellings").fit(X, y).n_items_ == {"all": 80}


def test_cross_calibration_of_rare_labels_and_of_tables():
    X, y = draw(40, 3)
    y[7][0] = "B-rare"  # in one item alone: the field of the other folds has it all the same
    sets = ConformalField(ChainCRF(**LINEAR), cv=4, groups="label", confidence_level=0.6, random_state=0)
    with pytest.warns(UserWarning, match="'B-rare', and there are 1: sets hold everything"):
        sets.fit(X, y)
    assert sets.n_items_["B-rare"] == 1
    table, _ = frames(30, 0)
    assert ConformalField(FrameCRF(ChainCRF(**LINEAR)), cv=3).fit(table, None).n_items_ == {"all": 30}


# ---- what cannot be


def test_partly_known_labels_count_where_they_are_known(crf):
    X, y = draw(60, 1)
    partly = [[label if t % 2 == 0 else None for t, label in enumerate(labels)] for labels in y]
    partly[0] = [None] * len(y[0])
    sets = ConformalField(crf).conformalize(X, partly)
    assert sets.n_items_ == {"all": 59}
    for target in ("labellings", "entities"):
        with pytest.raises(ValueError, match="needs all labels of the calibration items"):
            ConformalField(crf, target=target).conformalize(X, partly)


def test_items_without_positions_are_left_aside(crf):
    X, y = draw(30, 1)
    sets = ConformalField(crf).conformalize([*X, np.empty((0, 3))], [*y, []])
    assert sets.n_items_ == {"all": 30}
    assert sets.predict_set([X[0], np.empty((0, 3))])[1] == []


def test_too_few_items_get_everything_and_the_number_that_is_needed(crf):
    with pytest.warns(
        UserWarning, match="a level of 0.95 needs 19 calibration items, and there are 5: sets hold everything"
    ):
        sets = ConformalField(crf, confidence_level=0.95).conformalize(*draw(5, 1))
    assert {len(own) for item in sets.predict_set(draw(3, 2)[0]) for own in item} == {3}
    with pytest.warns(UserWarning, match="sets hold everything"):
        sets = ConformalField(crf, confidence_level=0.95, target="labellings", limit=3).conformalize(*draw(5, 1))
    assert all(own.everything for own in sets.predict_set(draw(3, 2)[0]))
    with pytest.raises(ValueError, match="positions of one sequence or graph are not exchangeable"):
        ConformalField(crf).conformalize(*draw(1, 1))


def test_training_items_are_refused_where_they_are_seen():
    X, y = draw(60, 0)
    sets = ConformalField(ChainCRF(**LINEAR)).fit(X, y)
    with pytest.raises(ValueError, match="100% of these items were in the fit of the estimator: sets would miss"):
        sets.conformalize(X, y)
    more = draw(60, 1)
    with pytest.warns(UserWarning, match="17% of these items were in the fit"):
        sets.conformalize(X[:10] + more[0][:50], y[:10] + more[1][:50])


def test_a_fitted_estimator_refuses_the_items_of_its_fit(tmp_path):
    X, y = draw(60, 0)
    rbf = ChainCRF("rbf", prior_variance=1.0, rank=20, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="100% of these items were in the fit"):
        ConformalField(rbf).conformalize(X, y)
    with pytest.raises(ValueError, match="100% of these items were in the fit"):
        calibrate(rbf, X, y)
    rbf.save(tmp_path / "field.kfm")
    with pytest.raises(ValueError, match="100% of these items were in the fit"):
        ConformalField(kernelfields.load(tmp_path / "field.kfm")).conformalize(X[:30], y[:30])
    ConformalField(rbf).conformalize(*draw(60, 1))


def test_a_set_holds_the_likeliest_label_and_says_what_rare_labels_miss():
    random = np.random.default_rng(0)

    def mostly_outside(count):
        X, y = [], []
        for _ in range(count):
            numbers = np.where(random.random(8) < 0.06, 0, 2)
            X.append(np.eye(3)[numbers] + 0.6 * random.normal(size=(8, 3)))
            y.append(LABELS[numbers].tolist())
        return X, y

    field = ChainCRF(**LINEAR).fit(*mostly_outside(100))
    held, new = mostly_outside(200), mostly_outside(200)
    assert field.score(*new) > 0.9
    with pytest.warns(UserWarning, match=r"the likeliest label is right at 9\d.\d% .* B-x .*groups='label'"):
        sets = ConformalField(field, confidence_level=0.9).conformalize(*held)
    assert all(own for item in sets.predict_set(new[0]) for own in item)
    empty = ConformalField(field, confidence_level=0.9, allow_empty=True).conformalize(*held)
    assert not all(own for item in empty.predict_set(new[0]) for own in item)
    assert empty.thresholds_ == sets.thresholds_
    assert empty.coverage(*new).coverage < sets.coverage(*new).coverage
    assert sets.coverage(*new).by_label["B-x"] < 0.8
    fair = ConformalField(field, confidence_level=0.9, groups="label").conformalize(*held)
    assert fair.coverage(*new).by_label["B-x"] > 0.85


def test_huge_sets_of_labellings_are_mentioned():
    crf, (X, y) = ChainCRF(**LINEAR).fit(*draw(60, 0, noise=3.0)), draw(60, 1, noise=3.0)
    sets = ConformalField(crf, target="labellings", confidence_level=0.9).conformalize(X, y)
    with pytest.warns(UserWarning, match=r"sets hold \d+ labellings on average"):
        found = sets.predict_set(X)
    assert np.mean([len(own.labellings) for own in found]) > 100


@pytest.mark.parametrize("target", ["positions", "labellings", "entities"])
def test_labels_that_the_fit_never_saw_are_missed(crf, target):
    X, y = draw(100, 1)
    other = [list(labels) for labels in y]
    other[0], other[1][0] = ["B-new"] * len(y[0]), "I-new"
    sets = ConformalField(crf, target=target, confidence_level=0.7)
    with pytest.warns(UserWarning, match=r"labels that the fit never saw, 'B-new', 'I-new' at \d+ positions"):
        sets.conformalize(X, other)
    plain = ConformalField(crf, target=target, confidence_level=0.7).conformalize(X, y)
    (threshold,), (usual,) = sets.thresholds_.values(), plain.thresholds_.values()
    assert threshold >= usual if target == "labellings" else threshold <= usual
    found, right = sets.coverage(X, other), sets.coverage(X, y)
    assert found.coverage < right.coverage
    if target != "labellings":
        assert found.by_label["B-new" if target == "positions" else "new"] == 0.0
    with np.errstate(all="raise"):
        everything = ConformalField(crf, target=target, confidence_level=0.7).conformalize(X, y)
    everything.thresholds_ = {"all": math.inf if target == "labellings" else -math.inf}
    everything.limit = 1
    assert everything.coverage(X[:1], other[:1]).coverage == 0.0
    assert everything.coverage(X[2:3], other[2:3]).coverage == 1.0


def test_coverage_is_a_table_without_gaps(crf):
    X, y = draw(60, 1)
    found = ConformalField(crf, confidence_level=0.7).conformalize(X, y).coverage(X[:1], y[:1])
    assert len(found.by_length) == 1  # one item has one length
    assert "nan" not in str(found)
    assert str(found).startswith(f"coverage {found.coverage:.3f}, mean size of a set {found.size:.2f}\n")


def test_bad_input(crf):
    X, y = draw(40, 1)
    with pytest.raises(NotFittedError, match="call fit"):
        ConformalField(ChainCRF()).conformalize(X, y)
    with pytest.raises(NotFittedError, match="call conformalize"):
        ConformalField(crf).predict_set(X)
    with pytest.raises(NotFittedError, match="call conformalize"):
        ConformalField(ChainCRF(**LINEAR)).fit(X, y).coverage(X, y)
    with pytest.raises(TypeError, match="estimator must be an estimator of labels"):
        ConformalField().fit(X, y)
    with pytest.raises(ValueError, match="confidence_level must lie between 0 and 1"):
        ConformalField(crf, confidence_level=90).conformalize(X, y)
    with pytest.raises(ValueError, match="target must be one of"):
        ConformalField(crf, target="words").conformalize(X, y)
    with pytest.raises(ValueError, match="a labelling has many labels"):
        ConformalField(crf, target="labellings", groups="label").conformalize(X, y)
    with pytest.raises(ValueError, match="B-z"):
        ConformalField(crf).conformalize(X, [["B-z"] * len(x) for x in X])
    with pytest.raises(ValueError, match="calibration needs labels"):
        ConformalField(crf).conformalize(X, None)
    with pytest.raises(ValueError, match="cv must be None"):
        ConformalField(crf, cv="folds").fit(X, y)
    single = KernelClassifier(**LINEAR).fit(*rows(30, 0))
    with pytest.raises(TypeError, match="is for sequences"):
        ConformalField(single, target="entities").conformalize(*rows(30, 1))
    loopy = GraphCRF(**LINEAR, inference="loopy").fit(*graphs(20, 0))
    with pytest.raises(ValueError, match="needs exact inference"):
        ConformalField(loopy, target="labellings").conformalize(*graphs(20, 1))


def cut_arrays(X, y):
    """Return data as one long array and as a padded one, each with its labels and lengths."""
    lengths = [len(x) for x in X]
    padded, labels = np.zeros((len(X), max(lengths), 3)), np.full((len(X), max(lengths)), "O", dtype="U3")
    for row, (x, own) in enumerate(zip(X, y, strict=True)):
        padded[row, : len(x)], labels[row, : len(x)] = x, own
    return {"long": (np.concatenate(X), np.concatenate(y), lengths), "padded": (padded, labels, lengths)}


@pytest.mark.parametrize("form", ["long", "padded"])
@pytest.mark.parametrize("wrap", ["field", "pipeline", "search"])
@pytest.mark.parametrize(
    "settings", [{}, {"cv": 3, "random_state": 0}, {"target": "labellings", "confidence_level": 0.4}]
)
def test_sequences_of_one_array_have_the_sets_of_their_list(settings, wrap, form):
    estimator = {
        "field": ChainCRF(**LINEAR),
        "pipeline": make_pipeline(Sequencewise(StandardScaler()), ChainCRF(**LINEAR)),
        "search": FieldSearchCV(ChainCRF(**LINEAR), prior_variances=[1.0], cv=2, random_state=0),
    }[wrap]
    parts = [draw(60, 0), draw(60, 1), draw(40, 2)]
    listed, cut = ConformalField(estimator, **settings), ConformalField(estimator, **settings)
    arrays = [cut_arrays(*part)[form] for part in parts]
    listed.fit(*parts[0])
    cut.fit(*arrays[0][:2], lengths=arrays[0][2])
    if "cv" not in settings:
        listed.conformalize(*parts[1])
        cut.conformalize(*arrays[1][:2], lengths=arrays[1][2])
    assert cut.thresholds_ == pytest.approx(listed.thresholds_, abs=1e-12)
    X, y, lengths = arrays[2]
    if settings.get("target") == "labellings":
        for own, other in zip(cut.predict_set(X, lengths=lengths), listed.predict_set(parts[2][0]), strict=True):
            assert [row.tolist() for row, _ in own.labellings] == [row.tolist() for row, _ in other.labellings]
    else:
        assert cut.predict_set(X, lengths=lengths) == listed.predict_set(parts[2][0])
    found, expected = cut.coverage(X, y, lengths=lengths), listed.coverage(*parts[2])
    assert (found.coverage, found.size) == pytest.approx((expected.coverage, expected.size), abs=1e-12)


def test_lengths_are_refused_where_items_are_no_sequences_of_one_array(crf):
    X, y, lengths = cut_arrays(*draw(20, 3))["long"]
    with pytest.raises(TypeError, match=r"items are samples here: leave it out"):
        ConformalField(KernelClassifier(**LINEAR)).fit(X, y, lengths=lengths)
    with pytest.raises(TypeError, match=r"one array, which FrameCRF does not take: leave it out"):
        ConformalField(FrameCRF(ChainCRF(**LINEAR))).fit(X, y, lengths=lengths)
    with pytest.raises(TypeError, match=r"one array, which CRF does not take: leave it out"):
        ConformalField(CRF()).fit(X, y, lengths=lengths)
    with pytest.raises(ValueError, match=r"lengths add up to 3, but there are"):
        ConformalField(crf).conformalize(X, y, lengths=[1, 2])
