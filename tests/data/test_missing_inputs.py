"""Missing inputs: every estimator names rows, columns and the remedy, in one line."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, ExponentialFamilyDensity, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.features import Sequencewise

HOLES = np.random.default_rng(0).normal(size=(6, 5))
HOLES[[1, 1, 4], [0, 3, 3]] = np.nan, np.nan, np.inf
LABELS = np.array([0, 1, 0, 1, 1, 0])


def fit_chains(X):
    return ChainCRF("linear").fit([X[:1], X[1:]], [LABELS[:1], LABELS[1:]])


def fit_density(X):
    return ExponentialFamilyDensity("rbf", rank=3, n_nodes=64).fit(X)


ASKED = {
    "chain": fit_chains,
    "chain, sparse": lambda X: fit_chains(sp.csr_array(X)),
    "graph": lambda X: GraphCRF("linear").fit([(X, [(0, 1), (1, 2)])], [LABELS]),
    "single": lambda X: KernelClassifier("linear").fit(X, LABELS),
    "single, sparse": lambda X: KernelClassifier("linear").fit(sp.csr_array(X), LABELS),
    "labels": lambda X: MultiLabelCRF("linear").fit(X, np.eye(2, dtype=int)[LABELS]),
    "density": fit_density,
    "density, asked": lambda X: fit_density(np.eye(6)[:, :5]).score_samples(X),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*log partition.*")
@pytest.mark.parametrize("case", ASKED)
def test_an_error_names_the_rows_the_columns_and_the_remedy(case):
    where = {"chain": "sequence 1 holds nan in row 0", "graph": "node_features of graph 0 holds nan in row 1"}
    with pytest.raises(ValueError, match="holds") as caught:
        ASKED[case](HOLES)
    said = str(caught.value)
    place = where.get(case.partition(",")[0], "X holds nan in row 1")
    assert said.startswith(f"{place}, column 0: inputs must be finite.")
    assert "in 2 rows of X, in columns 0, 3." in said
    assert "sklearn.impute.SimpleImputer" in said
    assert "\n" not in said


def test_the_remedy_works():
    """Filled in pipelines, sequences by ``Sequencewise``; and columns that say where values were missing."""
    X = np.where(np.isinf(HOLES), np.nan, HOLES)
    filled = make_pipeline(SimpleImputer(), KernelClassifier("linear")).fit(X, LABELS)
    assert filled.predict_proba(X).shape == (6, 2)
    marked = np.hstack([X, np.isnan(X[:, [0, 3]])])
    chains = make_pipeline(Sequencewise(SimpleImputer()), ChainCRF("linear")).fit([marked], [LABELS])
    assert chains.predict([marked])[0].shape == (6,)
