"""Structure learning: true cliques come first, and no addition brings more than Remark 11 allows."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques, SkipCliques, StartCliques
from kernelfields.data import Chains, Graphs, OrderCliques
from kernelfields.data.reading import pack_inputs
from kernelfields.inference import plan_inference
from kernelfields.kernels import RBF
from kernelfields.selection import StructureSearch
from tests.arrays import sample_graphs

L = 3


def sampled(seed, *, lags=(), orders=(), strength=2.0, n_sequences=80, length=10):
    """Sequences from a field with known factors beside its node potentials."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 3)) for _ in range(n_sequences)]
    chains = Chains(*pack_inputs(X))
    graphs = Graphs.from_chains(chains, lags=lags, orders=orders)
    tables = []
    for factors in graphs.factors:
        table = strength * random.normal(size=(1,) + (L,) * factors.labels_per_clique)
        for axis in range(1, table.ndim):
            # What fewer labels could say alone is taken out: the truth is about all of them together.
            table -= table.mean(axis=axis, keepdims=True)
        tables.append(table)
    plan = plan_inference(graphs.offsets, [factors.members for factors in graphs.factors], L)
    labels = sample_graphs(plan, chains.inputs @ random.normal(size=(3, L)), tables, 1, random)[0]
    return X, chains.split(labels)


def candidates():
    return [
        SkipCliques(lag=2),
        SkipCliques(lag=3),
        OrderCliques(order=2),
        StartCliques(),
        EndCliques(),
        EdgeCliques("linear", name="edge inputs"),
        NodeCliques("linear", window=3, name="neighbours"),
        NodeCliques(RBF(0.3), rank=20, name="curved"),
    ]


def learnt(X, y, candidates, *, tol="auto", **settings):
    crf = ChainCRF("linear", prior_variance=1.0, max_iter=1000, random_state=0, tol=tol)
    return StructureSearch(crf, candidates, **settings).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("truth", "expected"), [({"lags": (2,)}, "lag2"), ({"lags": (1, 3)}, "lag3")], ids=str)
def test_the_true_cliques_come_first(seed, truth, expected):
    """Triples hold every table of labels two apart, and bring more than lag2: they are no candidate here."""
    X, y = sampled(seed, strength=1.0, **truth)
    others = [each for each in candidates() if not isinstance(each, OrderCliques)]
    assert learnt(X, y, others, max_additions=1, validation=0.0).structure_path_.added == [expected]


