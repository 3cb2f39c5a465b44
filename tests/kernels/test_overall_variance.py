"""The variance of all entries, behind gamma="scale": rows of weight 2 are rows that are there twice."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.kernels.parameters import overall_variance, resolve_rule

X = np.random.default_rng(0).normal(2.0, 3.0, size=(7, 3)) * (np.random.default_rng(1).random((7, 3)) < 0.6)
COUNTS = np.array([1, 0, 2, 5, 1, 3, 1])
FORMS = {"dense": np.asarray, "sparse": sp.csr_array}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_that_of_the_entries_zeros_included(form):
    assert overall_variance(FORMS[form](X)) == pytest.approx(X.var(), rel=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_weights_count_rows(form, unit):
    """Only ratios of weights matter: a quarter of each leaves the variance."""
    expected = np.repeat(X, COUNTS, axis=0).var()
    assert overall_variance(FORMS[form](X), unit * COUNTS) == pytest.approx(expected, rel=1e-13)


def test_rules_are_one_over_the_columns_and_one_over_their_variance():
    assert resolve_rule("auto", X) == 1 / 3
    assert resolve_rule("scale", X) == pytest.approx(1 / (3 * X.var()), rel=1e-13)
    assert resolve_rule("scale", X, COUNTS) == pytest.approx(1 / (3 * np.repeat(X, COUNTS, axis=0).var()), rel=1e-13)
    assert resolve_rule("scale", np.full((4, 2), 0.1)) == 1.0
