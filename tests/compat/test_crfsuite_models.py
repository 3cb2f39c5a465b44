"""Models that CRFsuite trained answer here as they answer there: labels equal, marginals and scores to 1e-9."""

import pytest
from tagged_sentences import tagged_data

import kernelfields.compat

pycrfsuite = pytest.importorskip("pycrfsuite")

from benchmarks import crfsuite_models  # noqa: E402  it imports pycrfsuite


def some_addresses():
    data = crfsuite_models.addresses()
    return crfsuite_models.Data(data.X[:60], data.y[:60], data.test[:40])


def some_names():
    data = crfsuite_models.names()
    return crfsuite_models.Data(data.X[:60], data.y[:60], data.test[:40])


def some_chunks():
    """Lists of strings, as of chunks."""
    (X, y), (test, _) = tagged_data(60), tagged_data(40, seed=1)
    strings = [[[f"{name}={value}" for name, value in row.items()] for row in x] for x in (*X, *test)]
    return crfsuite_models.Data(strings[:60], y, strings[60:])


@pytest.mark.parametrize("algorithm", [*crfsuite_models.ALGORITHMS, "ap", "arow"])
@pytest.mark.parametrize("program", [some_addresses, some_names, some_chunks])
def test_models_of_crfsuite_answer_as_there(program, algorithm, tmp_path, monkeypatch):
    monkeypatch.setitem(crfsuite_models.ALGORITHMS, algorithm, crfsuite_models.ALGORITHMS.get(algorithm, {}))
    data, path = program(), str(tmp_path / "model.crfsuite")
    theirs = crfsuite_models.train(data, algorithm, path)
    differ = crfsuite_models.compare_answers(theirs, path, data.test)
    assert differ["labels"] == 0
    # Where scores are equal up to rounding, labels of a field are the first in the order of the alphabet.
    assert differ["labels of the field"] == 0 or algorithm == "ap"
    assert differ["marginals"] < 1e-9
    assert differ["log-probabilities"] < 1e-9


def test_weights_are_those_that_crfsuite_lists(tmp_path):
    path = str(tmp_path / "model.crfsuite")
    theirs = crfsuite_models.train(some_names(), "lbfgs", path).info()
    crf = kernelfields.compat.CRF.from_crfsuite(path)
    assert crf.state_features_ == pytest.approx(theirs.state_features, abs=1e-6)  # it writes six digits
    assert crf.transition_features_ == pytest.approx(theirs.transitions, abs=1e-6)
    assert crf.attributes_ == list(theirs.attributes)
