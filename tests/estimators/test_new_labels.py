"""A batch brings a label that sorts first, so that the numbers of all labels move: every feature, four statements.

Names of labels are nothing but names: where the new one sorts first, answers are those of a field where it sorts last.
Answers given that no label is new are those of the field before. Probabilities of all labellings of a short item sum to
one, and to the marginals. A model that was saved and loaded answers the same.
"""

import copy
import itertools

import numpy as np
import pytest

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    EndCliques,
    GraphCRF,
    KernelClassifier,
    LabelDictionary,
    LabelNgrams,
    NodeCliques,
    RingCRF,
    SegmentCRF,
    SkipCliques,
    SoftTargets,
    StartCliques,
    load,
)
from kernelfields.data import DurationCliques, GraphFactors, GraphNodes, OrderCliques
from kernelfields.engines import Threads
from kernelfields.kernels import RBF, Laplacian

NEW = 3
FIRST, LAST = ["d", "b", "c", "a"], ["b", "c", "d", "e"]
SETTINGS = {"scale": False, "tol": 1e-9, "random_state": 0, "dtype": "float64"}
USUAL = {"kernel": RBF(0.5), "prior_variance": 2.0, "rank": 12, **SETTINGS}


def labelled(n_items=8, length=6, seed=0, steps=lambda before, after: True):
    """Inputs spread around a centre per label, and labels 0 to 3 whose steps are allowed; 3 from the middle on."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for item in range(n_items):
        labels = [0]
        most = NEW if item < n_items // 2 else NEW + 1
        while len(labels) < length:
            label = int(random.integers(most))
            if steps(labels[-1], label):
                labels.append(label)
        X.append(np.column_stack([np.array(labels), np.cos(labels)]) + 0.6 * random.normal(size=(length, 2)))
        y.append(np.array(labels))
    for item in range(n_items // 2):  # every old label occurs in the first batch
        y[item][1 : 1 + NEW] = [0, 1, 2] if steps(0, 1) and steps(1, 2) else y[item][1 : 1 + NEW]
    return X, y


def no_step_back(before, after):
    return (before, after) != (1, 0)


def entities(before, after):
    """Of O, B-x, I-x and B-new: what a scheme allows."""
    return after != 2 or before in (1, 2)


def with_clique_parameters(*more, **node):
    return [NodeCliques(RBF(0.5), prior_variance=2.0, rank=12, **node), EdgeCliques(prior_variance=3.0), *more]


def chain(*more, kind=ChainCRF, **node):
    return lambda names: kind(cliques=with_clique_parameters(*more, **node), **SETTINGS)


def usual(kind=ChainCRF, **settings):
    return lambda names: kind(**{**USUAL, **settings})


def forbidding(kind=ChainCRF, **settings):
    return lambda names: kind(**{**USUAL, **settings}, constraints=[(names[1], names[0])])


def words(X, y):
    """A first column of words, each of two labels; where a label is new, a word that the first batch had, too."""
    return [np.column_stack([labels % 2, x]) for x, labels in zip(X, y, strict=True)]


def as_paths(X, **parts):
    edges = [np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))]) for x in X]
    return [
        {"x": x, "edges": own, **{name: make(x) for name, make in parts.items()}}
        for x, own in zip(X, edges, strict=True)
    ]


def with_triangles(X):
    return [(x, {"edge": [[0, 1], [1, 2]], "triple": [[0, 1, 2], [2, 3, 4]]}) for x in X]


def with_features_of_edges(X):
    return [(x, [[0, 1], [1, 2], [2, 3]], x[:3] - x[1:4]) for x in X]


def as_segments(labels):
    """Labels of one sequence as (begin, end, label)."""
    cuts = [0, *(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)]
    return [(begin, end, labels[begin]) for begin, end in itertools.pairwise(cuts)]


def dictionary(kind=ChainCRF, unknown="all"):
    def build(names):
        rule = LabelDictionary(0, min_count=2, unknown=names[:2] if unknown == "listed" else unknown)
        return kind(**USUAL, allowed=rule)

    return build


BIO = {"names": (["O", "B-x", "I-x", "B-a"], ["O", "B-x", "I-x", "B-z"]), "steps": entities}
#: The estimator, how inputs and labels of a batch become those it takes, the names of labels, and what steps there are.
CASES = {
    "transitions": (usual(), {}),
    "transitions of inputs": (usual(edges=EdgeCliques(RBF(0.2), rank=8)), {}),
    "first and last labels": (chain(StartCliques(), EndCliques(), StartCliques(RBF(0.3), name="of inputs")), {}),
    "centred labels": (
        lambda names: ChainCRF(
            cliques=[NodeCliques(RBF(0.5), label_kernel="centred"), EdgeCliques(label_kernel="centred")], **SETTINGS
        ),
        {},
    ),
    "skips": (chain(SkipCliques(lag=2), SkipCliques(RBF(0.2), lag=3, rank=5)), {}),
    "orders": (chain(OrderCliques(order=2)), {}),
    "n-grams": (chain(LabelNgrams(n=3, support="all", prior_variance=2.0)), {}),
    "n-grams of inputs": (chain(LabelNgrams(RBF(0.3), n=3, rank=6)), {}),
    "steps that are forbidden": (forbidding(), {"steps": no_step_back}),
    "a first label that is forbidden": (
        lambda names: ChainCRF(**USUAL, constraints={"start": [names[1]], "end": [names[NEW - 1]]}),
        {"ends": True},
    ),
    "a scheme of entities": (usual(constraints="bio"), BIO),
    "a dictionary": (dictionary(), {"X": words}),
    "a dictionary of rare words": (dictionary(unknown="rare"), {"X": words}),
    "a dictionary with a list": (dictionary(unknown="listed"), {"X": words}),
    "windows": (usual(window=3), {}),
    "statistics of windows": (usual(window="statistics", kernel=RBF(0.05)), {}),
    "columns on one scale": (usual(scale=True), {}),
    "a sum of kernels": (usual(kernel=RBF(0.5) + Laplacian(0.2), prior_variance=(1.0, 2.0)), {}),
    "targets": (usual(), {"targets": True}),
    "within a budget of memory": (usual(engine=Threads(memory="200MB")), {}),
    "rings": (usual(RingCRF), {}),
    "rings with steps that are forbidden": (
        forbidding(RingCRF, edges=EdgeCliques(RBF(0.2), rank=6)),
        {"steps": no_step_back, "closed": True},
    ),
    "segments": (usual(SegmentCRF, max_duration=6), {}),
    "segments without durations": (usual(SegmentCRF, durations=None, max_duration=6), {}),
    "segments of one duration": (usual(SegmentCRF, durations=DurationCliques(shared=True), max_duration=6), {}),
    "segments that repeat": (usual(SegmentCRF, repeats=True, max_duration=3), {"sums": False}),
    "segments that are written": (usual(SegmentCRF, max_duration=6), {"y": as_segments}),
    "segments with steps that are forbidden": (forbidding(SegmentCRF, max_duration=6), {"steps": no_step_back}),
    "segments with a dictionary": (dictionary(SegmentCRF), {"X": words}),
    "segments with a dictionary, written": (dictionary(SegmentCRF), {"X": words, "y": as_segments}),
    "graphs": (usual(GraphCRF), {"X": lambda X, y: as_paths(X)}),
    "edges without direction": (
        usual(GraphCRF, edges=GraphFactors(symmetric=True)),
        {"X": lambda X, y: as_paths(X)},
    ),
    "edges with features": (
        usual(GraphCRF, edges=GraphFactors(RBF(0.3), symmetric=True)),
        {"X": lambda X, y: with_features_of_edges(X)},
    ),
    "graphs with edges that are forbidden": (
        forbidding(GraphCRF),
        {"X": lambda X, y: as_paths(X), "steps": no_step_back},
    ),
    "factors of three nodes": (
        lambda names: GraphCRF(
            cliques=[GraphNodes(RBF(0.5)), GraphFactors(), GraphFactors(group="triple", order=3)], **SETTINGS
        ),
        {"X": lambda X, y: with_triangles(X)},
    ),
    "types of nodes": (
        usual(GraphCRF, neighbours=False),
        {"X": lambda X, y: as_paths(X, node_types=lambda x: np.array(["p", "q"] * (len(x) // 2)))},
    ),
    "rows": (usual(KernelClassifier), {"rows": True}),
    "rows without constants": (usual(KernelClassifier, bias=False), {"rows": True}),
    "rows with weights of classes": (
        lambda names: KernelClassifier(**USUAL, class_weight={names[0]: 3.0}),
        {"rows": True},
    ),
    "rows of balanced classes": (usual(KernelClassifier, class_weight="balanced"), {"rows": True}),
}


class Batches:
    """Two batches of a case with some names of labels; the second brings a label."""

    def __init__(self, build, names, given):
        X, y = labelled(steps=given.get("steps", lambda before, after: True))
        if given.get("ends"):
            y = [np.where(np.arange(len(own)) == len(own) - 1, 0, own) for own in y]
        if given.get("closed"):
            y = [np.where(np.arange(len(own)) == len(own) - 1, 2, own) for own in y]
        X = given.get("X", lambda X, y: X)(X, y)
        self.rows = given.get("rows", False)
        self.names = np.array(names)
        self.order = np.argsort(self.names)  # which number each class has
        named = [self.names[own] for own in y]
        if self.rows:
            parts = [(np.concatenate(X[own]), np.concatenate(named[own])) for own in (slice(0, 4), slice(4, 8))]
        else:
            written = [given["y"](own) for own in named] if "y" in given else named
            if given.get("targets"):
                self.targets = [
                    SoftTargets(
                        [0.7 * np.eye(n)[own][:, self.order[self.order < n]] + 0.3 / n for own in y[part]],
                        classes=sorted(self.names[:n]),
                    )
                    for n, part in ((NEW, slice(0, 4)), (NEW + 1, slice(4, 8)))
                ]
                parts = [(X[:4], self.targets[0]), (X[4:], self.targets[1])]
            else:
                parts = [(X[:4], written[:4]), (X[4:], written[4:])]
        self.first, self.second = parts
        self.asked = parts[1][0] if self.rows else X[2:6]
        self.model = build(names)

    def marginals(self, model):
        """Marginals whose columns are the numbers of labels, whatever their names."""
        found = model.predict_marginals(self.asked)
        table = np.asarray(found) if self.rows else np.concatenate(found)
        return table[:, np.searchsorted(model.classes_, self.names[np.isin(self.names, model.classes_)])]

    def given_no_new_label(self, model):
        old = set(self.names[:NEW].tolist())
        known = [old] * len(self.asked) if self.rows else [[old] * len(x) for x in self.plain]
        found = model.predict_marginals(self.asked, known=known)
        return np.asarray(found) if self.rows else np.concatenate(found)

    @property
    def plain(self):
        return [x["x"] if isinstance(x, dict) else x[0] if isinstance(x, tuple) else x for x in self.asked]


@pytest.fixture(scope="module")
def fitted():
    """The fits of each case, made once: before the second batch and after a third, by names of labels."""
    known = {}

    def of(case, place):
        if (case, place) not in known:
            build, given = CASES[case]
            batches = Batches(build, given.get("names", (FIRST, LAST))[place], given)
            before = batches.model.partial_fit(*batches.first)
            after = copy.deepcopy(before).partial_fit(*batches.second).partial_fit(*batches.second)
            known[case, place] = batches, before, after
        return known[case, place]

    return of


@pytest.mark.parametrize("case", CASES)
def test_answers_do_not_depend_on_where_the_new_label_sorts(fitted, case):
    (first, _, one), (last, _, other) = (fitted(case, place) for place in (0, 1))
    assert one.classes_.tolist() == sorted(first.names)
    assert one.classes_[0] == first.names[NEW] or case == "a scheme of entities"
    np.testing.assert_allclose(first.marginals(one), last.marginals(other), atol=2e-6)
    assert one.solution_.value == pytest.approx(other.solution_.value, rel=1e-7)
    names = dict(zip(first.names.tolist(), last.names.tolist(), strict=True))
    answers = [np.ravel(own).tolist() for own in one.predict(first.asked)]
    renamed = [[names[label] for label in own] for own in answers]
    assert renamed == [np.ravel(own).tolist() for own in other.predict(last.asked)]


@pytest.mark.parametrize("case", CASES)
def test_admitting_a_label_moves_no_score_of_the_others(fitted, case):
    batches, before, _ = fitted(case, 0)
    admitted = batches.model.__class__(**before.get_params(deep=False))
    admitted.partial_fit(*batches.first, classes=batches.names.tolist())
    assert admitted.classes_.tolist() == sorted(batches.names)
    columns = np.searchsorted(admitted.classes_, before.classes_)
    found = batches.given_no_new_label(admitted)
    assert np.all(np.delete(found, columns, axis=1) == 0)
    np.testing.assert_allclose(found[:, columns], batches.given_no_new_label(before), atol=1e-7)


def arrays_of(value, seen):
    """All arrays and lists of numbers that an object holds, however deep, with what they are called."""
    if id(value) in seen or isinstance(value, str | bytes | type):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield "", value
    elif isinstance(value, list | tuple) and value and all(isinstance(each, float) for each in value):
        yield "", np.array(value)
    else:
        named = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
        )
        for name, own in [*named, *getattr(value, "__dict__", {}).items()]:
            yield from ((f"{name}/{inside}", array) for inside, array in arrays_of(own, seen))


def test_no_array_of_the_old_number_of_labels_is_left():
    """Eleven labels become fourteen: nothing else has such lengths, so that what is forgotten shows."""
    random = np.random.default_rng(0)
    names = [f"l{number:02d}" for number in range(11)]
    y = [["l00", *random.permutation(names), *["l00"] * 10] for _ in range(12)]
    X = [np.array([[int(label[1:])] for label in labels]) + 0.3 * random.normal(size=(22, 1)) for labels in y]
    cliques = {"edges": EdgeCliques(label_kernel="centred"), "constraints": {"start": ["l05"]}}
    crf = ChainCRF(**{**USUAL, "rank": 7, "tol": 0.05}, decode="f1", **cliques).partial_fit(X, y)
    old = {11, 11**2, 10, 11**2 - 1}
    found = {size for _, array in arrays_of(vars(crf), set()) for size in array.shape}
    assert found >= old, "the search finds what it looks for"
    crf.partial_fit([x[:6] for x in X[:2]], [["a", *labels[1:6]] for labels in y[:2]], classes=["b", "c"])
    assert len(crf.classes_) == 14
    assert not [(name, array.shape) for name, array in arrays_of(vars(crf), set()) if old & set(array.shape)]


def log_chances(model, x, labellings):
    """The logarithm of the probability of each labelling of one item, minus infinity where it is forbidden."""
    found = []
    for labelling in labellings:
        try:
            found.append(model.log_likelihood([x], [list(labelling)]))
        except ValueError as error:
            if not any(words in str(error) for words in ("forbid", "not among", "no labelling", "cannot")):
                raise
            found.append(-np.inf)
    return np.array(found)


@pytest.mark.parametrize("case", [case for case, (_, given) in CASES.items() if given.get("sums", True)])
def test_labellings_sum_to_one_and_to_the_marginals(fitted, case):
    batches, _, after = fitted(case, 0)
    classes = after.classes_.tolist()
    if batches.rows:
        marginals = after.predict_marginals(batches.asked[:3])
        logs = [[after.log_likelihood(batches.asked[[row]], [own]) for own in classes] for row in range(3)]
        np.testing.assert_allclose(np.exp(logs), marginals, atol=1e-9)
        return
    x = shortened(batches.asked[-1])
    (marginals,) = after.predict_marginals([x])
    labellings = list(itertools.product(classes, repeat=3))
    chances = np.exp(log_chances(after, x, labellings))
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    for position, label in itertools.product(range(3), range(len(classes))):
        own = sum(chance for chance, each in zip(chances, labellings, strict=True) if each[position] == classes[label])
        assert own == pytest.approx(marginals[position, label], abs=1e-9)


def shortened(x):
    """The first three positions of a sequence or a graph."""
    if isinstance(x, np.ndarray):
        return x[:3]
    if isinstance(x, dict):
        cut = {**x, "x": x["x"][:3], "edges": x["edges"][:2]}
        return {**cut, "node_types": x["node_types"][:3]} if "node_types" in x else cut
    nodes, edges, *features = x
    if isinstance(edges, dict):
        return nodes[:3], {"edge": [[0, 1], [1, 2]], "triple": [[0, 1, 2]]}
    return nodes[:3], edges[:2], *(own[:2] for own in features)


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_got_a_label_is_saved_and_goes_on(fitted, case, tmp_path):
    batches, _, after = fitted(case, 0)
    after.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_allclose(batches.marginals(loaded), batches.marginals(after), atol=1e-12)
    assert np.array_equal(loaded.solution_.theta, after.solution_.theta)
    one, other = loaded.partial_fit(*batches.second), copy.deepcopy(after).partial_fit(*batches.second)
    np.testing.assert_allclose(batches.marginals(one), batches.marginals(other), atol=1e-6)
