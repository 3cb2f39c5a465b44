"""Section 2.2: exponential families with rich kernels come close to any continuous, positive density."""

import numpy as np
import pytest

from kernelfields.basis import GreedyCholesky, PanelCholesky
from kernelfields.families import FiniteFamily
from kernelfields.kernels import RBF, Laplacian

GRID = (np.arange(400) + 0.5)[:, None] / 400
KINK = np.exp(-4 * np.abs(GRID[:, 0] - 0.4)) + 0.2
KINK /= KINK.mean()


def families(kernel, ranks):
    """The families that more and more pivots span, on a fine grid of [0, 1] with the uniform base measure."""
    for rank in ranks:
        panel = PanelCholesky(kernel, GRID, rank)
        GreedyCholesky().select(panel, np.random.default_rng(0))
        yield FiniteFamily(panel.features, np.full(len(GRID), 1 / len(GRID)))


@pytest.mark.parametrize("kernel", [RBF(100.0), Laplacian(5.0)], ids=repr)
def test_proposition_3_the_closest_members_converge_uniformly_to_a_density_with_a_kink(kernel):
    """The member of least KL from p has p's mean of the statistics; it comes as near to p as the rank allows."""
    errors = []
    for family in families(kernel, (4, 8, 16, 32)):
        mean = KINK / len(GRID) @ family.statistics
        member = family.estimate(mean, precision=1e-9).member
        errors.append(np.abs(member.probabilities * len(GRID) - KINK).max())
    assert np.all(np.diff(errors) < 0)
    assert errors[-1] < 0.15 * errors[0]


def test_proposition_3_an_error_in_f_bounds_the_errors_of_g_and_of_log_p():
    """The steps of the proof: |f - log p| <= e implies |g(f)| <= e, hence |log p_f - log p| <= 2 e."""
    for family in families(RBF(60.0), (4, 8, 16)):
        theta = np.linalg.lstsq(family.statistics, np.log(KINK), rcond=None)[0]
        error = np.abs(family.statistics @ theta - np.log(KINK)).max()
        assert abs(family.log_partition(theta)) <= error
        logs = family.log_probabilities(theta) + np.log(len(GRID))
        assert np.abs(logs - np.log(KINK)).max() <= 2 * error
