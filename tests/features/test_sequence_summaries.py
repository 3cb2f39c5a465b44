"""Summaries of whole sequences: what each column is, and what cannot be summarised."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from kernelfields import KernelClassifier, load, save
from kernelfields.features import SequenceSummaries

random = np.random.default_rng(0)
X = [random.normal(size=(length, 2)) for length in (1, 2, 7, 30)]


def test_columns_are_the_statistics_that_their_names_say():
    frames = [pd.DataFrame(x, columns=["a", "b"]) for x in X]
    summaries = SequenceSummaries(parts=3).fit(frames)
    made = pd.DataFrame(summaries.transform(frames), columns=summaries.get_feature_names_out())
    assert made.shape == (4, 5 * 2 * 4 + 1)
    plain = {"mean": np.mean, "deviation": np.std, "minimum": np.min, "maximum": np.max}
    for row, x in zip(made.to_dict("records"), X, strict=True):
        thirds = [x, *(part if len(part) else x for part in np.array_split(x, 3))]
        for place, part in zip(["", *(f", part {n} of 3" for n in (1, 2, 3))], thirds, strict=True):
            for name, values in zip("ab", part.T, strict=True):
                for what, statistic in plain.items():
                    assert row[f"{what} of {name}{place}"] == pytest.approx(statistic(values))
                line = np.polyfit(np.linspace(0, 1, len(part)), values, 1)[0] if len(part) > 1 else 0.0
                assert row[f"slope of {name}{place}"] == pytest.approx(line)
        assert row["log length"] == np.log(len(x))
    assert SequenceSummaries(parts=1).fit_transform(X).shape == (4, 11)
    assert clone(summaries).parts == 3


def test_a_classifier_on_summaries_sees_the_order_and_is_kept_in_a_file(tmp_path):
    y = np.arange(60) % 2
    waves = [np.where(own, 1.0, -1.0) * np.linspace(-1, 1, 8)[:, None] + random.normal(size=(8, 1)) for own in y]
    model = make_pipeline(SequenceSummaries(), KernelClassifier("rbf", prior_variance=1.0, random_state=0))
    assert model.fit(waves[:40], y[:40]).score(waves[40:], y[40:]) > 0.8
    save(model, tmp_path / "waves.safetensors")
    assert np.array_equal(load(tmp_path / "waves.safetensors").predict(waves), model.predict(waves))


def test_what_cannot_be_summarised():
    with pytest.raises(ValueError, match="parts must be"):
        SequenceSummaries(parts=0).fit(X)
    with pytest.raises(TypeError, match="X is sparse"):
        SequenceSummaries().fit([sp.csr_array(x) for x in X])
    with pytest.raises(ValueError, match="sequence 1 of X is empty"):
        SequenceSummaries().fit(X).transform([X[0], np.zeros((0, 2))])
    with pytest.raises(ValueError, match="3"):
        SequenceSummaries().fit(X).transform([np.zeros((4, 3))])
