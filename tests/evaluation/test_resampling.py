"""Intervals: quantiles of the figures of resampled sequences, which hold what they should."""

import numpy as np
import pytest

from kernelfields.evaluation import compare, entity_f1_score, evaluate, resampling, token_accuracy
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports import Estimate, report_page

LABELS = ["B-X", "B-Y", "I-X", "I-Y", "O"]


def predictions(n_sequences=15, accuracy=0.8, seed=0):
    random = np.random.default_rng(seed)
    y_true = [random.choice(LABELS, size=random.integers(1, 6)) for _ in range(n_sequences)]
    y_pred = [
        np.where(random.random(len(labels)) < accuracy, labels, random.choice(LABELS, size=len(labels)))
        for labels in y_true
    ]
    return y_true, y_pred


def marginals_of(y_pred, seed=1):
    random = np.random.default_rng(seed)
    return [
        (random.dirichlet(np.ones(5), size=len(labels)) + (labels[:, None] == np.array(LABELS))) / 2
        for labels in y_pred
    ]


@pytest.fixture
def drawn(monkeypatch):
    """All counts that are drawn, in one list."""
    original, counts = resampling._draw_counts, []
    monkeypatch.setattr(resampling, "_BLOCK_COUNTS", 100)  # several blocks
    monkeypatch.setattr(resampling, "_draw_counts", lambda *given: counts.append(original(*given)) or counts[-1])
    return counts


@pytest.mark.slow
def test_intervals_of_what_is_no_share_are_quantiles_of_figures_of_repeated_sequences(drawn):
    y_true, y_pred = predictions()
    marginals, likelihood = marginals_of(y_pred), -np.arange(15.0)
    given = {"scheme": "bio", "classes": LABELS, "marginals": marginals, "log_likelihood": likelihood}
    found = evaluate(y_true, y_pred, **given, n_resamples=60, confidence=0.8, random_state=3)
    counts = np.concatenate(drawn)
    assert counts.shape == (60, 15)
    assert len(drawn) == 10

    def figures(evaluation):
        """Figures that are no shares."""
        yield evaluation.log_likelihood.per_sequence
        yield evaluation.log_likelihood.per_token
        yield evaluation.calibration.brier
        yield evaluation.calibration.expected_error  # the last

    def averages(evaluation):
        yield from (evaluation.averages[name].f1 for name in ("macro", "weighted"))
        yield from (evaluation.entities.averages[name].f1 for name in ("macro", "weighted"))

    def repeated(values, row):
        return [value for value, times in zip(values, row, strict=True) for _ in range(int(times))]

    table, wider = [], []
    for row in counts:
        again = {**given, "marginals": repeated(marginals, row), "log_likelihood": repeated(likelihood, row)}
        one = evaluate(repeated(y_true, row), repeated(y_pred, row), **again, n_resamples=0)
        table.append([each.value for each in figures(one)])
        wider.append([each.value for each in averages(one)])
    # Resampling moves calibration errors up: their interval is moved back, and holds the error.
    error, errors = found.calibration.expected_error, np.array(table)[:, -1]
    assert errors.mean() > error.value
    table = np.column_stack([np.array(table)[:, :-1], np.maximum(errors - errors.mean() + error.value, 0.0)])
    assert error.low < error.value < error.high
    low, high = np.quantile(table, [0.1, 0.9], axis=0)
    np.testing.assert_allclose([each.low for each in figures(found)], low, rtol=1e-12)
    np.testing.assert_allclose([each.high for each in figures(found)], high, rtol=1e-12)
    low, high = np.quantile(wider, [0.1, 0.9], axis=0)
    assert all(each.low <= end + 1e-12 for each, end in zip(averages(found), low, strict=True))
    assert all(each.high >= end - 1e-12 for each, end in zip(averages(found), high, strict=True))
    shares = found.calibration.curve
    defined = shares.counts > 0
    assert (shares.accuracy_low[defined] <= shares.accuracy[defined] + 1e-12).all()
    assert np.isnan(shares.accuracy_high[~defined]).all()


def test_a_draw_takes_as_many_sequences_as_there_are_each_as_likely():
    counts = resampling._draw_counts(np.random.default_rng(0), 4000, 7)
    np.testing.assert_array_equal(counts.sum(axis=1), 7)
    np.testing.assert_allclose(counts.mean(axis=0), 1.0, atol=5 * np.sqrt(6 / 7 / 4000))
    np.testing.assert_allclose(counts.var(axis=0), 6 / 7, rtol=0.15)


