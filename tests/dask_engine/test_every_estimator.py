"""Shards answer as threads do, whichever labels meet and whatever is known of them."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from dask_fits import posterior
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks.fit_parts import parts_of_fit
from kernelfields import (
    AnnotatedCRF,
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    PartialLabels,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
    load,
)
from kernelfields.data import DurationCliques
from kernelfields.engines import Dask, Torch
from kernelfields.estimators import LabelledFeature, LabelShares
from kernelfields.inference.approximate.base import TreeReweighted
from kernelfields.kernels import RBF
from kernelfields.models.callbacks import Checkpoint
from kernelfields.objective.posterior import LogPosterior

pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
shards_here = pytest.importorskip("shards_here")
DaskHere = shards_here.DaskHere

SHARED = {"rank": 12, "random_state": 0, "dtype": "float64", "prior_variance": 2.0, "scale": False}


def sequences(random):
    y = [np.sort(random.integers(3, size=4 + number % 3)) for number in range(9)]
    return [np.column_stack([own, own == 1]) + random.normal(size=(len(own), 2)) for own in y], y


def graphs(random):
    """Squares with a diagonal, and paths; edges have inputs."""
    X, y = [], []
    for number in range(8):
        edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]][: 5 if number % 3 else 3])
        labels = random.integers(2, size=4)
        X.append((labels[:, None] + random.normal(size=(4, 2)), edges, random.normal(size=(len(edges), 2))))
        y.append(labels)
    return X, y


def table(random, n_labels=None):
    y = random.integers(3, size=20) if n_labels is None else random.integers(2, size=(20, n_labels))
    return random.normal(size=(20, 2)) + (y[:, None] if n_labels is None else y[:, :2]), y


def gaps(y, random):
    """Leave out a third of the labels of sequences and graphs, or of those of samples."""
    if isinstance(y, np.ndarray):
        return np.where(random.random(y.shape) < 0.3, None if y.ndim == 1 else np.nan, y)
    return [[None if random.random() < 0.3 else label for label in own] for own in y]


FIELDS = {
    "ring": (RingCRF("rbf", edges=EdgeCliques(RBF(0.5)), **SHARED), sequences),
    "segments": (SegmentCRF("rbf", max_duration=5, **SHARED), sequences),
    "linear durations": (
        SegmentCRF("linear", durations=DurationCliques("linear"), max_duration=5, **SHARED),
        sequences,
    ),
    "repeats": (SegmentCRF("rbf", max_duration=3, repeats=True, **SHARED), sequences),
    "graphs": (GraphCRF("rbf", edges=EdgeCliques(RBF(0.5)), **SHARED), graphs),
    "loopy": (GraphCRF("linear", inference=TreeReweighted(1e-13), **SHARED), graphs),
    "single": (KernelClassifier("rbf", class_weight="balanced", **SHARED), table),
    "instances": (MultiLabelCRF("rbf", edges=EdgeCliques("linear"), **SHARED), lambda random: table(random, 3)),
    "tree": (MultiLabelCRF("linear", label_graph="tree", **SHARED), lambda random: table(random, 4)),
}


def cut(items, sizes=(3, 0, 2, None)):
    """Return a list, or the rows of a table, as Delayed parts, of which one is empty."""
    ends = np.cumsum([0, *sizes[:-1]]).tolist()
    return [dask.delayed(items[first:last]) for first, last in zip(ends, [*ends[1:], None], strict=True)]


@pytest.fixture
def collections_here(monkeypatch):
    """Let collections be read in this process."""
    monkeypatch.setattr("kernelfields.engines.dask.data.ShardGroup", shards_here.ShardsHere)
    monkeypatch.setattr("kernelfields.engines.dask.engine.connected_client", lambda client: shards_here.ClientHere())


@pytest.mark.parametrize("name", FIELDS)
def test_collections_are_read_as_lists_are(collections_here, name):
    estimator, draw = FIELDS[name]
    X, y = draw(np.random.default_rng(0))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    if name == "tree":
        with pytest.raises(ValueError, match=r"label_graph='tree'.* name the pairs for Dask collections"):
            parts_of_fit(estimator, cut(X), cut(y), None, DaskHere())
        return
    collected = [cut(each) for each in (X, y, weights)]
    training, sample, designs = parts_of_fit(estimator, *collected, DaskHere())
    here, there = posterior(*parts_of_fit(estimator, X, y, weights)), posterior(training, sample, designs)
    assert len(there.datafit.group) == 3
    assert training.data.n_positions == there.datafit.family.n_positions == here.datafit.family.n_positions
    theta = np.random.default_rng(2).normal(size=here.size)
    close(there.at(theta).value, here.at(theta).value, "value")
    close(there.at(theta).gradient, here.at(theta).gradient, "gradient")


def test_labels_of_partitions_that_break_their_scheme_are_mended(collections_here):
    y = [["O", "I-X", "I-X", "O"], ["B-X", "I-X", "O"], ["O", "O", "I-X"], ["B-X", "O"], ["O", "I-X"]]
    X = [np.random.default_rng(len(own)).normal(size=(len(own), 2)) for own in y]
    crf = ChainCRF("rbf", constraints="bio", **SHARED)
    with pytest.warns(UserWarning, match=r"labels? of y breaks? the scheme 'bio' and (is|are) mended"):
        there = posterior(*parts_of_fit(crf, cut(X), cut(y), None, DaskHere()))
    with pytest.warns(UserWarning, match="3 labels of y break the scheme 'bio' and are mended"):
        here = posterior(*parts_of_fit(crf, X, y, None))
    theta = np.random.default_rng(2).normal(size=here.size)
    close(there.at(theta).value, here.at(theta).value, "value")


def close(left, right, what):
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(right).max()), err_msg=what)


@pytest.mark.parametrize("place", ["threads", "device"])
@pytest.mark.parametrize("known", ["all", "some"])
@pytest.mark.parametrize("name", FIELDS)
def test_shards_answer_as_threads_do(name, known, place):
    if place == "device":
        pytest.importorskip("torch")
    workers = Torch("cpu") if place == "device" else None
    estimator, draw = FIELDS[name]
    random = np.random.default_rng(0)
    X, y = draw(random)
    weights = random.uniform(0.5, 2.0, size=len(X)) if known == "all" else None
    y = y if known == "all" else gaps(y, random)
    engines = "threads", DaskHere(workers=workers)
    here, there = (posterior(*parts_of_fit(estimator, X, y, weights, engine)) for engine in engines)
    assert [block.shape for block in here.blocks] == [block.shape for block in there.blocks]
    theta, direction = 0.3 * random.normal(size=(2, here.size))
    expected, found = here.at(theta), there.at(theta)
    close(found.value, expected.value, "value")
    close(found.gradient, expected.gradient, "gradient")
    close(there.value_at_zero, here.value_at_zero, "value at zero")
    close(there.metric, here.metric, "metric")
    assert (there.convex, there.approximation) == (here.convex, here.approximation)
    assert there.datafit.family.method == here.datafit.family.method
    there.datafit.group.lose(0)
    if here.approximation is None:
        product = here.hessian_product(expected, direction)[0]
        close(there.hessian_product(found, direction)[0], product, "Hessian product")
    if not here.convex:
        frozen = [each.frozen(theta).at(0.5 * theta) for each in (here, there)]
        close(frozen[1].gradient, frozen[0].gradient, "gradient of completed labels")


ON_DEVICES = {
    "chain": (ChainCRF("rbf", edges=EdgeCliques(RBF(0.5)), **SHARED), sequences, np.asarray),
    "sparse": (ChainCRF("linear", **SHARED), sequences, scipy.sparse.csr_array),
    "single": FIELDS["single"] + (np.asarray,),
}


@pytest.mark.parametrize("name", ON_DEVICES)
def test_workers_keep_their_shares_on_devices(name):
    pytest.importorskip("torch")
    estimator, draw, form = ON_DEVICES[name]
    random = np.random.default_rng(0)
    X, y = draw(random)
    X = X if isinstance(X, np.ndarray) else [form(x) for x in X]
    engines = "threads", DaskHere(workers=Torch("cpu"))
    here, there = (posterior(*parts_of_fit(estimator, X, y, engine=engine)) for engine in engines)
    theta, direction = random.normal(size=(2, here.size))
    expected, found = here.at(theta), there.at(theta)
    for index, block in enumerate(here.blocks):
        pivots = [each.datafit.designs[index].term.subspace for each in (here, there)]
        if hasattr(pivots[0], "indices"):
            np.testing.assert_array_equal(pivots[1].indices, pivots[0].indices)
            close(
                there.datafit.outside_bound(found.evaluation.residual, index),
                here.datafit.outside_bound(expected.evaluation.residual, index),
                block.name,
            )
    kinds = there.datafit.group.ask(shards_here.kind_of_table, there.datafit._datafit, 0)
    assert set(kinds) <= {"TorchTable", "TorchSparseTable"}
    close(found.value, expected.value, "value")
    close(found.gradient, expected.gradient, "gradient")
    close(there.hessian_product(found, direction)[0], here.hessian_product(expected, direction)[0], "Hessian product")
    close(there.metric, here.metric, "metric")
    for index in range(len(here.blocks) if form is np.asarray else 0):
        close(there.curvature_block(found, index), here.curvature_block(expected, index), "curvature")
    there.datafit.group.lose(2)
    close(there.at(0.5 * theta).gradient, here.at(0.5 * theta).gradient, "gradient after a loss")


def test_gradients_are_added_up_in_a_tree(monkeypatch):
    """The client gets one gradient, whatever the number of shards; a shard without recipes costs one more request."""
    estimator, draw = FIELDS["graphs"]
    X, y = draw(np.random.default_rng(0))
    there = posterior(*parts_of_fit(estimator, X, y, engine=DaskHere()))
    point = there.at(np.ones(there.size))
    expected, group = point.gradient, there.datafit.group
    monkeypatch.setattr("kernelfields.engines.dask.shards._BRANCHES", 2)
    asked = []
    monkeypatch.setattr(group, "ask", lambda *given: asked.append(given) or type(group).ask(group, *given))
    found = there.datafit.pull_back(point.evaluation.residual)
    close(np.concatenate([part.ravel() for part in found]) + 0.5 * np.ones(there.size), expected, "one by one")
    assert not asked
    group.lose(1)
    again = there.datafit.pull_back(point.evaluation.residual)
    assert len(asked) == 1
    for mine, theirs in zip(again, found, strict=True):
        close(mine, theirs, "after a loss")


def test_graphs_that_need_approximate_inference_have_it_in_every_shard(monkeypatch):
    """A dense graph is too wide for a junction tree: as on one machine, graphs of other shards are inferred alike."""
    monkeypatch.setattr("kernelfields.inference.junction.plan.usual_table_memory", lambda: 1e4)
    random = np.random.default_rng(0)
    X, y = graphs(random)
    dense = np.argwhere(np.triu(np.ones((12, 12)), 1))
    X[0] = (random.normal(size=(12, 2)), dense, random.normal(size=(len(dense), 2)))
    y[0] = random.integers(2, size=12)
    field = GraphCRF("linear", **SHARED)
    for engine in ("threads", DaskHere()):
        there = posterior(*parts_of_fit(field, X, y, engine=engine))
        assert there.approximation == "trw"
        assert there.datafit.family.exact is False
        assert there.datafit.warnings == []


@pytest.mark.slow
def test_rows_of_arrays_and_data_frames_are_samples(collections_here):
    array, pandas = pytest.importorskip("dask.array"), pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    X, Y = table(np.random.default_rng(0), 3)
    rows, labels = array.from_array(X, chunks=(7, 1)), array.from_array(Y, chunks=(7, 3))
    several = MultiLabelCRF("linear", **SHARED).set_params(engine=DaskHere()).fit(rows, labels)
    here = MultiLabelCRF("linear", **SHARED).fit(X, Y)
    close(several.solution_.value, here.solution_.value, "objective")
    found = several.predict_proba(rows)
    assert found.shape == (20, 3)
    close(found.compute(scheduler="synchronous"), several.predict_proba(X), "probabilities")
    names = np.array(["no", "yes"])[Y[:, 0]]
    frame = frames.from_pandas(pandas.DataFrame(X, columns=["a", "b"]).assign(label=names), npartitions=3)
    single = KernelClassifier("linear", **SHARED).set_params(engine=DaskHere()).fit(frame[["a", "b"]], frame["label"])
    assert list(single.feature_names_in_) == ["a", "b"]
    close(single.solution_.value, KernelClassifier("linear", **SHARED).fit(X, names).solution_.value, "objective")
    found = single.predict(frame[["a", "b"]]).compute(scheduler="synchronous")
    np.testing.assert_array_equal(found, single.predict(pandas.DataFrame(X, columns=["a", "b"])))


def test_what_partitions_hold_is_checked_before_a_fit(collections_here):
    X, y = graphs(np.random.default_rng(0))
    untyped = [(x, edges) for x, edges, _ in X]
    with pytest.raises(ValueError, match="partition 3: factors named 'edge' have no features"):
        parts_of_fit(FIELDS["graphs"][0], [*cut(X)[:3], *cut(untyped)[3:]], cut(y), None, DaskHere())
    field = GraphCRF("linear", constraints=[(0, 0)], **SHARED)
    with pytest.raises(ValueError, match="partition 0: graph 1: an edge joins node 0, labelled 0, to node 2"):
        parts_of_fit(field, cut(X), cut(y), None, DaskHere())
    X, y = sequences(np.random.default_rng(0))
    with pytest.raises(ValueError, match="max_duration is read off segments of this process"):
        parts_of_fit(SegmentCRF("linear", **SHARED), cut(X), cut(y), None, DaskHere())
    with pytest.raises(ValueError, match="classes of sequences are read in this process: pass lists"):
        SequenceClassifier("linear").fit(cut(X), cut(range(len(X))))
    X, Y = table(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="label_graph='learn' needs instances of this process"):
        parts_of_fit(MultiLabelCRF("linear", label_graph="learn", **SHARED), cut(X), cut(Y), None, DaskHere())
    with pytest.raises(ValueError, match="partition 3: X has 15 rows but y has 14"):
        parts_of_fit(FIELDS["instances"][0], cut(X), cut(Y[:-1]), None, DaskHere())
    with pytest.raises(ValueError, match="columns of Y in partition 3 are not those of partition 0"):
        parts_of_fit(FIELDS["instances"][0], cut(X), [*cut(Y)[:3], cut(Y[:, :2])[3]], None, DaskHere())


@pytest.mark.parametrize("kind", ["chains", "samples"])
def test_labels_of_annotators_are_completed_in_shards(kind):
    """Shards in which annotators agree on every label have nothing to complete at first, and something later."""
    random = np.random.default_rng(0)
    if kind == "chains":
        X, y = sequences(random)
        wrong = [np.where(random.random(len(own)) < 0.3, (own + 1) % 3, own) for own in y[:5]]
        said = [{"a": own.tolist(), "b": other.tolist()} for own, other in zip(y, [*wrong, *y[5:]], strict=True)]
        field = ChainCRF("rbf", tol=1e-8, **SHARED)
    else:
        X, y = table(random)
        said = {"a": y.tolist(), "b": np.where(random.random(len(y)) < 0.3, (y + 1) % 3, y).tolist()}
        field = KernelClassifier("rbf", tol=1e-8, **SHARED)
    fits = []
    for engine in ("threads", DaskHere()):
        annotated = AnnotatedCRF(field.set_params(engine=engine), cv=3, max_steps=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fits.append(annotated.fit(X, said))
    here, there = fits
    for name, matrix in here.confusions_.items():
        np.testing.assert_allclose(there.confusions_[name], matrix, atol=1e-5)
    assert there.estimator_.solution_.value == pytest.approx(here.estimator_.solution_.value, rel=1e-5)
    for mine, theirs in zip(there.consensus_, here.consensus_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="labels of annotators are read in this process"):
        AnnotatedCRF(field).fit(cut(X), said)


@pytest.mark.parametrize("name", ["ring", "segments", "graphs", "single", "instances"])
def test_expectations_are_of_all_shards_together(collections_here, name):
    estimator, draw = FIELDS[name]
    random = np.random.default_rng(0)
    X, y = draw(random)
    y = gaps(y, random)
    if isinstance(y, list):
        y[1] = y[-1] = None
    shares = {0: 0.5} if name == "instances" else {0: 0.3, 1: 0.7}
    asked = [LabelShares(shares), LabelledFeature(1, shares, weight=3.0)]
    partial = PartialLabels(expectations=asked)
    X = np.where(X > 1.0, X, 0.0) if isinstance(X, np.ndarray) else X
    estimator = clone(estimator).set_params(partial_labels=partial)
    if name == "single":
        estimator.set_params(class_weight=None)
    posteriors = []
    for data, engine in (((X, y), "threads"), ((X, y), DaskHere()), ((cut(X), cut(y)), DaskHere())):
        training, sample, designs = parts_of_fit(estimator, *data, None, engine)
        posteriors.append(LogPosterior(sample.datafit(designs).with_criteria(training.options.criteria)))
    here, there, collected = posteriors
    theta = 0.3 * random.normal(size=here.size)
    expected, found = here.at(theta), there.at(theta)
    close(found.value, expected.value, "value")
    close(found.gradient, expected.gradient, "gradient")
    close(there.value_at_zero, here.value_at_zero, "value at zero")
    close(collected.at(theta).value, expected.value, "value of a collection")
    close(collected.at(theta).gradient, expected.gradient, "gradient of a collection")
    there.datafit.group.lose(0)
    frozen = [each.frozen(theta).at(0.5 * theta) for each in (here, there)]
    close(frozen[1].value, frozen[0].value, "value of the tangent")
    close(frozen[1].gradient, frozen[0].gradient, "gradient of the tangent")


def test_a_fit_to_expectations_on_shards_ends_where_that_on_threads_does(collections_here):
    random = np.random.default_rng(0)
    X, y = sequences(random)
    partial = PartialLabels(expectations=[LabelShares({0: 0.4})])
    crf = ChainCRF("linear", partial_labels=partial, tol=1e-6, **SHARED)
    y = gaps(y, random)
    values = [crf.set_params(engine=engine).fit(X, y).solution_.value for engine in ("threads", DaskHere())]
    assert values[1] == pytest.approx(values[0], rel=1e-5)
    assert crf.fit(cut(X), cut(y)).solution_.value == pytest.approx(values[0], rel=1e-5)
    crf.set_params(partial_labels=PartialLabels(expectations=[LabelledFeature(0, {0: 0.4})]))
    with pytest.raises(ValueError, match="counts no position of X"):
        crf.fit(cut([0.0 * x for x in X]), cut(y))


@pytest.mark.parametrize("name", ["ring", "segments", "graphs", "single", "instances"])
def test_an_interrupted_fit_keeps_its_estimate_and_its_file(collections_here, tmp_path, name):
    estimator, draw = FIELDS[name]
    X, y = draw(np.random.default_rng(0))

    def interrupt(iteration):
        if iteration.iteration == 3:
            raise KeyboardInterrupt

    path = tmp_path / "field.kfm"
    field = clone(estimator).set_params(engine=Dask(), solver="lbfgs", tol=1e-12)
    field.set_params(callbacks=[Checkpoint(path, seconds=0), interrupt])
    with pytest.warns(ConvergenceWarning, match="fit was interrupted after 3 iterations"):
        field.fit(X, y)
    assert len(field.field_.terms) == len(field.coef_)
    for mine, theirs in zip(load(path).predict(X), field.predict(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
