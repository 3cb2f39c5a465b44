"""Models that cannot be served are refused in one line that names what they have; served ones need NumPy alone."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from served_models import FIXED, WORDS, X, fitted, inputs_of

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    LabelNgrams,
    MultiLabelCRF,
    NodeCliques,
    SegmentCRF,
    SkipCliques,
)
from kernelfields.data import OrderCliques
from kernelfields.formats import write_model
from kernelfields.serving import ServingError, load_chain, to_onnx


def dots(X, Z):
    return X @ Z.T


@pytest.mark.parametrize("estimator", [GraphCRF(), MultiLabelCRF(), SegmentCRF()])
def test_other_estimators_are_refused_by_name(estimator, tmp_path):
    kind = type(estimator).__name__
    with pytest.raises(ServingError, match=f"a {kind} cannot be exported to ONNX: ChainCRF, KernelClass"):
        to_onnx(estimator, tmp_path / "model.onnx")
    write_model(tmp_path / "model", kind, {"layout": 2}, {})
    with pytest.raises(ServingError, match=f"model of the kind '{kind}' cannot be served"):
        load_chain(tmp_path / "model")


REFUSED = {
    "callable": ({"kernel": dots}, "the kernel 'callable' 'dots' cannot be served: a function is code"),
    "skip": ({"cliques": [NodeCliques("linear"), EdgeCliques(), SkipCliques()]}, "'lag2' .'skip'. cannot be served"),
    "order": ({"cliques": [NodeCliques("linear"), OrderCliques()]}, "'order2' .'order'. cannot be served"),
    "n-grams": ({"cliques": [NodeCliques("linear"), LabelNgrams()]}, "'3-grams' .'order'. cannot be served"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_chains_are_refused_by_name(name, tmp_path):
    settings, message = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ChainCRF(**{**FIXED, **settings}).fit(X, WORDS)
    model.save(tmp_path / "model")
    for ask in (load_chain, lambda path: to_onnx(model, path.with_suffix(".onnx"))):
        with pytest.raises(ServingError, match=message):
            ask(tmp_path / "model")


def test_an_unfitted_chain_is_told_to_be_fitted(tmp_path):
    with pytest.raises(ValueError, match="this ChainCRF is not fitted yet"):
        to_onnx(ChainCRF(), tmp_path / "model.onnx")


def test_models_of_old_versions_are_to_be_fitted_again():
    with pytest.raises(ServingError, match="another version of kernelfields and cannot be served: fit again"):
        load_chain(Path(__file__).parents[1] / "golden" / "0.1.0" / "chain-rbf.kfm")


def spoilt(array, number, place=0):
    array = np.array(array)
    array.reshape(-1)[place] = number
    return array


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0, 1e-3])
@pytest.mark.parametrize("name", ["edge", "start", "end", "label"])
def test_masks_of_a_forged_file_are_refused(name, number, tmp_path):
    document = fitted("spelled out")[0]._to_document()
    masks = {each: np.zeros((3, 3) if each == "edge" else 3) for each in ("edge", "start", "end", "label")}
    masks[name] = spoilt(masks[name], number)
    write_model(tmp_path / "model", "ChainCRF", {**document, "structure": {"masks": masks}}, {})
    with pytest.raises(ServingError, match=f"model: the constraint mask '{name}' must be .* with 0 and -inf only"):
        load_chain(tmp_path / "model")


FORGED = {
    "coefficients": (
        "coefficients",
        lambda array: spoilt(array, np.nan),
        "the coefficients of set 'node' must be finite",
    ),
    "fewer coefficients": ("coefficients", lambda array: array[:-1], "the coefficients of set 'node' do not fit"),
    "other subspace": ("subspace", lambda number: -1, "the basis of set 'node' must be a whole number"),
    "factor": ("factor", lambda array: spoilt(array, np.inf), "the factor of the pivots must be finite"),
    "diagonal": ("factor", lambda array: spoilt(array, 0.0), "the factor of the pivots must have a positive diagonal"),
    "pivots": ("pivots", lambda array: spoilt(array, np.nan), "the pivots of a basis must be finite"),
    "wider pivots": ("pivots", lambda array: np.hstack([array, array]), "the pivots of a basis has the shape"),
}


@pytest.mark.parametrize("case", FORGED)
def test_numbers_of_a_forged_file_are_refused(case, tmp_path):
    name, change, message = FORGED[case]
    document = fitted("rbf")[0]._to_document()
    holder = (document["terms"] if name in ("coefficients", "subspace") else document["subspaces"])[0]
    holder[name] = change(holder[name])
    write_model(tmp_path / "model", "ChainCRF", document, {})
    with pytest.raises(ServingError, match=message):
        load_chain(tmp_path / "model")


def test_pairs_and_dictionaries_of_a_forged_file_are_refused(tmp_path):
    for name, place, message in (
        ("dicts, entities", ("terms", 0, "pairs", "outcomes"), "the columns of the coefficients of set 'node' must be"),
        ("dicts, entities", ("terms", 0, "pairs", "begin"), "the rows of the coefficients of set 'node' do not fit"),
        ("dictionary", ("inputs", "allowed", "labels"), "the labels allowed must be from 0 to 2"),
        ("dictionary", ("inputs", "allowed", "sizes"), "the labels allowed has the shape"),
    ):
        document = fitted(name)[0]._to_document()
        holder = document
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = spoilt(holder[place[-1]], 1 if place[-1] == "sizes" else 99)
        write_model(tmp_path / "model", "ChainCRF", document, {})
        with pytest.raises(ServingError, match=message):
            load_chain(tmp_path / "model")


def test_names_of_another_number_than_the_features_are_refused(tmp_path):
    model = ChainCRF("linear", prior_variance=1.0).fit([[["a"], ["b"]]], [["x", "y"]])
    document = model._to_document()
    document["inputs"]["feature_names"] = ["a", "b", "c"]
    write_model(tmp_path / "model", "ChainCRF", document, {})
    with pytest.raises(ServingError, match="names of the features do not match their number"):
        load_chain(tmp_path / "model")


def test_scores_beyond_all_numbers_are_refused(tmp_path):
    document = fitted("spelled out")[0]._to_document()
    (tied,) = (entry for entry in document["terms"] if entry["name"] == "edge")
    tied["coefficients"] = np.full_like(tied["coefficients"], 1e308)
    write_model(tmp_path / "model", "ChainCRF", document, {})
    model = load_chain(tmp_path / "model")
    with pytest.raises(ValueError, match="scores of the inputs are not finite"), np.errstate(all="ignore"):
        model.predict_marginals(inputs_of("spelled out"))


BLOCKED = ["scipy", "sklearn", "numba", "safetensors", "onnx", "matplotlib", "torch", "pandas", "threadpoolctl"]
SCRIPT = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np
from kernelfields.serving import load_chain
model = load_chain({path!r})
x = json.loads(sys.argv[1])
x = np.array(x) if isinstance(x[0][0] if isinstance(x[0], list) else None, float) else x
labels = model.predict([x])
print(json.dumps([labels, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rbf", "strings, rbf", "sparse, laplacian", "spelled out", "dictionary", "compat"])
def test_the_reader_needs_numpy_alone(name):
    """Whatever else is installed is not imported, and could not be."""
    model, path = fitted(name)
    sequence = inputs_of(name)[0]
    if scipy.sparse.issparse(sequence):
        sequence = sequence.toarray()
    given = json.dumps(sequence.tolist() if isinstance(sequence, np.ndarray) else sequence)
    code = SCRIPT.format(path=str(path), blocked=BLOCKED)
    run = subprocess.run([sys.executable, "-c", code, given], capture_output=True, text=True, check=True, timeout=60)
    labels, modules = json.loads(run.stdout)
    assert labels == model.predict([sequence])
    assert not set(BLOCKED) & set(modules)