def test_interval_of_a_share_is_that_of_the_binomial_law():
    y_true = [[1]] * 400
    y_pred = [[1]] * 300 + [[0]] * 100
    found = evaluate(y_true, y_pred, n_resamples=4000, random_state=0).accuracy
    width = 1.96 * np.sqrt(0.75 * 0.25 / 400)
    assert found.value == 0.75
    np.testing.assert_allclose([found.low, found.high], [0.75 - width, 0.75 + width], atol=0.006)


def test_positions_of_a_sequence_are_not_taken_for_independent():
    """Ten copies of each label in a sequence tell no more than one."""
    y_true, y_pred = [[1]] * 200, [[1]] * 150 + [[0]] * 50
    longer = evaluate([10 * each for each in y_true], [10 * each for each in y_pred], random_state=0)
    assert longer.accuracy == evaluate(y_true, y_pred, random_state=0).accuracy


def test_a_rare_label_that_is_not_drawn_does_not_pull_its_scores_to_zero():
    figures = Resampling(4).estimate(np.array([0.5, 0.4, np.nan, 0.6, np.nan]), 2)
    assert figures.low == pytest.approx(0.405)
    assert figures.high == pytest.approx(0.595)


def test_one_of_one_right_is_not_certain():
    y_true, y_pred = [["a", "b"]] * 20 + [["rare", "a"]], [["a", "b"]] * 20 + [["rare", "a"]]
    found = evaluate(y_true, y_pred, n_resamples=50, random_state=0)
    scores = found.per_label["rare"]
    assert scores.recall.value == scores.precision.value == 1.0
    np.testing.assert_allclose([scores.recall.low, scores.recall.high], [0.2065, 1.0], atol=1e-4)
    np.testing.assert_allclose([scores.f1.low, scores.f1.high], [0.3424, 1.0], atol=1e-4)
    assert found.averages["macro"].recall.value == 1.0
    assert found.averages["macro"].recall.low < 0.75
    assert 0.8 < found.accuracy.low < 0.9


def test_what_is_never_predicted_has_no_interval_of_its_precision():
    never = evaluate([["a", "b"]] * 5, [["a", "a"]] * 5, n_resamples=50, random_state=0).per_label["b"]
    assert never.precision.value == 0.0
    assert np.isnan(never.precision.low)
    assert never.recall.low == never.f1.low == 0.0
    assert never.recall.high == pytest.approx(0.4345, abs=1e-4)


