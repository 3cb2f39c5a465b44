"""WindowFeatures: means, differences and ranges around each position, within its sequence."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kernelfields
from kernelfields import ChainCRF, FrameCRF
from kernelfields.features import SequenceUnion, WindowFeatures
from tests.samples import labelled_sequences

RANDOM = np.random.default_rng(0)
X = [RANDOM.normal(size=(length, 2)) for length in (1, 2, 7, 30)]
ALL = ("mean", "difference", "range")


def by_hand(x, width, statistic):
    """The statistic of each position, from the rows around it."""
    half, made = width // 2, []
    for t, own in enumerate(x):
        around = x[max(0, t - half) : t + half + 1]
        before, after = x[max(0, t - half) : t], x[t + 1 : t + half + 1]
        made.append(
            {
                "mean": around.mean(axis=0),
                "difference": (after.mean(axis=0) if len(after) else own)
                - (before.mean(axis=0) if len(before) else own),
                "range": np.ptp(around, axis=0),
            }[statistic]
        )
    return np.array(made)


@pytest.mark.parametrize("level", [0.0, 1e6])
def test_columns_are_those_of_the_rows_around(level):
    sequences = [level + x for x in X]
    windows = WindowFeatures(widths=(3, 9), statistics=ALL)
    made = windows.fit_transform(sequences)
    for ours, x in zip(made, sequences, strict=True):
        parts = [by_hand(x, width, statistic) for width in (3, 9) for statistic in ALL]
        np.testing.assert_allclose(ours, np.hstack([x, *parts]), atol=1e-8 if level == 0.0 else 1e-6)
    names = windows.get_feature_names_out()
    assert len(names) == made[0].shape[1]
    assert names[[0, 2, 4, 8]].tolist() == ["x0", "mean 3 of x0", "difference 3 of x0", "mean 9 of x0"]


def test_equal_windows_have_equal_columns_wherever_they_are():
    other = [RANDOM.normal(size=(50, 2)) for _ in range(20)]
    made = WindowFeatures(widths=(3, 9), statistics=ALL).fit_transform([X[3], *other, X[3]])
    np.testing.assert_array_equal(made[0], made[-1])
    flags = WindowFeatures(widths=3).fit_transform([*np.eye(3)[RANDOM.integers(3, size=(20, 50))], np.zeros((9, 3))])
    assert len(np.unique(flags[-1], axis=0)) == 1


def test_empty_sequences_and_nothing_at_all():
    windows = WindowFeatures(widths=3).fit(X)
    assert windows.transform([]) == []
    assert [len(made) for made in windows.transform([np.zeros((0, 2)), X[1]])] == [0, 2]
    assert windows.transform([np.zeros((0, 2))])[0].shape == (0, 8)


def test_in_pipelines_searches_unions_and_files(tmp_path):
    sequences, labels = labelled_sequences(n_sequences=8, longest=6, n_labels=2)
    pipeline = make_pipeline(WindowFeatures(widths=(3,)), ChainCRF("linear", prior_variance=1.0))
    grid = {"windowfeatures__widths": [(3,), (3, 5)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(sequences, labels)
    found = search.best_estimator_
    kernelfields.save(found, tmp_path / "model")
    read = kernelfields.load(tmp_path / "model")
    rows = read[0].transform(sequences)
    for ours, theirs in zip(
        read[1].predict_marginals(rows), found[1].predict_marginals(found[0].transform(sequences)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    union = SequenceUnion([("windows", clone(found[0])), ("as they are", "passthrough")])
    assert (
        union.fit_transform(sequences)[0].shape[1] == found[0].transform(sequences)[0].shape[1] + sequences[0].shape[1]
    )


def test_names_of_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(x, columns=["heat", "light"]) for x in X]
    windows = WindowFeatures(widths=3).fit(frames)
    assert windows.feature_names_in_.tolist() == ["heat", "light"]
    assert windows.get_feature_names_out()[2] == "mean 3 of heat"
    turned = [frame[["light", "heat"]] for frame in frames]
    with pytest.raises(ValueError, match="heat"):
        windows.transform([turned[3].rename(columns={"heat": "warmth"})])
    table = pandas.concat([frame.assign(day=number, state=frame.heat > 0) for number, frame in enumerate(frames)])
    model = make_pipeline(WindowFeatures(widths=3), ChainCRF("linear", prior_variance=1.0))
    field = FrameCRF(model, sequence="day").fit(table[["day", "heat", "light"]], table["state"])
    assert len(field.predict(table[["day", "heat", "light"]])) == len(table)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"widths": 4}, "widths must be odd whole numbers from 3 on, got 4"),
        ({"widths": (5, 1)}, "widths must be odd whole numbers from 3 on, got 1"),
        ({"widths": ()}, "widths must be odd whole numbers"),
        ({"widths": "5"}, "widths must be odd whole numbers from 3 on, got '5'"),
        ({"statistics": ("mean", "median")}, "statistics must be names among mean, .*, got 'median'"),
        ({"statistics": ()}, "statistics must be names"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        WindowFeatures(**parameters).fit(X)


def test_inputs_are_checked():
    with pytest.raises(TypeError, match="X is sparse"):
        WindowFeatures().fit([sp.csr_array(x) for x in X])
    with pytest.raises(TypeError, match="X holds graphs, whose nodes have no order"):
        WindowFeatures().fit([(x, np.zeros((0, 2), dtype=int)) for x in X])
    with pytest.raises(ValueError, match="sequence 0 holds nan"):
        WindowFeatures().fit([np.full((3, 2), np.nan)])
    with pytest.raises(ValueError, match="X has 3 features per position, but this model was fitted with 2"):
        WindowFeatures().fit(X).transform([np.zeros((4, 3))])


@pytest.mark.parametrize("large", [1e14, -3.4e38, 1e300])
def test_windows_see_neither_other_sequences_nor_rows_elsewhere_in_their_own(large):
    x = X[3].copy()
    windows = WindowFeatures(widths=(3, 9), statistics=ALL).fit(X)
    alone = windows.transform([x])[0]
    np.testing.assert_array_equal(windows.transform([x, np.full((8, 2), large)])[0], alone)
    np.testing.assert_array_equal(windows.transform([np.full((8, 2), large), x])[1], alone)
    longer = windows.transform([np.vstack([x, np.full((1, 2), large)])])[0]
    np.testing.assert_array_equal(longer[: len(x) - 4], alone[:-4])


def test_means_are_those_of_exact_sums_and_constants_stay_what_they_are():
    from fractions import Fraction

    x = np.random.default_rng(1).normal(size=40)[:, None] * 10.0 ** np.random.default_rng(2).integers(-9, 9, (40, 1))
    made = WindowFeatures(widths=(9,), statistics=("mean",)).fit_transform([x])[0][:, 1]
    for t, mean in enumerate(made):
        around = x[max(0, t - 4) : t + 5, 0]
        exact = sum(map(Fraction, around.tolist())) / len(around)
        assert abs(Fraction(float(mean)) - exact) <= 4 * 2.0**-52 * float(np.abs(around).mean())
    for constant in (0.1, 1.7e308, 5e-324):
        same = WindowFeatures(statistics=ALL).fit_transform([np.full((100, 1), constant)])[0]
        np.testing.assert_array_equal(np.unique(same[:, [0, 1, 4, 7]]), [constant])
        np.testing.assert_array_equal(same[1:-1, [3, 5, 6, 8, 9]], 0.0)


def test_ranges_of_the_largest_numbers_are_finite():
    x = np.array([[-3e38], [3e38], [0.0]], dtype=np.float32)
    crf = ChainCRF("linear", prior_variance=1.0, scale=False, window="statistics")
    crf.fit([np.zeros((3, 1), np.float32), np.ones((3, 1), np.float32)], [[0, 0, 0], [1, 1, 1]])
    assert np.isfinite(crf.predict_marginals([x])[0]).all()
