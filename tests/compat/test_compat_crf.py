"""CRF behaves as sklearn_crfsuite.CRF does: names, forms of answers, copies, files, corners of its inputs."""

import gc
import inspect
import os
import pickle
import shutil
from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tagged_sentences import tagged_data

from kernelfields.compat import CRF
from kernelfields.compat.pycrfsuite import Tagger
from kernelfields.formats import ModelFileError
from tests.models.crfsuite_bytes import crfsuite_bytes, random_model, random_sequences

X, y = tagged_data(30)
X_TEST, Y_TEST = tagged_data(10, seed=1)

NAMES = [
    "algorithm", "min_freq", "all_possible_states", "all_possible_transitions", "c1", "c2", "max_iterations",
    "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch", "calibration_eta",
    "calibration_rate", "calibration_samples", "calibration_candidates", "calibration_max_trials", "pa_type",
    "c", "error_sensitive", "averaging", "variance", "gamma", "verbose", "model_filename", "keep_tempfiles",
    "trainer_cls",
]  # fmt: skip


@pytest.fixture(scope="module")
def crf():
    return CRF(c1=0.05, c2=0.1).fit(X, y)


def test_the_constructor_is_that_of_sklearn_crfsuite():
    parameters = list(inspect.signature(CRF).parameters.values())
    assert [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD] == NAMES
    assert [each.name for each in parameters if each.kind is each.KEYWORD_ONLY] == ["n_jobs", "random_state"]
    given = CRF("lbfgs", 2.0, True, False, 0.1, 0.2, 30)
    assert given.get_params()["max_iterations"] == 30
    assert clone(given).get_params() == given.get_params()


def test_labels_are_the_best_sequence_of_labels_as_in_crfsuite():
    """Also where labels are no entities, and the likeliest label of each position is another."""
    random = np.random.default_rng(0)
    sequences = [[{"w": f"w{number}"} for number in random.integers(3, size=5)] for _ in range(12)]
    labels = [random.choice(["a", "b", "c"], size=5).tolist() for _ in sequences]
    crf = CRF(c1=0.0, c2=0.1, all_possible_transitions=True).fit(sequences, labels)
    states, steps, differ = crf.state_features_, crf.transition_features_, 0
    for x, found, marginals in zip(sequences, crf.predict(sequences), crf.predict_marginals(sequences), strict=True):
        scores = {
            own: sum(states.get((f"w:{row['w']}", label), 0.0) for row, label in zip(x, own, strict=True))
            + sum(steps.get(pair, 0.0) for pair in pairwise(own))
            for own in product("abc", repeat=5)
        }
        assert scores[tuple(found)] == pytest.approx(max(scores.values()), abs=1e-9)
        differ += found != [max(row, key=row.get) for row in marginals]
    assert differ > 0


def test_answers_are_arrays_of_lists(crf):
    predicted, marginals = crf.predict(X_TEST), crf.predict_marginals(X_TEST)
    for answers in (predicted, marginals):
        assert isinstance(answers, np.ndarray)
        assert answers.dtype == object
        assert answers.shape == (len(X_TEST),)
    assert all(type(labels) is list and type(labels[0]) is str for labels in predicted)
    assert type(marginals[0]) is list
    assert type(marginals[0][0]["O"]) is float
    assert crf.predict_single(X_TEST[3]) == predicted[3]
    assert crf.predict_marginals_single(X_TEST[3]) == marginals[3]
    # Sequences of equal length stay lists; there, they become rows of a matrix.
    assert crf.predict([X_TEST[0], X_TEST[0]]).shape == (2,)


def test_models_can_be_saved(crf, tmp_path):
    path = tmp_path / "names.model"
    crf.save(path)
    twin = CRF.load(path)
    assert twin.predict_marginals(X_TEST).tolist() == crf.predict_marginals(X_TEST).tolist()
    assert twin.state_features_ == crf.state_features_
    assert twin.transition_features_ == crf.transition_features_
    # A file holds nothing that a clock has measured.
    timeless = [[{**own, "time": None} for own in each.training_log_.iterations] for each in (twin, crf)]
    assert timeless[0] == timeless[1]
    assert twin.training_log_.reason == crf.training_log_.reason
    assert twin.get_params() == crf.get_params()
    assert crf.size_ == path.stat().st_size
    other = tmp_path / "chain.model"
    crf.chain_.save(other)
    with pytest.raises(ModelFileError, match=r"kind 'ChainCRF', expected 'compat\.CRF'"):
        CRF.load(other)
    with pytest.raises(FileNotFoundError, match="gone does not exist"):
        CRF.load(tmp_path / "gone")


def test_empty_sequences_have_empty_answers():
    with_empty = CRF(c2=0.5).fit([[], *X, []], [[], *y, []])
    without = CRF(c2=0.5).fit(X, y)
    assert with_empty.state_features_ == without.state_features_
    answers = with_empty.predict([[], X[0], [], X[1]])
    assert answers.tolist() == [[], without.predict_single(X[0]), [], without.predict_single(X[1])]
    assert with_empty.predict_marginals([X[0], []])[1] == []
    assert with_empty.predict_single([]) == []
    assert with_empty.predict([]).shape == (0,)
    assert with_empty.score([[], X[0]], [[], y[0]]) == without.score([X[0]], [y[0]])
    with pytest.raises(TypeError, match="sequence 2, position 0"):
        with_empty.predict([[], X[0], [3.0]])
    with pytest.raises(TypeError, match="sequence 1, position 0") as error:
        CRF().fit([[], X[0], [3.0]], [[], y[0], y[0][:1]])
    assert "counted without the 1 empty" in error.value.__notes__[0]