@pytest.mark.slow
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("variance", [0.05, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_addition_brings_more_than_its_bound(seed, variance, tol):
    X, y = sampled(seed, lags=(1, 2), n_sequences=25)
    chosen = [each.set_params(prior_variance=variance) for each in candidates()]
    path = learnt(X, y, chosen, tol=tol, max_additions=8, threshold=0.0, validation=0.0).structure_path_
    assert [len(step.added) for step in path.steps] == [0, 1, 2, 4, 1]
    assert path.reason == "no candidate is left"
    for step in path.steps[1:]:
        gap = tol * step.value  # of the fit before, which the bound of a step has in it
        assert step.bound == pytest.approx(sum(step.bounds[name] for name in step.added), rel=0.5, abs=gap)
        assert step.bound >= step.gain - 1e-9 * abs(step.value)
        assert max(step.estimates.values()) == step.estimates[step.added[0]]
        assert step.estimate == pytest.approx(sum(step.estimates[name] for name in step.added), rel=1e-12)
        assert all(step.estimates[name] <= step.bounds[name] for name in step.bounds)
    assert sum(step.gain for step in path.steps[1:]) > 1.0, "the statement is not an empty one"


def test_a_wide_prior_of_little_use_does_not_come_first():
    """Labels meet two apart: lag 3 at s = 100 has the larger bound, and lag 2 at s = 0.1 brings far more."""
    X, y = sampled(1, lags=(2,), strength=1.0)
    choice = [SkipCliques(lag=3, prior_variance=100.0), SkipCliques(lag=2, prior_variance=0.1)]
    path = learnt(X, y, choice, tol=1e-8, threshold=0.0, validation=0.0).structure_path_
    (_, first, second) = path.steps
    assert first.bounds["lag3"] > first.bounds["lag2"]
    assert path.added == ["lag2", "lag3"]
    assert first.gain > 5 * second.gain
    assert first.estimate == pytest.approx(first.gain, rel=0.2)
    assert f"estimate {first.estimate:.4g}" in str(path)


def test_with_an_l1_penalty_only_what_leaves_zero_counts():
    """The step is one of the coefficients whose gradient is beyond the penalty; with all of it within, it is none.

    Without a Gaussian prior the block is singular, all labels moving alike: no coefficient may follow it to infinity.
    """
    X, y = sampled(1, lags=(2,), n_sequences=20)
    found = {}
    for l1, variance in ((0.0, 1.0), (3.0, 1.0), (3.0, np.inf), (1e4, 1.0)):
        choice = [NodeCliques("linear", window=3, name="neighbours", l1=l1, prior_variance=variance)]
        path = learnt(X, y, choice, tol=1e-4, threshold=0.0, validation=0.0).structure_path_
        if len(path.steps) > 1:
            step = path.steps[1]
            found[l1, variance] = step.estimates["neighbours"]
            assert 0.3 * step.gain < step.estimate < 2 * step.gain
    assert list(found) == [(0.0, 1.0), (3.0, 1.0), (3.0, np.inf)], "nothing is promised, and nothing tried, at 1e4"
    assert found[0.0, 1.0] > found[3.0, np.inf] >= found[3.0, 1.0] > 0.0


def test_held_out_data_decide_how_many_are_kept():
    X, y = sampled(0, lags=(1,), n_sequences=40)
    crf = learnt(X, y, candidates(), threshold=0.0, max_additions=8)
    path = crf.structure_path_
    best = path.steps[0].score
    for step in path.steps[1:]:
        assert step.kept == (step.score > best)
        best = max(best, step.score)
    assert set(crf.coef_) == {"node", "edge", *path.added}
    assert path.reason == "held-out data rejected the last 3 additions"
    assert [(len(step.added), step.kept) for step in path.steps[-3:]] == [(1, False)] * 3


def test_a_development_set_is_what_is_held_out():
    X, y = sampled(0, lags=(2,))
    crf = StructureSearch(ChainCRF("linear", random_state=0), [SkipCliques(lag=2)])
    crf.fit(X[:60], y[:60], X_dev=X[60:], y_dev=y[60:])
    assert crf.structure_path_.added == ["lag2"]
    assert crf.structure_path_.steps[0].score < crf.structure_path_.steps[1].score < 0


def test_the_path_is_printed_and_plain_values():
    X, y = sampled(0, lags=(2,))
    crf = StructureSearch(ChainCRF("linear", random_state=0), candidates()[:3]).fit(X, y)
    assert crf.structure_path_.added[0] == "lag2"
    printed = str(crf.structure_path_)
    assert "✓ lag2" in printed
    assert "held out" in printed
    assert f"{crf.structure_path_.steps[1].gain:.4g}" in printed
    document = crf.structure_path_.to_dict()
    assert document["added"] == crf.structure_path_.added
    assert document["steps"][1]["bounds"].keys() == {"lag2", "lag3", "order2"}


def test_a_threshold_ends_the_search():
    X, y = sampled(0, lags=(1,))
    path = learnt(X, y, candidates(), threshold=1e9, validation=0.0).structure_path_
    (start,) = path.steps
    assert (start.added, start.kept, start.score) == ((), True, None)
    assert (start.bound, start.gain, start.bounds) == (0.0, 0.0, {})
    assert path.added == []
    assert path.reason == "no candidate could bring more than 1e+09 nats"
    assert max(path.left.values()) < 1e9
