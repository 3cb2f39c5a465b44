"""Chains exported to ONNX give onnxruntime the labels of the library, and marginals to 1e-6 and far beyond."""

import errno
import json
import os

import numpy as np
import pytest
from scipy.sparse import csr_array
from served_models import MODELS, NOT_IN_ONNX, fitted, inputs_of

from kernelfields import ChainCRF
from kernelfields.kernels import RBF, Constant, Linear
from kernelfields.serving import ServingError, load_chain, to_onnx

pytest.importorskip("onnx")


def session_of(path):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def asked(session, served, sequence):
    """What onnxruntime says of one sequence."""
    rows = served.inputs.encode(sequence)
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, rows), strict=True))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in NOT_IN_ONNX])
def test_answers_are_those_of_the_library(name, tmp_path):
    model, path = fitted(name)
    to_onnx(model, tmp_path / "model.onnx")
    session, served = session_of(tmp_path / "model.onnx"), load_chain(path)
    sequences = inputs_of(name)
    if "float32" in name:  # ONNX computes in float64, whose kernel values have more digits
        sequences = [x.astype(np.float64) for x in sequences]
    classes = np.array(json.loads(session.get_modelmeta().custom_metadata_map["classes"]))
    log_partition = served.log_partition(sequences)
    for index, (labels, marginals) in enumerate(
        zip(model.predict(sequences), model.predict_marginals(sequences), strict=True)
    ):
        answer = asked(session, served, sequences[index])
        assert classes[answer["labels"]].tolist() == list(labels)
        # Pivots may be so close to each other that scores keep nine digits.
        np.testing.assert_allclose(answer["marginals"], marginals, rtol=0, atol=1e-7)
        np.testing.assert_allclose(answer["log_partition"], log_partition[index], rtol=1e-7)


@pytest.mark.parametrize("name", ["one column, scaled", "linear and polynomial"])
def test_factors_of_products_keep_their_digits(name, tmp_path):
    """onnxruntime joins a product and a number in one node, whose number has single precision."""
    model, path = fitted(name)
    to_onnx(model, tmp_path / "model.onnx")
    session, served = session_of(tmp_path / "model.onnx"), load_chain(path)
    for x, marginals in zip(inputs_of(name), model.predict_marginals(inputs_of(name)), strict=True):
        np.testing.assert_allclose(asked(session, served, x)["marginals"], marginals, rtol=0, atol=1e-11)


SUMS = {
    "scaled constant": lambda: Linear() + 2.0 * Constant(1.5),
    "constant first": lambda: 2.0 * Constant(1.5) + Linear(),
    "several": lambda: 2.0 * (Linear() + 2.0 * (Constant(1.0) + 3.0 * Constant(2.0))),
    "with rbf": lambda: RBF(0.5) + 2.0 * Constant(1.0),
    "of constants": lambda: 2.0 * Constant(1.0) + Constant(0.5),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_functions_of_constants_are_constants(name, sparse, tmp_path):
    random = np.random.default_rng(0)
    X = [random.normal(size=(5, 2)) for _ in range(8)]
    y = [["ab"[int(value > 0)] for value in x[:, 0]] for x in X]
    rows = [csr_array(x) for x in X] if sparse else X
    crf = ChainCRF(SUMS[name](), prior_variance=1.0, window=(1, 0)).fit(rows, y)
    crf.save(tmp_path / "model")
    to_onnx(crf, tmp_path / "model.onnx")
    session, served = session_of(tmp_path / "model.onnx"), load_chain(tmp_path / "model")
    for x, marginals in zip(rows, crf.predict_marginals(rows), strict=True):
        np.testing.assert_allclose(asked(session, served, x)["marginals"], marginals, rtol=0, atol=1e-11)


def test_a_graph_replaces_another_only_when_it_is_whole(tmp_path, monkeypatch):
    model, _ = fitted("dicts")
    to_onnx(model, tmp_path / "model.onnx")
    whole = (tmp_path / "model.onnx").read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*model.onnx"):
        to_onnx(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == whole
    assert os.listdir(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("decode", ["viterbi", "posterior"])
def test_labels_alone(decode, tmp_path):
    model, path = fitted("dicts")
    to_onnx(path, tmp_path / "model.onnx", decode=decode, outputs=["labels"])
    session, served = session_of(tmp_path / "model.onnx"), load_chain(path)
    assert json.loads(session.get_modelmeta().custom_metadata_map["decode"]) == decode
    for x, labels in zip(inputs_of("dicts"), model.predict(inputs_of("dicts"), decode), strict=True):
        assert model.classes_[asked(session, served, x)["labels"]].tolist() == labels


def test_positions_without_features(tmp_path):
    """Entries are given to their rows, wherever there are rows without any."""
    model, path = fitted("strings")
    to_onnx(model, tmp_path / "model.onnx")
    session, served = session_of(tmp_path / "model.onnx"), load_chain(path)
    for sequence in ([["new"], ["bias"], ["new"], ["bias", "sign=True"], ["new"]], [[]]):
        expected = model.predict_marginals([sequence])[0]
        np.testing.assert_allclose(asked(session, served, sequence)["marginals"], expected, atol=1e-12)


@pytest.mark.parametrize("name", NOT_IN_ONNX)
def test_what_has_no_form_is_refused_by_name(name, tmp_path):
    with pytest.raises(ServingError, match=NOT_IN_ONNX[name]):
        to_onnx(fitted(name)[0], tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_what_is_too_large_is_refused(monkeypatch, tmp_path):
    from kernelfields.serving import onnx_graph

    monkeypatch.setattr(onnx_graph, "_MOST_BYTES", 100)
    with pytest.raises(ServingError, match="too large for a file of ONNX"):
        to_onnx(fitted("rbf")[0], tmp_path / "model.onnx")
    with pytest.raises(ServingError, match="a matrix of 4 x 5 is too large for a file of ONNX"):
        onnx_graph.dense_matrix(np.zeros((4, 5)))


def test_unknown_outputs_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"outputs must be some of labels, .* got \['scores'\]"):
        to_onnx(fitted("rbf")[0], tmp_path / "model.onnx", outputs=["scores"])
