"""Files of ChainCRF: functions are passed again, and what is not sound is refused."""

import pickle

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels import RBF, CallableKernel
from tests.samples import labelled_sequences

X, y = labelled_sequences()


def half_product(a, b):
    return 0.5 * (a @ b.T)


def answers(crf, X):
    nodes, edges = crf.predict_marginals(X, cliques="edge")
    return [*nodes, *edges, *crf.predict(X), *crf.sample(X, random_state=1), crf.entropy(X)]


def assert_same_answers(one, other, X):
    for mine, theirs in zip(answers(one, X), answers(other, X), strict=True):
        assert type(mine) is type(theirs)
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A sound file and the model in it; tests copy the file before they spoil it."""
    path = tmp_path_factory.mktemp("models") / "sound.model"
    crf = ChainCRF(RBF(gamma=0.3), rank=9, constraints=(), random_state=0).fit(X, y)
    crf.save(path)
    return crf, path


@pytest.mark.parametrize("kernel", [half_product, CallableKernel(half_product, name="half")])
def test_functions_are_named_and_passed_again(kernel, tmp_path):
    crf = ChainCRF(kernel, random_state=0).fit(X, y)
    crf.save(tmp_path / "model")
    name = "half" if isinstance(kernel, CallableKernel) else "half_product"
    assert_same_answers(crf, ChainCRF.load(tmp_path / "model", callables={name: half_product}), X)
    with pytest.raises(ModelFileError, match=rf"the function '{name}'.*callables="):
        ChainCRF.load(tmp_path / "model")


def test_foreign_files(tmp_path, saved):
    _, sound = saved
    with pytest.raises(ModelFileError, match="does not exist"):
        ChainCRF.load(tmp_path / "nothing")
    for content in (b"", b"hello", b"\x00" * 100, pickle.dumps({"a": 1}), sound.read_bytes()[8:]):
        (tmp_path / "foreign").write_bytes(content)
        with pytest.raises(ModelFileError, match="foreign"):
            ChainCRF.load(tmp_path / "foreign")
    write_model(tmp_path / "graph", "GraphCRF", {}, {})
    with pytest.raises(ModelFileError, match="kind 'GraphCRF', expected 'ChainCRF'"):
        ChainCRF.load(tmp_path / "graph")


def test_a_newer_format_is_refused(tmp_path, saved, monkeypatch):
    crf, _ = saved
    monkeypatch.setattr("kernelfields.models.model_file.VERSION", 3)
    crf.save(tmp_path / "newer")
    monkeypatch.setattr("kernelfields.models.model_file.VERSION", 2)
    with pytest.raises(ModelFileError, match=r"newer version of kernelfields.*upgrade"):
        ChainCRF.load(tmp_path / "newer")


def term(document):
    return document["terms"][0]


def clique(document):
    return term(document)["cliques"]["parameters"]


def basis(document):
    return document["subspaces"][0]


TAMPERED = {
    "coefficients with a row too few": lambda d: term(d).update(coefficients=term(d)["coefficients"][:-1]),
    "coefficients with a column too few": lambda d: term(d).update(
        coefficients=np.ascontiguousarray(term(d)["coefficients"][:, :-1])
    ),
    "label factor": lambda d: term(d).update(label_factor=np.eye(5, 2)),
    "number of a basis": lambda d: term(d).update(subspace=7),
    "pivots with a row too few": lambda d: basis(d).update(pivots=basis(d)["pivots"][:-1]),
    "pivots of another width": lambda d: basis(d).update(pivots=np.ones((9, 4))),
    "pivots that are numbers": lambda d: basis(d).update(pivots=3),
    "factor": lambda d: basis(d).update(factor=basis(d)["factor"][:-1]),
    "window": lambda d: clique(d).update(window=3),
    "even window": lambda d: clique(d).update(window=2),
    "kernel": lambda d: basis(d).update(kernel={"kind": "os.system"}),
    "clique set": lambda d: term(d)["cliques"].update({"as": "super"}),
    "no clique set": lambda d: term(d).update(cliques={"as": "list", "items": []}),
    "kind of parameter": lambda d: clique(d).update(basis={"as": "eval", "items": []}),
    "choice of pivots": lambda d: clique(d)["basis"].update({"as": "eval"}),
    "no basis": lambda d: d["subspaces"].pop(),
    "a class too many": lambda d: d.update(classes=np.arange(4)),
    "classes out of order": lambda d: d.update(classes=np.array([2, 1, 0])),
    "one class": lambda d: d.update(classes=np.array([0])),
    "edge mask": lambda d: d["structure"]["masks"].update(edge=np.zeros((2, 2))),
    "label mask": lambda d: d["structure"]["masks"].update(label=np.zeros(2)),
    "number of features": lambda d: d["inputs"].update(n_features=7),
    "feature names": lambda d: d["inputs"].update(feature_names=["a"]),
    "no terms": lambda d: d.update(terms=[]),
    "solution": lambda d: d["solution"].pop("value"),
    "certificates": lambda d: d.update(certificates=[]),
    "parameters": lambda d: d["parameters"].update(unknown=1),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_document_is_refused(name, tmp_path, saved):
    """The checksum is right, as an adversary would make it, but the parts do not fit together."""
    _, sound = saved
    document, tensors = read_model(sound, "ChainCRF")
    TAMPERED[name](document)
    write_model(tmp_path / "tampered", "ChainCRF", document, tensors)
    with pytest.raises(ModelFileError, match="tampered is not a sound ChainCRF model"):
        ChainCRF.load(tmp_path / "tampered")
