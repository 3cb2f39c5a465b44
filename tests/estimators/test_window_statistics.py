"""Statistics of windows as columns of a field: chosen on held-out sequences, kept in files, named in explanations."""

from __future__ import annotations

import numpy as np
import pytest

from kernelfields import ChainCRF, RingCRF, SegmentCRF, WindowFeatures
from kernelfields.data import LabelSymmetry
from kernelfields.kernels import RBF, Columns, Laplacian
from kernelfields.serving import ServingError, load_chain, to_onnx


def slopes(n_sequences=14, seed=0):
    """Sequences whose label says whether noisy columns rise or fall for twenty positions."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(2, size=5), 20) for _ in range(n_sequences)]
    return [np.cumsum(labels - 0.5)[:, None] / 5 + random.normal(size=(100, 2)) for labels in y], y


X, Y = slopes()
FIXED = {"kernel": "rbf", "prior_variance": 0.1, "scale": True, "rank": 40, "random_state": 0}


@pytest.mark.parametrize("cls", [ChainCRF, SegmentCRF])
def test_the_field_is_that_of_a_pipeline_with_window_features(cls):
    crf = cls(window="statistics", **FIXED).fit(X, Y)
    seen = WindowFeatures().fit_transform(X)
    beside = cls(window=1, **FIXED).fit(seen, Y)
    assert crf.n_features_in_ == 2
    for one, other in zip(crf.predict_marginals(X), beside.predict_marginals(seen), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert crf._inspection.feature_names(crf, crf.field_.terms[0], None)[2] == "mean 5 of x0"


@pytest.mark.slow
def test_they_are_chosen_where_held_out_sequences_are_predicted_better():
    crf = ChainCRF(random_state=0).fit(X, Y)
    assert crf.choices_.chosen["window"] == "statistics"
    assert {trial.settings.get("window") for trial in crf.choices_.trials} == {1, "statistics", None}
    new, labels = slopes(10, seed=1)
    assert crf.score(new, labels) > ChainCRF(window=1, random_state=0).fit(X, Y).score(new, labels)
    for given in ({"window": 1}, {"kernel": "rbf"}):
        fixed = ChainCRF(random_state=0, **given).fit(X, Y)
        assert not any("window" in trial.settings for trial in fixed.choices_.trials)
    assert ChainCRF(prior_variance=1.0, random_state=0).fit(X, Y).choices_.chosen["window"] == "statistics"


def test_a_sum_of_kernels_on_own_columns_and_on_windows_is_chosen_kept_and_goes_on(tmp_path):
    """Labels follow the slow level of a noisy column, and two others at the position itself, in a curve."""
    random = np.random.default_rng(0)
    levels = [np.repeat(random.integers(2, size=5), 20) for _ in range(14)]
    seen = [np.column_stack([own + 2.0 * random.normal(size=100), random.normal(size=(100, 2))]) for own in levels]
    y = [2 * own + (x[:, 1] * x[:, 2] > 0) for own, x in zip(levels, seen, strict=True)]
    crf = ChainCRF(warm_start=True, random_state=0).fit(seen, y)
    chosen, name = crf.choices_.chosen, "Columns(RBF(), 0, 3) + Laplacian()"
    assert {trial.settings.get("kernel") for trial in crf.choices_.trials} >= {name, "rbf", "laplacian"}
    assert (chosen["window"], chosen["kernel"]) == ("statistics", name)
    given = {each: chosen[each] for each in ("prior_variance", "scale", "window", "rank") if each in chosen}
    same = ChainCRF(Columns(RBF(), 0, 3) + Laplacian(), random_state=0, **given).fit(seen, y)
    expected = np.vstack(crf.predict_marginals(seen))
    np.testing.assert_allclose(np.vstack(same.predict_marginals(seen)), expected, rtol=1e-6, atol=1e-8)
    crf.save(tmp_path / "model.kfm")
    np.testing.assert_array_equal(np.vstack(ChainCRF.load(tmp_path / "model.kfm").predict_marginals(seen)), expected)
    assert str(crf.fit(seen, y).field_.terms[0].clique.kernel) == str(same.field_.terms[0].clique.kernel)


def test_files_keep_them_and_a_later_fit_goes_on_with_them(tmp_path):
    crf = ChainCRF(window="statistics", warm_start=True, **FIXED).fit(X, Y)
    crf.save(tmp_path / "model.kfm")
    expected = np.vstack(crf.predict_marginals(X))
    np.testing.assert_array_equal(np.vstack(ChainCRF.load(tmp_path / "model.kfm").predict_marginals(X)), expected)
    served = load_chain(tmp_path / "model.kfm")
    np.testing.assert_allclose(np.vstack(served.predict_marginals(X)), expected, rtol=1e-6, atol=1e-9)
    assert np.vstack(crf.fit(X[:5], Y[:5]).predict_marginals(X)).shape == expected.shape


def test_what_cannot_see_windows_says_so(tmp_path):
    crf = ChainCRF(window="statistics", **FIXED).fit(X, Y)
    with pytest.raises(ValueError, match=r"a stream sees one position after the other.*fit with window=1"):
        crf.stream()
    pytest.importorskip("onnx")
    with pytest.raises(ServingError, match="statistics of windows"):
        to_onnx(crf, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("field", "error", "text"),
    [
        (
            ChainCRF(window="wide"),
            ValueError,
            # Other tests may have registered steps that a window asks for.
            "window must be 'auto', 'statistics',.* an odd number or a pair, got 'wide'",
        ),
        (RingCRF(window="statistics"), ValueError, "a ring has no end"),
        (ChainCRF(window="statistics", ties=LabelSymmetry({0: 1, 1: 0})), ValueError, "ties move columns of inputs"),
    ],
)
def test_windows_that_are_none_are_refused(field, error, text):
    with pytest.raises(error, match=text):
        field.fit(X, Y)


def test_features_that_are_there_or_not_have_no_statistics():
    with pytest.raises(TypeError, match="window='statistics' is for columns of numbers"):
        ChainCRF(window="statistics").fit([[{"a": 1.0}]] * 3, [[0], [1], [0]])
