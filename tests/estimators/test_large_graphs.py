"""Fits with approximate inference: where they begin, what they say of their duration, when they end."""

import numpy as np
import pytest

from kernelfields import GraphCRF
from kernelfields.data import grid_edges
from kernelfields.inference import EDGE, Potentials, plan_inference
from kernelfields.models import cheaper_fits
from kernelfields.numerics import Workers
from kernelfields.objective import PartialLikelihood
from kernelfields.objective.clique_curvature import correlated_cliques


def labelled_grid(seed=0, rows=12, columns=10, known=0.5):
    """Stripes of three rows with noisy inputs; some labels are known."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(rows) // 3 % 2, columns)
    x = labels[:, None] + 1.5 * random.normal(size=(rows * columns, 2))
    seen = random.random(rows * columns) < known
    y = [int(label) if told else None for label, told in zip(labels, seen, strict=True)]
    return (x, grid_edges(rows, columns)), y, labels


def test_a_fit_begins_with_each_label_by_itself(capsys):
    graph, y, _ = labelled_grid()
    settings = {"inference": "trw", "prior_variance": 1.0, "tol": 1e-6, "max_iter": 2000, "random_state": 0}
    begun, plain = GraphCRF(verbose=1, **settings), GraphCRF(verbose=1, solver="lbfgs", **settings)
    assert "each label by itself" in (begun.fit([graph], [y]), capsys.readouterr())[1].err
    assert "each label by itself" not in (plain.fit([graph], [y]), capsys.readouterr())[1].err
    assert begun.solution_.history[0].value < plain.solution_.history[0].value
    assert begun.solution_.value == pytest.approx(plain.solution_.value, rel=1e-4)


@pytest.mark.parametrize("method", ["trw", "loopy"])
def test_constraints_leave_the_start_alone(method):
    (x, edges), _, _ = labelled_grid()
    labels = (np.arange(len(x)) >= len(x) // 2).astype(int)
    crf = GraphCRF(inference=method, constraints=[(1, 0)], prior_variance=1.0).fit([(x, edges)], [labels])
    found = np.asarray(crf.predict([(x, edges)], decode="viterbi")[0])
    assert not np.any((found[edges[:, 0]] == 1) & (found[edges[:, 1]] == 0))


def test_the_duration_is_estimated_before_the_fit(monkeypatch, capsys):
    graph, y, _ = labelled_grid()
    crf = GraphCRF(inference="trw", verbose=1, random_state=0)
    assert "the fit about" not in (crf.fit([graph], [y]), capsys.readouterr())[1].err, "it is over soon"
    monkeypatch.setattr(cheaper_fits, "_SOON", 0.0)
    shown = (crf.fit([graph], [y]), capsys.readouterr())[1].err
    assert shown.index("the fit about") < shown.index("iteration")


def test_a_fit_ends_where_its_value_settles():
    graph, y, labels = labelled_grid(rows=21, columns=20)
    crf = GraphCRF(inference="trw", random_state=0).fit([graph], [y])
    assert crf.solution_.converged
    closer = GraphCRF(inference="trw", random_state=0, tol=1e-5).fit([graph], [y])
    assert crf.solution_.iterations <= closer.solution_.iterations
    assert crf.solution_.value == pytest.approx(closer.solution_.value, rel=5e-3)
    assert np.mean(crf.predict([graph], known=[y])[0] == labels) > 0.8


def test_cliques_with_a_common_node_count_together():
    """Of a star, all pairs vary with the label in the middle; of a path, each with its own."""
    star = np.column_stack([np.zeros(5, int), np.arange(1, 6)])
    path = np.column_stack([np.arange(5), np.arange(1, 6)])

    class Edges:
        group = EDGE

    for members, expected in ((star, (25 + 5) / 2), (path, 5)):
        plan = plan_inference([0, 6], [members], 2, "trw").with_names([EDGE], [EDGE])
        assert correlated_cliques(plan, Edges, 5) == expected
        assert correlated_cliques(plan_inference([0, 6], [members], 2).with_names([EDGE], [EDGE]), Edges, 5) == 5


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_free_and_known_labels_are_inferred_side_by_side(n_jobs):
    (_, edges), _, labels = labelled_grid()
    random = np.random.default_rng(0)
    family = plan_inference([0, len(labels)], [edges], 2, "trw").with_names([EDGE], [EDGE])
    assert family.is_single_threaded
    log_weights = np.zeros((len(labels), 2))
    log_weights[::2, 1] = -np.inf
    likelihood = PartialLikelihood(family, log_weights, np.ones(1), Workers(n_jobs))
    potentials = Potentials(random.normal(size=(len(labels), 2)), {EDGE: random.normal(size=(1, 2, 2))})
    found = likelihood.evaluate(potentials)
    free, known = (each.distribution(potentials) for each in (family, family.condition(log_weights)))
    assert found.value == pytest.approx(float(free.log_partition[0] - known.log_partition[0]), rel=1e-9)
    np.testing.assert_allclose(found.residual.node, free.mean().node - known.mean().node, atol=1e-5)
