"""Named features of which some are numbers and others categories: numbers keep their kernel, categories are linear."""

import numpy as np
import pytest

from kernelfields import ChainCRF, SegmentCRF, load
from kernelfields.inputs import Layout, WindowStatistics
from kernelfields.numerics.window_statistics import window_names, with_window_columns
from kernelfields.serving import load_chain


def drawn(n_sequences: int, told: float, seed: int = 0):
    """Return sequences of dicts: a number that tells a little, one of noise, and a kind that is often the label."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.repeat(random.integers(0, 3, 5), 5)
        kinds = np.where(random.random(25) < told, np.array(["a", "b", "c"])[labels], random.choice(list("abc"), 25))
        noise, level = random.normal(scale=50.0, size=25), labels + random.normal(size=25)
        X.append([{"kind": k, "noise": n, "level": v} for k, n, v in zip(kinds.tolist(), noise, level, strict=True)])
        y.append(labels.tolist())
    return X, y


def names(crf):
    return [term.name for term in crf.field_.terms]


@pytest.mark.parametrize("estimator", [ChainCRF, SegmentCRF])
def test_categories_are_taken_where_they_tell(estimator, tmp_path):
    X, y = drawn(16, told=0.8)
    crf = estimator(random_state=0).fit(X, y)
    assert crf.choices_.chosen["categories"] > 0.0
    assert names(crf)[:2] == ["node", "categories"]
    columns = crf.feature_names_in_.tolist()
    assert sorted(columns[:2]) == ["level", "noise"]
    assert sorted(columns[2:]) == ["kind:a", "kind:b", "kind:c"]
    X_new, y_new = drawn(6, told=0.8, seed=1)
    assert crf.score(X_new, y_new) > 0.85
    shown = str(crf.weights())
    assert "kind:a" in shown
    crf.save(tmp_path / "field.kfm")
    again = load(tmp_path / "field.kfm").predict_marginals(X_new)
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(crf.predict_marginals(X_new)))
    if estimator is ChainCRF:
        served = load_chain(tmp_path / "field.kfm").predict_marginals(X_new)
        np.testing.assert_allclose(np.concatenate(served), np.concatenate(again), atol=1e-9)


def test_the_field_is_that_of_numbers_where_categories_tell_nothing():
    X, y = drawn(16, told=0.0)
    crf = ChainCRF(random_state=0).fit(X, y)
    assert crf.choices_.chosen["categories"] == 0.0
    assert "categories" not in names(crf)
    order = crf.feature_names_in_.tolist()[:2]
    numbers = [np.array([[position[name] for name in order] for position in x]) for x in X]
    alone = ChainCRF(random_state=0).fit(numbers, y)
    assert {name: crf.choices_.chosen[name] for name in alone.choices_.chosen} == alone.choices_.chosen
    for own, other in zip(crf.predict_marginals(X), alone.predict_marginals(numbers), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-8)


def test_statistics_of_windows_are_of_numbers():
    rows, offsets = np.array([[1.0, 1.0], [3.0, 0.0], [5.0, 1.0]]), np.array([0, 3])
    step = WindowStatistics(categories=1)
    joined = step(rows, Layout(offsets))
    np.testing.assert_array_equal(joined[:, :-1], with_window_columns(rows[:, :1], offsets))
    np.testing.assert_array_equal(joined[:, -1], rows[:, 1])
    assert step.names(["level", "kind"]) == [*window_names(["level"]), "kind"]
    assert step.columns(np.array([0, 1]), 2).tolist() == [0, joined.shape[1] - 1]


def test_a_fit_goes_on_with_the_same_parts():
    X, y = drawn(16, told=0.8)
    crf = ChainCRF(random_state=0, warm_start=True).fit(X, y)
    before = names(crf)
    assert names(crf.fit(X, y)) == before


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"support": "observed"}, {"window": 3}])
def test_what_users_say_keeps_features_as_they_come(settings):
    X, y = drawn(4, told=0.8)
    crf = ChainCRF(**settings, random_state=0).fit(X, y)
    assert crf._reader.rows.categories == 0
    assert "categories" not in names(crf)
