"""kernelfields export: a model as a graph of ONNX that answers as predict does."""

import json

import numpy as np
import pytest
from command_files import numbers, run, write_csv_file

from kernelfields import ChainCRF
from kernelfields.data.frames import NamedArray


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv_file(tmp_path / "train.csv")
    run("train", "train.csv", "--sequence-column", "day", "--standardize", "--rank", "5", "-m", "room", "-q")
    return tmp_path


def test_columns_are_scaled_as_in_training(folder):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    assert run("export", "room", "room.onnx").stderr == "wrote room as room.onnx\n"
    session = onnxruntime.InferenceSession("room.onnx", providers=["CPUExecutionProvider"])
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    crf = ChainCRF.load("room")
    for x in numbers(3, seed=1)[0]:
        labels, marginals, _ = session.run(None, {"inputs": x})
        x = NamedArray.from_columns(x, ["height", "weight"])
        assert [classes[label] for label in labels] == crf.predict([x])[0]
        np.testing.assert_allclose(marginals, crf.predict_marginals([x])[0], atol=1e-7)


def test_one_output_alone(folder):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    run("export", "room", "room.onnx", "--only", "labels", "--decode", "viterbi", "-q")
    session = onnxruntime.InferenceSession("room.onnx", providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_outputs()] == ["labels"]


def test_what_cannot_be_written_is_told_in_one_line(folder, monkeypatch):
    (folder / "none").write_text("no model")
    assert "none is not a kernelfields model file" in run("export", "none", "x.onnx", code=2).stderr
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    assert "pip install 'kernelfields[onnx]'" in run("export", "room", "x.onnx", code=2).stderr


def test_a_dash_is_standard_output(folder):
    pytest.importorskip("onnx")
    run("export", "room", "room.onnx", "-q")
    assert run("export", "room", "-").stdout_bytes == (folder / "room.onnx").read_bytes()
    assert not (folder / "-").exists()
