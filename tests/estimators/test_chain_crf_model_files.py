"""Saving and loading: predictions come back bit for bit, and files that are not sound are refused."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from sklearn.gaussian_process.kernels import RBF as ScikitRBF
from sklearn.gaussian_process.kernels import ConstantKernel

from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques, StartCliques
from kernelfields.basis import Gradient, GreedyCholesky
from kernelfields.kernels import RBF, CallableKernel, Linear, Precomputed
from kernelfields.models.model_file import ModelFileError, read_model, write_model
from tests.samples import as_words, labelled_sequences

X, y = labelled_sequences()
SPARSE = [sp.csr_array(np.where(np.abs(x) > 1, x, 0.0)) for x in X]
DICTS = [[{"round": str(round(row[0])), "first": row[0], "big": row[1] > 1} for row in x] for x in X]
STRINGS = [[[f"a{round(row[0])}", f"b{round(row[1])}"] for row in x] for x in X]
ROWS = np.concatenate(X)
NUMBERS = np.split(np.arange(float(len(ROWS)))[:, None], np.cumsum([len(x) for x in X])[:-1])
# "c" only begins sequences, so that it can be forbidden after "b" and at the end.
ABC = [np.array(["c", *np.where(labels[1:] == 0, "a", "b")]) for labels in y]


def half_product(a, b):
    return 0.5 * (a @ b.T)


MODELS = {
    "pivots": (ChainCRF(RBF(gamma=0.3), rank=9), X, y),
    "scale rule": (ChainCRF(rank=9), X, y),
    "float32 inputs": (ChainCRF(rank=9, dtype=np.float32), [x.astype(np.float32) for x in X], y),
    "sparse pivots": (ChainCRF(RBF(gamma=0.3), rank=9), SPARSE, y),
    "explicit": (ChainCRF("linear", n_jobs=1), X, y),
    "sparse explicit": (ChainCRF("linear", window=3), SPARSE, y),
    "words as labels": (ChainCRF("poly", rank=9), X, as_words(y)),
    "booleans as labels": (ChainCRF(rank=9), X, [labels > 0 for labels in y]),
    "edge kernel": (ChainCRF("linear", edges=EdgeCliques(RBF(gamma=0.1)), rank=7, window=(1, 0)), X, y),
    "constraints": (ChainCRF(rank=9, constraints={"transitions": [("b", "c")], "end": ["c"]}), X, ABC),
    "feature dicts": (ChainCRF("linear"), DICTS, as_words(y)),
    "feature strings": (ChainCRF(RBF(gamma=0.2), rank=9), STRINGS, y),
    "label matrix": (ChainCRF(rank=9, label_kernel=np.eye(3) + 0.3 * np.eye(3)[::-1]), X, y),
    "sum of kernels": (ChainCRF(0.5 * RBF(gamma=0.2) + Linear() * Linear(), rank=9), X, y),
    "scikit-learn kernel": (ChainCRF(ConstantKernel(2.0) * ScikitRBF(1.5), rank=9), X, y),
    "precomputed": (ChainCRF(Precomputed(ROWS @ ROWS.T), rank=9), NUMBERS, y),
    "gradient basis": (ChainCRF(basis=Gradient(initial=4), rank=9), X, y),
    "spelled out": (
        ChainCRF(
            cliques=[
                NodeCliques(RBF(gamma=0.1), rank=6, basis=GreedyCholesky(tol=1e-3), label_kernel="centred", window=3),
                NodeCliques("linear", prior_variance=0.3, name="linear"),
                StartCliques(),
                EndCliques("linear"),
                EdgeCliques(label_kernel=np.eye(9) + 0.1),
                EdgeCliques("linear", name="edge inputs"),
            ]
        ),
        X,
        y,
    ),
}


def answers(crf, X):
    nodes, edges = crf.predict_marginals(X, cliques="edge")
    return [*nodes, *edges, *crf.predict(X), *crf.sample(X, random_state=1), crf.entropy(X)]


def checksum(path):
    with safe_open(path, framework="numpy") as file:
        return file.metadata()["sha256"]


def assert_same_answers(one, other, X):
    for mine, theirs in zip(answers(one, X), answers(other, X), strict=True):
        assert type(mine) is type(theirs)
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A sound file and the model in it; tests copy the file before they spoil it."""
    path = tmp_path_factory.mktemp("models") / "sound.model"
    crf = ChainCRF(RBF(gamma=0.3), rank=9, random_state=0).fit(X, y)
    crf.save(path)
    return crf, path


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_answers_bit_for_bit(name, tmp_path):
    crf, inputs, labels = MODELS[name]
    crf.set_params(random_state=0).fit(inputs, labels)
    crf.save(tmp_path / "model")
    loaded = ChainCRF.load(tmp_path / "model")
    assert_same_answers(crf, loaded, inputs)
    np.testing.assert_array_equal(loaded.classes_, crf.classes_)
    assert loaded.n_features_in_ == crf.n_features_in_
    assert loaded.certificate_ == crf.certificate_
    assert loaded.rkhs_certificate_ == crf.rkhs_certificate_
    assert loaded.solution_.history == crf.solution_.history
    assert loaded.log_likelihood(inputs, labels) == crf.log_likelihood(inputs, labels)
    assert loaded.certify(inputs, labels) == crf.certify(inputs, labels)
    np.testing.assert_array_equal(loaded.solution_.theta, crf.solution_.theta)
    for each in crf.coef_:
        np.testing.assert_array_equal(loaded.coef_[each], crf.coef_[each])
    # Saved again, nothing changes.
    loaded.save(tmp_path / "again")
    assert checksum(tmp_path / "again") == checksum(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_can_be_fitted_again(name, tmp_path):
    crf, inputs, labels = MODELS[name]
    crf.set_params(random_state=0, warm_start=False).fit(inputs, labels)
    crf.save(tmp_path / "model")
    afresh = ChainCRF.load(tmp_path / "model").fit(inputs, labels)
    assert_same_answers(crf, afresh, inputs)
    continued = ChainCRF.load(tmp_path / "model").set_params(warm_start=True).fit(inputs, labels)
    assert continued.solution_.iterations <= 1


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
