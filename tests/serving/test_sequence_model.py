"""Classifiers of whole sequences read with NumPy alone answer as the estimator does."""

import json
import subprocess
import sys

import numpy as np
import pytest

from kernelfields import ChainCRF, SequenceClassifier
from kernelfields.features import Sequencewise
from kernelfields.formats import write_model
from kernelfields.serving import ServingError, load_chain, load_sequence_classifier

RANDOM = np.random.default_rng(0)
X = [RANDOM.normal(size=(int(length), 2)) + number % 2 for number, length in enumerate(RANDOM.integers(3, 30, size=12))]
Y = ["high" if number % 2 else "low" for number in range(12)]
KINDS = {
    "shapes": {"n_states": 0, "whole": "shapes", "prior_variance": 0.1},
    "summaries": {"n_states": 0, "whole": "summaries", "prior_variance": 1.0, "kernel": "laplacian"},
    "states": {"n_states": 2, "kernel": "rbf", "rank": 10, "tol": 1e-2},
}


@pytest.fixture(params=KINDS)
def model(request):
    return SequenceClassifier(**KINDS[request.param], random_state=0).fit(X, Y)


def test_answers_are_those_of_the_estimator(model, tmp_path):
    model.save(tmp_path / "model.kfm")
    served = load_sequence_classifier(tmp_path / "model.kfm")
    np.testing.assert_allclose(served.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-9)
    assert served.predict(X).tolist() == model.predict(X).tolist()
    assert served.n_features_in_ == 2
    assert served.predict([]).shape == (0,)
    with pytest.raises(ValueError, match="sequence 0 has the shape"):
        served.predict([np.zeros((4, 3))])
    with pytest.raises(ValueError, match="finite"):
        served.predict([np.full((4, 2), np.nan)])


def test_reading_and_answering_load_numpy_alone(tmp_path):
    SequenceClassifier(**KINDS["shapes"], random_state=0).fit(X, Y).save(tmp_path / "model.kfm")
    code = f"""
import json, sys
import numpy as np
before = set(sys.modules)
from kernelfields.serving import load_sequence_classifier
load_sequence_classifier({str(tmp_path / "model.kfm")!r}).predict([np.zeros((60, 2)), np.eye(2)])
packages = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(packages - set(sys.stdlib_module_names) - {{"numpy", "safetensors"}})))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == ["kernelfields"]


def test_other_models_are_refused_by_name(tmp_path):
    ChainCRF("linear", prior_variance=1.0).fit(X, [[own] * len(x) for x, own in zip(X, Y, strict=True)]).save(
        tmp_path / "chain.kfm"
    )
    with pytest.raises(ServingError, match="kind 'ChainCRF' has no classes of sequences"):
        load_sequence_classifier(tmp_path / "chain.kfm")
    write_model(tmp_path / "odd.kfm", "SequenceClassifier", {"layout": 2}, {})
    with pytest.raises(ServingError, match="not a sound SequenceClassifier"):
        load_sequence_classifier(tmp_path / "odd.kfm")
    with pytest.raises(ServingError, match="load_sequence_classifier reads it"):
        load_chain(tmp_path / "odd.kfm")


def test_transformers_that_need_more_than_numpy_are_refused(tmp_path):
    from sklearn.preprocessing import StandardScaler

    model = SequenceClassifier("linear", n_states=1, features=Sequencewise(StandardScaler()), random_state=0).fit(X, Y)
    model.save(tmp_path / "model.kfm")
    with pytest.raises(ServingError, match="'sequencewise' cannot be served"):
        load_sequence_classifier(tmp_path / "model.kfm")
