"""Losses of held-out items: sums over positions, and the test by which fields are compared."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from kernelfields.models.item_losses import ItemLosses
from kernelfields.models.position_loss import compute_losses, position_loss


def one_each(losses):
    """Items of one position of weight one."""
    return ItemLosses.from_positions(np.arange(len(losses)), np.asarray(losses), np.ones(len(losses)))


def test_positions_of_an_item_are_added_up_in_one_part_or_in_several():
    random = np.random.default_rng(0)
    items, losses, weights = random.integers(2, 6, size=30), random.random(30), random.random(30)
    whole = ItemLosses.from_positions(items, losses, weights)
    assert whole.items.tolist() == [2, 3, 4, 5]
    for item, total, weight in zip(whole.items, whole.losses, whole.weights, strict=True):
        own = items == item
        assert total == pytest.approx(np.sum(weights[own] * losses[own]))
        assert weight == pytest.approx(weights[own].sum())
    parts = [ItemLosses.from_positions(items[own], losses[own], weights[own]) for own in (slice(11), slice(11, None))]
    joined = ItemLosses.concatenate(parts)
    np.testing.assert_array_equal(joined.items, whole.items)
    np.testing.assert_allclose(joined.losses, whole.losses)
    np.testing.assert_allclose(joined.weights, whole.weights)


def test_items_of_one_size_are_compared_as_by_a_paired_t_test():
    random = np.random.default_rng(1)
    found = []
    for shift in np.linspace(-0.5, 1.0, 40):
        other = random.random(7)
        own = other + shift * random.random(7) + 0.1 * random.normal(size=7)
        expected = scipy.stats.ttest_rel(own, other, alternative="greater").pvalue < 0.05
        found.append(one_each(own).is_worse(one_each(other)))
        assert found[-1] == expected
    assert 5 < sum(found) < 35


def test_one_item_decides_alone_and_a_field_is_not_worse_than_itself():
    assert one_each([0.2]).is_worse(one_each([0.1]))
    assert not one_each([0.1]).is_worse(one_each([0.1]))
    same = one_each([0.3, 0.1, 0.2])
    assert not same.is_worse(same)


def test_losses_of_positions_average_to_the_loss_of_all():
    random = np.random.default_rng(2)
    marginals = random.dirichlet(np.ones(3), size=50)
    labels, weights = random.integers(3, size=50), random.random(50)
    logs = np.where(labels[:, None] == np.arange(3), 0.0, -np.inf)
    for known in (labels, logs):
        losses = compute_losses(marginals, known)
        np.testing.assert_allclose(losses, -np.log(marginals[np.arange(50), labels]))
        assert np.average(losses, weights=weights) == pytest.approx(position_loss(marginals, known, weights).loss)
