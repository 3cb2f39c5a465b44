"""The known densities of the experiment: drawn from by rejection, so that their bounds must hold."""

import numpy as np
import pytest

from experiments.density import DENSITIES, slope


@pytest.mark.parametrize("known", DENSITIES.values(), ids=DENSITIES.keys())
def test_samples_have_the_mean_of_the_density(known):
    grid = known.grid()
    values = known.density(grid)
    assert values.min() > 0
    assert values.max() <= known.highest
    drawn = known.sample(4000, np.random.default_rng(0))
    mean = values @ grid / values.sum()
    deviation = np.sqrt(values @ (grid - mean) ** 2 / values.sum())
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4.5 * deviation / np.sqrt(4000))


def test_the_slope_of_a_power_is_its_exponent():
    sizes = [100, 1000, 10_000]
    np.testing.assert_allclose(slope(sizes, [3.0 * n**-0.75 for n in sizes]), -0.75)
