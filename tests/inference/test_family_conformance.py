"""Every family of labellings answers as an enumeration of all its labellings does.

The families are the lines of ``CASES`` in family_cases.py; all tests here run for each of them, on items of several
lengths, with one label, with potentials of hundreds of nats, forbidden labels and steps, base measures of constraints,
allowed labels and log-weights together, and weights of which some are zero.

A new family enters by one line: a function that makes it for :class:`Items`, and one that enumerates its labellings,
for most an ``Enumeration`` with groups of ``Cliques`` (tests/oracles/families.py); which parts its base measure may
have, and what it has no answer for (``lacks``). Families that are not exact enter in ``APPROXIMATIONS``, with what
they promise.
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import chisquare

from kernelfields.data.segments import Segmentation
from kernelfields.inference import Placement, Potentials, SegmentFamily
from kernelfields.inference.potentials import Statistics
from kernelfields.numerics import Workers
from tests.inference.family_cases import (
    APPROXIMATIONS,
    CASES,
    SETTINGS,
    Items,
    problem,
    random_potentials,
    tables_of,
    zero_tables,
)
from tests.samples import make_offsets

MODERATE = [setting for setting in SETTINGS if SETTINGS[setting].spread == 1.0]
SOME = ["plain", "measured and large"]


def for_all(needs=None, settings=tuple(SETTINGS)):
    """Run a test for all families that have what it ``needs``, in some settings."""
    return pytest.mark.parametrize(
        ("case", "setting"),
        [
            (case, setting)
            for case in CASES
            for setting in settings
            if needs not in CASES[case].lacks and CASES[case].fits(SETTINGS[setting])
        ],
    )


def assert_tables(solved, found, expected, atol):
    """Compare potentials of the family with tables of the enumeration; rows that are no cliques are zero."""
    found = solved.case.layout.take(solved.family, found)
    assert list(found.tables) == [name for name in expected if name is not None]
    for name, table in expected.items():
        assert found[name].shape == (len(table), *solved.family.arrangement.group(name).row)
        np.testing.assert_allclose(found[name].reshape(table.shape), table, rtol=0, atol=atol, err_msg=str(name))


def weights_of(solved):
    """The weights that the family is asked with."""
    return [None] if "weights" in solved.case.lacks else [None, solved.weights]


@for_all()
def test_groups_and_zeros(case, setting):
    solved = problem(case, setting)
    family, enumeration = solved.family, solved.enumeration
    assert (family.exact, family.bound) == (True, "exact")
    assert family.method
    assert (family.n_items, family.n_positions) == (len(enumeration.items), enumeration.offsets[-1])
    assert family.n_labels == enumeration.n_labels
    assert [group.name for group in family.groups] == list(enumeration.groups)
    zeros = solved.case.layout.take(family, family.zeros())
    for group, cliques in zip(family.groups, enumeration.groups.values(), strict=True):
        assert (group.n_rows, group.size) == enumeration.shape(group.name)
        assert group.tied == cliques.tied
        assert zeros[group.name].shape == (1 if group.tied else group.n_rows, *group.row)
        assert not zeros[group.name].any()
        assert (group.items is None) == (group.name in enumeration.shared_rows)
    with pytest.raises(ValueError, match="no cliques are called 'nothing'"):
        family.arrangement.group("nothing")


@for_all()
def test_log_partition_and_mean(case, setting):
    solved = problem(case, setting)
    ways = {}, {"keep": False}, {"workers": Workers(2, least_work=1)}
    for weights, options in product(weights_of(solved), ways):
        expected, member = solved.enumerated(weights), solved.distribution(weights=weights, **options)
        log_partition = solved.case.layout.by_item(solved.family, member.log_partition)
        np.testing.assert_allclose(log_partition, expected.log_partition, rtol=1e-12, atol=1e-11)
        mean = member.mean()
        assert_tables(solved, mean, expected.mean(), solved.near)
        mean.scale(2.0)  # the caller may change it
        assert_tables(solved, member.mean(), expected.mean(), solved.near)


@for_all()
def test_marginals(case, setting):
    solved = problem(case, setting)
    expected, member = solved.enumerated(), solved.distribution()
    for group in solved.family.groups:
        rows, found = expected.marginals(group.name), member.marginals(group.name)
        if group.items is None:
            found = found * solved.enumeration.offsets[-1]  # shares of all positions
        else:
            found = solved.case.layout.by_row(solved.family, found)
        assert found.shape == (group.n_rows, *group.row)
        np.testing.assert_allclose(found.reshape(rows.shape), rows, rtol=0, atol=solved.near, err_msg=str(group.name))
    if "likeliest" not in solved.case.lacks:
        labels = expected.marginals(None)
        chosen = labels[np.arange(len(labels)), member.likeliest()]
        np.testing.assert_allclose(chosen, labels.max(axis=1), atol=solved.near)


@for_all("covariances")
def test_covariance_products(case, setting):
    solved = problem(case, setting)
    direction = solved.random_potentials()
    for weights, keep in product(weights_of(solved), (True, False)):
        expected = solved.enumerated(weights).covariance_product(tables_of(solved.enumeration, direction))
        found = solved.distribution(weights=weights, keep=keep).covariance_product(solved.put(direction))
        assert_tables(solved, found, expected, 10 * solved.near)


@for_all("entropy")
def test_entropies(case, setting):
    solved = problem(case, setting)
    expected = solved.enumerated()
    for member in (solved.distribution(), solved.distribution(keep=False)):
        np.testing.assert_allclose(member.entropy(), expected.entropy(), rtol=1e-9, atol=solved.near)


# ---- best labellings and samples


def assert_ranked(solved, potentials, k):
    """The best k have the best scores, are all different, and have the scores that they are said to have."""
    expected = solved.enumerated(potentials=potentials)
    labels, scores = solved.family.labellings(solved.put(potentials)).best()
    ranked, ranked_scores = solved.family.labellings(solved.put(potentials)).n_best(k)
    for item, (begin, end) in enumerate(pairwise(solved.items.offsets.tolist())):
        best, known = expected.ranked(item, k), expected.labellings(item)
        assert scores[item] == pytest.approx(best[0], rel=1e-12, abs=1e-10)
        assert known[tuple(labels[begin:end].tolist())][1] == pytest.approx(best[0], rel=1e-12, abs=1e-10)
        np.testing.assert_allclose(ranked_scores[item], best, rtol=1e-12, atol=1e-10)
        assert ranked[item].shape == (len(best), end - begin)
        if not isinstance(solved.family, SegmentFamily):
            assert len(np.unique(ranked[item], axis=0)) == len(best)
            own = [known[tuple(row)][1] for row in ranked[item].tolist()]
            np.testing.assert_allclose(own, ranked_scores[item], rtol=1e-12, atol=1e-10)


@for_all("best")
def test_best_labellings(case, setting):
    solved = problem(case, setting)
    for k in (1, 4, 1000):
        assert_ranked(solved, solved.potentials, k)


@for_all("best", settings=SOME)
def test_ties_are_all_there(case, setting):
    """Potentials of zero and one: many labellings have the same score, and none is listed twice."""
    solved = problem(case, setting)
    spread = solved.random_potentials()
    ties = spread.with_arrays(np.round(np.abs(array)) for array in spread.arrays)
    assert_ranked(solved, ties, 9)
    first = solved.family.labellings(solved.put(ties)).n_best(9)[0]
    again = solved.family.labellings(solved.put(ties)).n_best(9)[0]
    for ours, theirs in zip(first, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("case", [case for case in CASES if CASES[case].repeats is not None])
def test_best_segmentations_are_all_different(case, setting):
    solved, workers = problem(case, setting), Workers(1)
    expected, k = solved.enumerated(), 5
    labels, begins, scores = solved.family.n_best_segmentations(solved.put(solved.potentials), k, workers)
    for item, (begin, end) in enumerate(pairwise(solved.items.offsets.tolist())):
        own = solved.enumeration.items[item]
        rows = np.hstack([own.labels, own.begins]).tolist()
        known = dict(zip(map(tuple, rows), expected.scores[item], strict=True))
        count = len(expected.ranked(item, k))
        found = [
            (*labels[rank, begin:end].tolist(), *begins[rank, begin:end].astype(int).tolist()) for rank in range(count)
        ]
        assert len(set(found)) == count
        np.testing.assert_allclose([known[each] for each in found], scores[item, :count], rtol=1e-12, atol=1e-10)
    best, first = solved.family.best_segmentation(solved.put(solved.potentials), workers)
    np.testing.assert_array_equal(best, labels[0])
    np.testing.assert_array_equal(first, begins[0])


@for_all("samples")
def test_samples(case, setting):
    """Frequencies of labellings have the probabilities of the enumeration, by chi-square; forbidden ones are none."""
    solved, n_samples = problem(case, setting), 1500
    drawn = solved.family.labellings(solved.put(solved.potentials)).sample(n_samples, np.random.default_rng(3))
    assert drawn.shape == (n_samples, solved.family.n_positions)
    expected = solved.enumerated()
    for item, (begin, end) in enumerate(pairwise(solved.items.offsets.tolist())):
        counted = Counter(map(tuple, drawn[:, begin:end].tolist()))
        known = {labels: chance for labels, (chance, score) in expected.labellings(item).items() if score > -np.inf}
        assert set(counted) <= set(known)
        cells = np.array([[counted[labels], n_samples * chance] for labels, chance in known.items()])
        rare = cells[:, 1] < 5
        cells = np.vstack([cells[~rare], cells[rare].sum(axis=0)]) if cells[rare, 1].sum() > 5 else cells[~rare]
        if len(cells) > 1:
            cells[:, 1] *= cells[:, 0].sum() / cells[:, 1].sum()
            assert chisquare(cells[:, 0], cells[:, 1]).pvalue > 1e-5


# ---- labelled data


def chosen_labels(solved, *, possible):
    """Numbers of a labelling of each item, those of probability or any, and the labels end to end."""
    expected = solved.enumerated()
    choice = [
        int(solved.random.choice(np.flatnonzero(scores > -np.inf) if possible else len(scores)))
        for scores in expected.scores
    ]
    own = [item.labels[number] for item, number in zip(solved.enumeration.items, choice, strict=True)]
    labels = np.concatenate(own)
    if isinstance(solved.family, SegmentFamily):
        begins = [item.begins[number] for item, number in zip(solved.enumeration.items, choice, strict=True)]
        return choice, Segmentation(labels, np.concatenate(begins))
    return choice, labels


@for_all("label scores")
def test_scores_of_labels(case, setting):
    solved = problem(case, setting)
    for possible in (True, False, False):
        choice, labels = chosen_labels(solved, possible=possible)
        scores = [scores[number] for scores, number in zip(solved.enumerated().scores, choice, strict=True)]
        found = solved.family.label_scores(solved.put(solved.potentials), labels)
        np.testing.assert_allclose(found, scores, rtol=1e-12, atol=1e-10)


@for_all("statistics")
def test_statistics_of_labels(case, setting):
    solved = problem(case, setting)
    potentials = solved.random_potentials()
    for weights in (None, solved.weights):
        choice, labels = chosen_labels(solved, possible=False)
        counts = solved.enumeration.counts(choice, weights)
        statistics = solved.family.statistics(labels, weights)
        assert isinstance(statistics, Statistics)
        expected = sum(np.vdot(table, potentials[name]) for name, table in counts.items())
        assert float(statistics.dot(solved.put(potentials))) == pytest.approx(expected, rel=1e-12, abs=1e-10)
        residual = solved.put(potentials.with_arrays(array.copy() for array in potentials.arrays))
        statistics.subtract_from(residual)
        expected = {name: potentials[name].reshape(table.shape) - table for name, table in counts.items()}
        assert_tables(solved, residual, expected, 1e-12)


# ---- other families


def evidence_of(solved, first):
    """Log-weights (N, L) that leave every item a labelling: weights, sets of labels, known labels."""
    shape = solved.family.n_positions, solved.family.n_labels
    for _ in range(200):
        weights = np.round(64 * solved.random.normal(size=shape)) / 64
        weights[solved.random.random(shape) < 0.2] = -np.inf
        known = solved.random.integers(shape[0], size=2)
        weights[known] = np.where(np.arange(shape[1]) == solved.random.integers(shape[1], size=(2, 1)), 0.0, -np.inf)
        if solved.enumerated(log_weights=weights if first is None else first + weights).possible:
            return weights
    pytest.skip("hardly any labelling is left")


@for_all(settings=("plain", "measured and large", "one label", "single positions"))
def test_given_once_and_twice(case, setting):
    """p0 is multiplied by weights of labels, and by further ones; the family itself stays as it is."""
    solved = problem(case, setting)
    first = evidence_of(solved, None)
    second = evidence_of(solved, first)
    for family, log_weights in (
        (solved.family.condition(first), first),
        (solved.family.condition(first).condition(second), first + second),
        (solved.family.condition(np.zeros_like(first)), None),
        (solved.family, None),
    ):
        narrowed = replace(solved, family=family)
        for weights in weights_of(solved):
            expected, member = (
                solved.enumerated(weights, log_weights=log_weights),
                narrowed.distribution(weights=weights),
            )
            log_partition = solved.case.layout.by_item(family, member.log_partition)
            np.testing.assert_allclose(log_partition, expected.log_partition, rtol=1e-12, atol=1e-11)
            assert_tables(narrowed, member.mean(), expected.mean(), solved.near)
            if "covariances" not in solved.case.lacks:
                direction = solved.random_potentials()
                response = expected.covariance_product(tables_of(solved.enumeration, direction))
                found = member.covariance_product(narrowed.put(direction))
                assert_tables(narrowed, found, response, 10 * solved.near)
        if "entropy" not in solved.case.lacks:
            np.testing.assert_allclose(member.entropy(), expected.entropy(), rtol=1e-9, atol=solved.near)
        if "best" not in solved.case.lacks:
            best = [expected.ranked(item, 3) for item in range(family.n_items)]
            _, scores = family.labellings(narrowed.put(solved.potentials)).n_best(3)
            for ours, theirs in zip(scores, best, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-10)
            labels, top = family.labellings(narrowed.put(solved.potentials)).best()
            np.testing.assert_allclose(top, [each[0] for each in best], rtol=1e-12, atol=1e-10)
            np.testing.assert_allclose(top, [max(each) for each in expected.scores], rtol=1e-12, atol=1e-10)
            if not isinstance(family, SegmentFamily):
                found = family.label_scores(narrowed.put(solved.potentials), labels)
                np.testing.assert_allclose(found, top, rtol=1e-12, atol=1e-10)
            assert family.labellings(narrowed.put(solved.potentials)).sample(2, 0).shape == (2, family.n_positions)


@for_all("part")
def test_parts(case, setting):
    """The family of some items, at their part of the potentials, is that of these items."""
    solved = problem(case, setting)
    whole, potentials, n_items = (
        solved.distribution(weights=solved.weights),
        solved.put(solved.potentials),
        solved.family.n_items,
    )
    labels, scores = solved.family.labellings(potentials).best()
    for first, last in ((0, 1), (1, 2), (1, n_items), (0, n_items)):
        part, own = solved.family.part(first, last), solved.family.arrangement.cut(potentials, first, last)
        rows = slice(solved.items.offsets[first], solved.items.offsets[last])
        assert (part.n_items, part.n_positions) == (last - first, rows.stop - rows.start)
        assert [group[:2] for group in part.groups] == [group[:2] for group in solved.family.groups]
        assert [group.tied for group in part.groups] == [group.tied for group in solved.family.groups]
        member = part.distribution(own, solved.weights[first:last])
        np.testing.assert_allclose(member.log_partition, whole.log_partition[first:last], rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(member.marginals(), whole.marginals()[rows], atol=1e-12)
        best, own_scores = part.labellings(own).best()
        np.testing.assert_array_equal(best, labels[rows])
        np.testing.assert_allclose(own_scores, scores[first:last], rtol=1e-13, atol=1e-12)
        np.testing.assert_array_equal(part.impossible(), solved.family.impossible()[first:last])
        again = part.part(0, last - first).condition(np.zeros((part.n_positions, part.n_labels)))
        np.testing.assert_allclose(again.distribution(own).log_partition, member.log_partition, rtol=1e-13, atol=1e-12)


@for_all()
def test_numbers_of_labellings(case, setting):
    """log sum_y p0(y), and which items have no labelling."""
    solved = problem(case, setting)
    zeros = zero_tables(solved.enumeration)
    expected = solved.enumeration.distribution(zeros, solved.items.position, solved.items.step).log_partition
    np.testing.assert_allclose(solved.family.log_labellings(), expected, rtol=1e-12, atol=1e-12)
    assert not solved.family.impossible().any()


@for_all(settings=SOME)
def test_items_without_a_labelling_are_found_and_named(case, setting):
    solved = problem(case, setting)
    log_weights = np.zeros((solved.family.n_positions, solved.family.n_labels))
    log_weights[solved.items.offsets[2]] = -np.inf
    barred = solved.family.condition(log_weights)
    np.testing.assert_array_equal(barred.impossible(), np.arange(barred.n_items) == 2)
    asked = [lambda own: barred.distribution(own).log_partition]
    if "best" not in solved.case.lacks:
        asked += [
            lambda own: barred.labellings(own).best(),
            lambda own: barred.labellings(own).n_best(2),
            lambda own: barred.labellings(own).sample(2, 0),
        ]
    for ask in asked:
        with pytest.raises(ValueError, match=r"(sequence|graph|instance) 2\b"):
            ask(solved.case.layout.put(barred, solved.potentials))


@for_all(settings=SOME)
def test_weights_of_thousands_of_nats_forbid_nothing(case, setting):
    """Weights whose exponentials are zero in doubles leave all labellings possible."""
    solved = problem(case, setting)
    shape = solved.family.n_positions, solved.family.n_labels
    log_weights = np.full(shape, -2000.0) * (solved.random.random(shape) < 0.5)
    narrowed = solved.family.condition(log_weights)
    assert not narrowed.impossible().any()
    expected = solved.enumerated(log_weights=log_weights)
    member = narrowed.distribution(solved.case.layout.put(narrowed, solved.potentials))
    log_partition = solved.case.layout.by_item(narrowed, member.log_partition)
    np.testing.assert_allclose(log_partition, expected.log_partition, rtol=1e-12, atol=1e-11)
    mean = member.mean()
    assert_tables(replace(solved, family=narrowed), mean, expected.mean(), 10 * solved.near)


@pytest.mark.parametrize("case", [case for case in CASES if "steps" in CASES[case].measures])
def test_steps_that_constraints_forbid_leave_no_labelling(case):
    """Known labels with a step between them that may not be taken."""
    solved = problem(case, "measured")
    n_labels, first = solved.family.n_labels, solved.items.offsets[1]
    log_weights = np.zeros((solved.family.n_positions, n_labels))
    for row, label in ((first + 1, 0), (first + 2, n_labels - 1)):
        log_weights[row] = np.where(np.arange(n_labels) == label, 0.0, -np.inf)
    barred = solved.family.condition(log_weights)
    expected = solved.enumerated(log_weights=log_weights)
    np.testing.assert_array_equal(barred.impossible(), np.isneginf(expected.log_partition))
    assert barred.impossible()[1]


# ---- where the scores of clique sets stand


def terms_of(solved):
    """Clique sets on every group: all cliques, some of them, one row for all, and listed labellings."""
    for group in solved.family.groups:
        cliques = None if group.name is None else solved.family.arrangement.places(group.name)
        everything = np.arange(group.n_rows) if cliques is None else cliques
        order = len(group.row)
        for tied in (True,) if group.tied else (False, True):
            yield Placement(order, group.name, None if cliques is None else everything, tied)
            if not group.tied and len(everything) > 2:
                yield Placement(order, group.name, everything[1::2], tied)
        if group.name is not None and group.tied and group.size > 2 and cliques is None:
            listed = solved.enumeration.groups[group.name].listed
            outcomes = np.arange(group.size) if listed is None else listed
            yield Placement(order, group.name, None, True, outcomes[:-1])


def width_of(solved, term):
    return solved.family.arrangement.group(term.group).size if term.outcomes is None else len(term.outcomes)


@for_all("scores", settings=MODERATE)
def test_scores_and_residuals_are_adjoint(case, setting):
    """<add_scores(s), r> = <s, clique_residuals(r)>, for residuals that are zero where there is no clique."""
    solved = problem(case, setting)
    for term in terms_of(solved):
        residual = solved.random_potentials()
        for name in solved.enumeration.groups:
            places = None if name is None else solved.family.arrangement.places(name)
            if places is not None and not solved.family.arrangement.group(name).tied:
                residual[name][np.setdiff1d(np.arange(len(residual[name])), places)] = 0.0
        rows = 1 if term.is_constant else solved.family.arrangement.group(term.group).n_rows
        if not term.is_constant and term.positions is not None:
            rows = len(term.positions)
        scores = solved.random.normal(size=(rows, width_of(solved, term)))
        total = solved.family.zeros()
        solved.family.arrangement.add_scores(total, term, scores)
        pulled = np.asarray(solved.family.arrangement.residuals(solved.put(residual), term))
        assert pulled.shape == scores.shape
        total = solved.case.layout.take(solved.family, total)
        assert total.dot(residual) == pytest.approx(np.vdot(scores, pulled), rel=1e-10, abs=1e-10)


@for_all("scores", settings=MODERATE)
def test_residuals_of_cliques_are_weighted_marginals(case, setting):
    """At the mean, clique_residuals are clique_weights times clique_rows of the marginals, summed where tied."""
    solved = problem(case, setting)
    member = solved.distribution(weights=solved.weights)
    mean = member.mean()
    for term in terms_of(solved):
        rows = np.asarray(solved.family.arrangement.rows(member.marginals(term.group), term))
        weights = np.asarray(solved.family.arrangement.weights(solved.weights, term))
        assert weights.shape == (len(rows),)
        product = weights[:, None] * rows
        expected = product.sum(axis=0, keepdims=True) if term.is_constant else product
        np.testing.assert_allclose(np.asarray(solved.family.arrangement.residuals(mean, term)), expected, atol=1e-10)
        group = solved.family.arrangement.group(term.group)
        if group.items is not None:
            chosen = np.arange(group.n_rows) if term.positions is None else term.positions
            np.testing.assert_array_equal(weights, solved.weights[group.items[chosen]])


# ---- approximations


def approximated(name, spread=1.0):
    """An approximation on a few graphs."""
    case, random = APPROXIMATIONS[name], np.random.default_rng(0)
    items = Items(make_offsets((1, 4, 3, 4)), 3)
    family, enumeration = case.family(items), case.enumeration(items)
    potentials = random_potentials(case, family, enumeration, random, spread, 0.0)
    weights = np.array([1.0, 0.0, 2.0, 0.5])
    return case, items, family, enumeration, potentials, weights, random


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_approximations_keep_their_promises(name, spread, known):
    case, items, family, enumeration, potentials, weights, random = approximated(name, spread)
    assert (family.exact, family.bound) == (False, case.bound)
    log_weights = np.zeros((family.n_positions, 3))
    if known:
        log_weights[2] = [-np.inf, 0.0, -np.inf]
        log_weights[5:] = np.round(4 * random.normal(size=log_weights[5:].shape)) / 4
        family = family.condition(log_weights)
    expected = enumeration.distribution(tables_of(enumeration, potentials), log_weights, np.zeros((3, 3)), weights)
    member = family.distribution(potentials, weights)
    slack = 1e-9 * spread
    if case.bound == "upper":
        assert np.all(member.log_partition >= expected.log_partition - slack)
    if case.bound == "lower":
        assert np.all(member.log_partition <= expected.log_partition + slack)
    mean = member.mean()
    for group in family.groups:
        rows = member.marginals(group.name).reshape(group.n_rows, group.size)
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-9)
        own = (weights[group.items][:, None] * rows).sum(axis=0 if group.tied else None, keepdims=True)
        found = mean[group.name].reshape(-1, group.size)
        np.testing.assert_allclose(found if group.tied else found.sum(keepdims=True), own, atol=1e-8)
        if case.exact:
            np.testing.assert_allclose(rows, expected.marginals(group.name), atol=1e-6)
    assert not member.marginals()[np.isneginf(log_weights)].any()
    if case.exact:
        np.testing.assert_allclose(member.log_partition, expected.log_partition, rtol=1e-9)
    labels, scores = family.labellings(potentials).best()
    for item, (begin, end) in enumerate(pairwise(items.offsets.tolist())):
        own = expected.labellings(item)[tuple(labels[begin:end].tolist())][1]
        assert scores[item] == pytest.approx(own, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(family.label_scores(potentials, labels), scores, rtol=1e-12, atol=1e-10)
    with pytest.raises(TypeError, match="Hessian products need exact inference"):
        member.covariance_product(potentials)
    with pytest.raises(ValueError, match="the n best labellings need exact inference"):
        family.labellings(potentials).n_best(2)


@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_parts_and_statistics_of_approximations(name):
    _, items, family, enumeration, potentials, weights, random = approximated(name)
    choice = [int(random.integers(len(item.labels))) for item in enumeration.items]
    labels = np.concatenate([item.labels[number] for item, number in zip(enumeration.items, choice, strict=True)])
    counts = enumeration.counts(choice, weights)
    residual = family.zeros()
    family.statistics(labels, weights).subtract_from(residual)
    for group, table in counts.items():
        np.testing.assert_allclose(residual[group].reshape(table.shape), -table, atol=1e-12)
    part, own = family.part(1, 3), family.arrangement.cut(potentials, 1, 3)
    assert part.bound == family.bound
    assert isinstance(own, Potentials)
    alone = family.distribution(potentials).log_partition[1:3]
    np.testing.assert_allclose(part.distribution(own).log_partition, alone, rtol=1e-6, atol=1e-6)
    assert part.method == family.method
    assert [group.name for group in part.groups] == [group.name for group in family.groups]
    assert items.offsets[3] - items.offsets[1] == part.n_positions