def test_impossible_sequences_keep_their_infinity():
    y = [["a"], ["b"], ["a", "b"]]
    found = evaluate(y, y, log_likelihood=[-1.0, -np.inf, -2.0], n_resamples=200, random_state=0).log_likelihood
    assert found.n_impossible == 1
    assert found.per_sequence.value == found.per_sequence.low == found.per_token.value == -np.inf
    assert found.per_sequence.high == pytest.approx(-1.0, abs=1.0)
    assert found.to_dict()["per_sequence"]["value"] is None
    fine = evaluate(y, y, log_likelihood=[-1.0, -3.0, -2.0], n_resamples=0).log_likelihood
    assert (fine.per_sequence, fine.per_token) == (Estimate(-2.0), Estimate(-1.5))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (-3.0, r"one value for each of the 3 sequences, got shape \(\): pass .*per_item=True"),
        ([-1.0, -2.0], r"got shape \(2,\)"),
        ([-1.0, 2.0, -1.0], "log_likelihood of sequence 1 is 2.0, .* pass log-likelihoods, not losses"),
        ([-1.0, -2.0, np.nan], "log_likelihood of sequence 2 is nan"),
    ],
)
def test_log_likelihoods_are_checked(values, words):
    with pytest.raises(ValueError, match=words):
        evaluate([["a"]] * 3, [["a"]] * 3, log_likelihood=values)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_resamples": -1}, "n_resamples must be a whole number, 0 for no intervals, got -1"),
        ({"n_resamples": 10.5}, "n_resamples must be"),
        ({"n_resamples": True}, "n_resamples must be"),
        ({"confidence": 95}, "confidence must be a number between 0 and 1, such as 0.95, got 95"),
        ({"confidence": "high"}, "confidence must be"),
        ({"random_state": "x"}, "random_state must be None"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        evaluate([["a"]], [["a"]], **settings)


def test_estimates_show_themselves():
    estimate = Estimate(0.5, 0.25, 0.75)
    assert str(estimate) == "0.500 [0.250, 0.750]"
    assert f"{estimate:+.1f}" == "+0.5 [+0.2, +0.8]"
    assert str(Estimate(0.5)) == "0.500"
    assert str(Estimate(0.5, np.nan, np.nan)) == "0.500 [–]"
    assert float(estimate) == 0.5


def test_a_comparison_is_paired(drawn):
    y_true, first = predictions(15, accuracy=0.5)
    second = [np.where(np.arange(len(labels)) == 0, labels, old) for labels, old in zip(y_true, first, strict=True)]
    found = compare(y_true, first, second, scheme="bio", n_resamples=50, confidence=0.9, random_state=0)
    counts = np.concatenate(drawn)
    for figure, metric in ((found.accuracy, token_accuracy), (found.entity_f1, entity_f1_score)):
        gaps = []
        for row in counts.astype(int):
            again = [
                [labels for labels, times in zip(y, row, strict=True) for _ in range(times)]
                for y in (y_true, first, second)
            ]
            gaps.append(metric(again[0], again[2]) - metric(again[0], again[1]))
        assert figure.difference.value == pytest.approx(figure.second.value - figure.first.value)
        np.testing.assert_allclose(
            [figure.difference.low, figure.difference.high], np.quantile(gaps, [0.05, 0.95]), rtol=1e-12
        )
        assert figure.share_better == pytest.approx(np.mean(np.greater(gaps, 0) + np.equal(gaps, 0) / 2))
    own = evaluate(y_true, first, scheme="bio", n_resamples=0)
    assert found.macro_f1.first.value == own.averages["macro"].f1.value
    assert found.sequence_accuracy.first.value == own.sequence_accuracy.value
    assert found.entity_f1.first.value == own.entities.averages["micro"].f1.value


def test_pairing_narrows_the_interval():
    y_true, first = predictions(300, accuracy=0.7)
    random = np.random.default_rng(4)
    second = [
        np.where(random.random(len(labels)) < 0.03, labels, old) for labels, old in zip(y_true, first, strict=True)
    ]
    accuracy = compare(y_true, first, second, random_state=0).accuracy
    assert accuracy.difference.low > 0
    assert accuracy.first.high > accuracy.second.low
    assert accuracy.share_better > 0.99


def test_equal_predictions_differ_by_nothing():
    y_true, y_pred = predictions()
    found = compare(y_true, y_pred, y_pred, scheme=None, random_state=0)
    assert found.accuracy.difference == found.macro_f1.difference == Estimate(0.0, 0.0, 0.0)
    assert found.accuracy.share_better == 0.5
    assert found.entity_f1 is None
    with pytest.raises(ValueError, match="sequence 0 has 3 labels in y_true but 1 in second"):
        compare([["a", "b", "a"]], [["a", "b", "a"]], [["a"]])


@pytest.mark.slow
def test_one_sequence_has_no_intervals():
    y = [["B-X", "O", "O"]]
    marginals = [np.array([[0.7, 0.3], [0.2, 0.8], [0.4, 0.6]])]
    found = evaluate(
        y, y, marginals=marginals, classes=["B-X", "O"], log_likelihood=[-1.0], scheme="bio", random_state=0
    )
    text, plain = str(found), found.to_dict()
    assert text.startswith("1 sequence, 3 positions; no intervals, as resamples of one sequence are all alike\n")
    assert "1.0000 [–]" in text.splitlines()[3]
    assert plain["accuracy"] == {"value": 1.0, "low": None, "high": None}
    figures = [found.accuracy, found.sequence_accuracy, found.log_likelihood.per_token, found.calibration.brier]
    figures += [found.calibration.expected_error, found.entities.averages["micro"].f1, found.per_label["O"].recall]
    assert np.isnan([[each.low, each.high] for each in figures]).all()
    assert np.isnan(found.calibration.curve.accuracy_low).all()
    assert "[–]" not in str(evaluate(y, y, n_resamples=0)), "none was asked for"
    page = report_page("One", evaluation=found)
    assert "1 sequence, 3 positions; no intervals, as resamples of one sequence are all alike." in page
    assert "1.000 [–]" in page
    differences = compare(y, y, [["O", "O", "O"]], random_state=0)
    assert differences.accuracy.share_better is None
    assert "-0.3333 [–]" in str(differences)


def test_figures_of_nothing_have_no_interval_among_others_that_have():
    y_true, y_pred = [["a", "b"], ["a", "c"], ["a", "b"]], [["a", "b"], ["b", "b"], ["a", "a"]]
    found = evaluate(y_true, y_pred, random_state=0)
    assert np.isnan(found.per_label["c"].precision.low), "never predicted"
    assert found.per_label["b"].precision.low < found.per_label["b"].precision.high
    reason = "[–] where there is too little to count"
    assert reason in str(found).splitlines()[0]
    assert reason in report_page("Three", evaluation=found)
    assert "[–]" not in str(evaluate(y_true + y_true, y_true + y_true, random_state=0))
