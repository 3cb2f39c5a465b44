"""compat.pycrfsuite is the module of python-crfsuite: trainers, taggers and sequences, on files of both programs."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from tagged_sentences import tagged_data

import kernelfields
from kernelfields.compat import CRF, pycrfsuite
from kernelfields.compat.pycrfsuite import CRFSuiteError, ItemSequence, Tagger, Trainer
from kernelfields.compat.pycrfsuite.scores import NamedScores
from kernelfields.formats import ModelFileError
from kernelfields.models.crfsuite_file import read_crfsuite
from tests.models.crfsuite_bytes import crfsuite_bytes, random_model, random_sequences

X, Y = tagged_data(25)
MODEL = random_model()
LABELS, ATTRIBUTES, STATES, TRANSITIONS = MODEL
CONTENT = crfsuite_bytes(*MODEL)
SEQUENCES = random_sequences(ATTRIBUTES)
PARAMETERS = {"c1": 0.1, "c2": 0.01, "feature.minfreq": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "names.crfsuite"
    trainer = Trainer(verbose=False, params=PARAMETERS)
    for sequence, labels in zip(X, Y, strict=True):
        trainer.append(sequence, labels)
    trainer.train(str(path))
    return path


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "given.crfsuite"
    path.write_bytes(CONTENT)
    return path


# ---- ItemSequence


def test_attributes_are_named_as_in_python_crfsuite():
    sequence = ItemSequence(
        [
            ["foo", "bar"],
            {"foo": True, "off": False, "bar": {"foo": -1, "word": "x", "egg": ["x", "y"], "ham": {"z"}}},
            {"ключ": "привет", "bytes": "é".encode()},
            {},
        ]
    )
    assert len(sequence) == 4
    assert repr(sequence) == "<ItemSequence of size 4>"
    assert sequence.items() == [
        {"foo": 1.0, "bar": 1.0},
        {
            "foo": 1.0,
            "off": 0.0,
            "bar:foo": -1.0,
            "bar:word:x": 1.0,
            "bar:egg:x": 1.0,
            "bar:egg:y": 1.0,
            "bar:ham:z": 1.0,
        },
        {"ключ:привет": 1.0, "bytes:é": 1.0},
        {},
    ]
    assert ItemSequence(sequence).items() == sequence.items() == ItemSequence(sequence.items()).items()


# ---- Tagger


def brute_force(x):
    """All labellings of a sequence and their scores."""
    scores = {}
    for y in itertools.product(LABELS, repeat=len(x)):
        own = sum(
            w * STATES.get((name, label), 0.0) for row, label in zip(x, y, strict=True) for name, w in row.items()
        )
        scores[y] = own + sum(TRANSITIONS.get(pair, 0.0) for pair in itertools.pairwise(y))
    return scores


def test_answers_are_those_of_the_weights_in_the_file(given):
    with Tagger().open(given) as tagger:
        assert tagger.labels() == LABELS
        for x in (x for x in SEQUENCES if len(x) < 5):
            scores = brute_force(x)
            log_z = np.logaddexp.reduce(list(scores.values()))
            best = max(scores, key=scores.get)
            assert tagger.tag(x) == list(best)
            assert tagger.tag() == list(best)
            assert tagger.probability(best) == pytest.approx(math.exp(scores[best] - log_z), abs=1e-12)
            own = sum(math.exp(score - log_z) for y, score in scores.items() if y[-1] == "L0")
            assert tagger.marginal("L0", len(x) - 1) == pytest.approx(own, abs=1e-12)


POSITIONS = [
    {"w": "aé", "w:bé": 0.5, "w:cé": True, "w:dé": False, "w:eé": 2},
    {"w": {"aé": 1.5, "bé": "x"}, "none": {"w": "aé"}, "w:fé": np.float32(0.5)},
    {"w": ["aé", "bé"], "other": ("x",)},
    {"w": {"aé", "bé"}, b"w": "cé".encode(), "w:gé": 10**400 // 10**400},
    ["w:aé", "w:aé", "w:bé", "unknown"],
    ("w:aé", "w:cé"),
    {"w:aé": 1.0}.keys(),
    {},
    [],
]


def node_scores(scores, x):
    return scores.nodes(scores.read(x))


def test_every_form_of_positions_is_read_alike():
    """Looked up key by key, by names that are joined, or prepared before: the same scores to the last bit."""
    plain = NamedScores(read_crfsuite(CONTENT))
    nodes = node_scores(plain, POSITIONS)
    assert nodes.tobytes() == node_scores(plain, POSITIONS).tobytes()  # of features that were noted
    assert nodes.tobytes() == node_scores(plain, tuple(POSITIONS)).tobytes()
    assert nodes.tobytes() == node_scores(plain, ItemSequence(POSITIONS)).tobytes()
    assert nodes.tobytes() == b"".join(node_scores(plain, [position]).tobytes() for position in POSITIONS)
    for row, items in zip(nodes, ItemSequence(POSITIONS).rows, strict=True):
        for label, name in enumerate(LABELS):
            own = [w * STATES.get((item, name), 0.0) for item, w in zip(items.names, items.weights, strict=True)]
            assert row[label] == pytest.approx(sum(own), abs=1e-12)


def test_compiled_sums_are_the_plain_ones_to_the_last_bit():
    plain, compiled = (NamedScores(read_crfsuite(CONTENT), after) for after in (10**9, 0))
    for x in [*SEQUENCES, POSITIONS, [{"unknown": 1.0}], [{}], [[]], []]:
        assert node_scores(plain, x).tobytes() == node_scores(compiled, x).tobytes()
        assert plain.label(plain.read(x)) == compiled.label(compiled.read(x))


@pytest.mark.parametrize("after", [0, 10**9])
def test_the_first_of_equal_labels_is_the_best(after):
    scores = NamedScores(
        read_crfsuite(crfsuite_bytes(["b", "a", "c"], ["w"], {("w", "c"): 0.0}, {("c", "a"): 0.0})), after
    )
    assert scores.label(scores.read([{"w": 1.0}, {}, {}])) == ["b"] * 3


def test_notes_of_features_are_taken_anew():
    """Weights that differ, unknown texts short and long: what was noted changes no score."""
    few, many = (NamedScores(read_crfsuite(CONTENT), n_more=n) for n in (3, 65536))
    x = [{"w:aé": k / 7, "w": ("aé", "bé")[k % 2], "own": {"w:bé": k, "x": f"{k}" * 60}} for k in range(200)]
    expected = [node_scores(many, [position]) for position in x]
    for _ in range(2):
        assert all(
            np.array_equal(node_scores(few, [position]), nodes) for position, nodes in zip(x, expected, strict=True)
        )
    assert np.array_equal(node_scores(few, x), np.concatenate(expected))


def test_values_that_are_equal_weigh_the_same():
    scores = NamedScores(read_crfsuite(CONTENT))
    one = node_scores(scores, [{"w:aé": True}])
    for value in (1, 1.0, np.float64(1.0), np.True_, ItemSequence([["w:aé"]]).rows[0].weights[0]):
        assert np.array_equal(node_scores(scores, [{"w:aé": value}]), one)
    for value in (False, 0, 0.0, -0.0):
        assert node_scores(scores, [{"w:aé": value}]).tobytes() == np.zeros_like(one).tobytes()


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ({"w": None}, "feature 'w' is None"),
        ({"w:aé": float("nan")}, "'w:aé' is nan"),
        ({"w:aé": 10**400}, "too large for a weight"),
        ({3: 1.0}, "feature name 3 is int"),
        ({3: "a"}, "feature name 3 is int"),
        ([3.0], "feature name 3.0 is float"),
        ("word", "expected a feature dict"),
        (None, "expected a feature dict"),
    ],
)
def test_positions_that_cannot_be_read(position, words, given):
    with Tagger().open(given) as tagger, pytest.raises((TypeError, ValueError), match=words):
        tagger.tag([{"w": "aé"}, position])


def test_a_tagger_that_is_closed_says_so(given):
    tagger = Tagger()
    for ask in (
        tagger.labels,
        tagger.tag,
        tagger.info,
        lambda: tagger.marginal("L0", 0),
        lambda: tagger.tag(SEQUENCES[0]),
    ):
        for kind in (ValueError, RuntimeError):
            with pytest.raises(kind, match=r"call open\(path\) first"):
                ask()
    with tagger.open(given):
        pass
    with pytest.raises(ValueError, match="no model is open"):
        tagger.labels()


def test_questions_about_what_is_not_there(given):
    with Tagger().open(given) as tagger:
        assert (tagger.tag([]), tagger.probability([]), tagger.marginal("L0", 0)) == ([], 0.0, 0.0)
        tagger.set([{"w": "aé"}])
        with pytest.raises(ValueError, match="'X' is no label of the model, which has L"):
            tagger.marginal("X", 0)
        for place in (1, -1):
            with pytest.raises(ValueError, match=f"there is no position {place}"):
                tagger.marginal("L0", place)
        with pytest.raises(ValueError, match="there are 1 positions and 2 labels"):
            tagger.probability(["L0", "L0"])


def test_files_that_no_tagger_can_open(tmp_path):
    path = tmp_path / "some.kfm"
    kernelfields.ChainCRF("linear", prior_variance=1.0).fit([[[0.0], [1.0]]], [["a", "b"]]).save(path)
    with pytest.raises(ModelFileError, match="no weights of named features"):
        Tagger().open(path)
    with pytest.raises(FileNotFoundError):
        Tagger().open(tmp_path / "gone")
    for content in (b"", b"lCRFabc", b"lCRFfoo" * 100, b"text"):
        with pytest.raises(ModelFileError):
            Tagger().open_inmemory(content)


def test_info_and_dump_list_all_weights(given, tmp_path, capsys):
    with Tagger().open_inmemory(CONTENT) as tagger:
        info = tagger.info()
        tagger.dump(tmp_path / "dump.txt")
        tagger.dump()
    assert (info.transitions, info.state_features) == (TRANSITIONS, STATES)
    assert list(info.labels) == LABELS
    assert {int(number) for number in info.attributes.values()} == set(range(len(ATTRIBUTES)))
    assert info.header["num_labels"] == str(len(LABELS))
    text = (tmp_path / "dump.txt").read_text(encoding="utf-8")
    assert text == capsys.readouterr().out
    (name, label), weight = next(iter(STATES.items()))
    assert f"  (0) {name} --> {label}: {weight:f}\n" in text
    with Tagger().open(given) as tagger:
        assert tagger.info().header["size"] == str(len(CONTENT))


def test_a_tagger_loads_no_compiler_and_no_scikit_learn(given):
    code = (
        "import sys\n"
        "from kernelfields.compat.pycrfsuite import Tagger\n"
        f"with Tagger().open({str(given)!r}) as tagger:\n"
        "    tagger.tag([{'w': 'a'}]), tagger.marginal('L0', 0)\n"
        "print([name for name in ('numba', 'sklearn', 'scipy', 'pandas') if name in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# ---- Trainer


def test_a_training_is_that_of_the_estimator(trained):
    crf = CRF(c1=0.1, c2=0.01, min_freq=0).fit(X, Y)
    with Tagger().open(trained) as tagger:
        info = tagger.info()
        assert [tagger.tag(x) for x in X] == crf.predict(X).tolist()
    assert info.state_features == crf.state_features_
    assert info.transitions == crf.transition_features_
    assert CRF.load(trained).state_features_ == crf.state_features_
    assert set(crf.tagger_.info().attributes) == set(info.attributes)


def test_prepared_sequences_groups_and_clear(tmp_path):
    trainer = Trainer("lbfgs", {"c2": 0.1}, verbose=False)
    trainer.append([{"a": 1}], ["x"])
    trainer.clear()
    for number, (sequence, labels) in enumerate(zip(X, Y, strict=True)):
        trainer.append(ItemSequence(sequence), tuple(labels), group=int(number >= 20))
    path = tmp_path / "model"
    trainer.train(path, holdout=1)
    crf = CRF(c2=0.1).fit(X[:20], Y[:20])
    assert CRF.load(path).state_features_ == crf.state_features_
    last = trainer.logparser.last_iteration
    assert last["item_accuracy_float"] == crf.score(X[20:], Y[20:])
    assert set(last["scores"]) == set(crf.classes_)
    held_out = CRF(c2=0.1).fit(X[:20], Y[:20], X[20:], Y[20:]).training_log_.last_iteration
    assert {name: held_out[name] for name in ("scores", "avg_f1", "item_accuracy")} == {
        name: last[name] for name in ("scores", "avg_f1", "item_accuracy")
    }
    trainer.train("")  # writes nothing
    with pytest.raises(ValueError, match="there is no sequence to train on"):
        Trainer(verbose=False).train(path)


def test_the_log_comes_line_by_line(tmp_path, capsys):
    class Capturing(Trainer):
        def __init__(self):
            self.lines = []

        def message(self, message):
            self.lines.append(message)

    capturing, verbose = Capturing(), Trainer(params={"max_iterations": 3})
    for trainer in (capturing, verbose):
        trainer.append(X[0], Y[0])
        trainer.train(tmp_path / "model")
    assert "type: CRF1d\n" in capturing.lines
    shown = capsys.readouterr().out
    assert "***** Iteration #3 *****\nLoss: " in shown
    assert "max_iterations: 3\n" in shown
    assert [each["num"] for each in verbose.logparser.iterations] == [1, 2, 3]

    class Failing(Trainer):
        def message(self, message):
            raise CRFSuiteError("stop")

    failing = Failing()
    failing.append(X[0], Y[0])
    with pytest.raises(CRFSuiteError, match="stop"):
        failing.train(tmp_path / "other")


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd"])
def test_parameters_have_the_names_types_and_defaults_of_crfsuite(algorithm):
    trainer = Trainer(algorithm)
    theirs = pytest.importorskip("pycrfsuite").Trainer(algorithm)
    assert trainer.get_params() == pytest.approx(theirs.get_params())
    assert trainer.params() == theirs.params()
    for name in trainer.params():
        assert trainer.help(name)
    trainer.set_params(trainer.get_params())
    trainer.set("feature.possible_states", True)
    assert trainer.get("feature.possible_states") is True
    trainer.set("c2", "0.25")
    assert trainer.get("c2") == 0.25


def test_what_cannot_be_set():
    trainer = Trainer()
    for call in (trainer.get, trainer.help, lambda name: trainer.set(name, 1)):
        with pytest.raises(ValueError, match="'foo' is no parameter of lbfgs, which has feature"):
            call("foo")
    with pytest.raises(ValueError, match=r"c1 must be like 0\.0, got 'much'"):
        trainer.set("c1", "much")
    with pytest.raises(ValueError, match="algorithm must be 'lbfgs' or 'l2sgd', got 'foo'"):
        trainer.select("foo")
    with pytest.raises(ValueError, match="type must be 'crf1d'"):
        trainer.select("lbfgs", "semim")
    for algorithm in ("ap", "averaged-perceptron", "pa", "passive-aggressive", "arow"):
        with pytest.raises(NotImplementedError, match="Use algorithm='lbfgs' with c1 and c2"):
            Trainer(algorithm)
    trainer.set("linesearch", "Backtracking")
    trainer.append(X[0], Y[0])
    with pytest.raises(NotImplementedError, match="linesearch='Backtracking' has no counterpart"):
        trainer.train("")
    with pytest.raises(ValueError, match="there are 1 positions and 2 labels"):
        trainer.append([{"a": 1}], ["x", "y"])


def test_the_module_has_the_names_of_python_crfsuite():
    for name in ("Trainer", "Tagger", "ItemSequence", "CRFSuiteError", "CRFSUITE_VERSION"):
        assert getattr(pycrfsuite, name)
        assert name in pycrfsuite.__all__