def test_iterators_and_strings_are_taken():
    strings = [[[f"w={word['word.lower()']}", "bias"] for word in sequence] for sequence in X]
    listed = CRF(c2=0.5).fit(strings, y)
    walked = CRF(c2=0.5).fit(((position for position in sequence) for sequence in strings), map(iter, y))
    assert walked.state_features_ == listed.state_features_
    assert ("bias", "O") in listed.state_features_
    assert listed.predict(iter(strings[:2])).tolist() == listed.predict(strings[:2]).tolist()
    with pytest.warns(UserWarning, match="no feature of X is known to this model"):
        assert listed.predict_single([[], ["never seen"]]) == listed.predict_single([[], []])


def test_a_single_label_is_refused():
    with pytest.raises(ValueError, match="y holds one class only, 'O': fitting needs at least two"):
        CRF().fit([*X, []], [["O"] * len(sequence) for sequence in X] + [[]])


@pytest.mark.parametrize("parameters", [{"c1": 1e6}, {"c1": 1e6, "all_possible_states": True}, {"min_freq": 1e6}])
def test_a_model_may_be_left_without_weights(parameters):
    crf = CRF(**parameters).fit(X, y)
    assert crf.state_features_ == {}
    assert crf.transition_features_ == {}
    assert crf.training_log_.iterations == []
    assert crf.training_log_.last_iteration is None
    uniform = dict.fromkeys(crf.classes_, 1 / len(crf.classes_))
    assert crf.predict_marginals_single(X[0]) == [pytest.approx(uniform)] * len(X[0])
    assert len(crf.predict_single(X[0])) == len(X[0])


FOUND = ["classes_", "state_features_", "transition_features_", "attributes_", "num_attributes_", "size_", "tagger_"]


@pytest.mark.parametrize("name", FOUND)
def test_what_a_fit_finds_is_none_before_it(name, crf):
    assert getattr(CRF(), name) is None
    assert getattr(crf, name) is not None
    assert CRF().modelfile.name is None
    with pytest.raises(NotFittedError, match="Call 'fit' first"):
        CRF().predict(X)


def test_the_tagger_answers_as_the_estimator_does(crf):
    tagger = crf.tagger_
    assert tagger.labels() == crf.classes_
    for x, labels, marginals in zip(X_TEST, crf.predict(X_TEST), crf.predict_marginals(X_TEST), strict=True):
        assert tagger.tag(x) == labels
        own = [{label: tagger.marginal(label, t) for label in crf.classes_} for t in range(len(x))]
        assert own == [pytest.approx(row, abs=1e-12) for row in marginals]
        assert np.log(tagger.probability(labels)) == pytest.approx(crf.log_likelihood([x], [labels]), abs=1e-9)
    info = tagger.info()
    assert info.state_features == crf.state_features_
    assert info.transitions == crf.transition_features_
    assert crf.tagger_ is tagger


def test_answers_can_be_compared_with_lists(crf):
    predicted = crf.predict(X_TEST)
    assert predicted == predicted.tolist()
    assert (predicted != predicted.tolist()) is False
    assert predicted != Y_TEST[:3]
    assert (predicted == predicted).all()  # arrays compare element by element
    assert crf.predict(X_TEST[:1]) == [crf.predict_single(X_TEST[0])]


def test_the_model_file_is_where_it_was_named(tmp_path):
    path = tmp_path / "names.crfsuite"
    with pytest.raises(NotFittedError):
        CRF(model_filename=path).predict(X)
    crf = CRF(c1=0.05, c2=0.1, model_filename=str(path)).fit(X, y)
    assert crf.modelfile.name == str(path)
    assert crf.size_ == path.stat().st_size
    opened = CRF(model_filename=path)
    assert opened.predict(X_TEST) == crf.predict(X_TEST).tolist()
    assert opened.training_log_.reason == crf.training_log_.reason
    assert pickle.loads(pickle.dumps(crf)).predict(X_TEST) == crf.predict(X_TEST).tolist()
    assert CRF.load(path).get_params() == crf.get_params()


def test_a_temporary_model_file_goes_with_the_estimator():
    crf = CRF(c2=0.1, max_iterations=3).fit(X, y)
    path = crf.modelfile.name
    assert CRF.load(path).predict(X_TEST) == crf.predict(X_TEST).tolist()
    crf.modelfile.cleanup()
    assert not os.path.exists(path)
    path = crf.modelfile.name
    del crf
    gc.collect()
    assert not os.path.exists(path)
    crf = CRF(c2=0.1, max_iterations=3, keep_tempfiles=True).fit(X, y)
    path = crf.modelfile.name
    del crf
    gc.collect()
    assert os.path.exists(path)
    shutil.rmtree(os.path.dirname(path))


def test_models_of_crfsuite_become_estimators(tmp_path):
    labels, attributes, states, transitions = random_model()
    path = tmp_path / "given.crfsuite"
    path.write_bytes(crfsuite_bytes(labels, attributes, states, transitions))
    sequences = random_sequences(attributes)
    crf = CRF.from_crfsuite(path)
    assert crf.state_features_ == states
    assert crf.transition_features_ == transitions
    assert crf.training_log_.message == "its weights were read from a file of another program"
    with Tagger().open(path) as tagger:
        assert crf.predict(sequences) == [tagger.tag(x) for x in sequences]
    assert CRF(model_filename=path).predict(sequences) == crf.predict(sequences).tolist()
    crf.save(tmp_path / "model.kfm")
    assert CRF.load(tmp_path / "model.kfm").predict(sequences) == crf.predict(sequences).tolist()
    fitted = tmp_path / "fitted.kfm"
    CRF(max_iterations=2).fit(X, y).save(fitted)
    with pytest.raises(ModelFileError, match=r"is no model file of CRFsuite: open it with CRF\.load"):
        CRF.from_crfsuite(fitted)
