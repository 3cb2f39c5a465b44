"""Models of words, from Python or from the command, are served to words with NumPy alone."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import kernelfields
from kernelfields import ChainCRF, KernelClassifier, LabelDictionary, TextFeatures
from kernelfields.cli.app import app
from kernelfields.features import SequenceUnion
from kernelfields.serving import ServingError, load_chain, to_onnx

WORDS = [[name, "sees", other] for name in ("Anna", "Bert", "Carla") for other in ("Emil", "trees")]
LABELS = [["PER", "O", "PER" if words[2] == "Emil" else "O"] for words in WORDS]
ROWS = [[(word, "N" if word[0].isupper() else "x") for word in words] for words in WORDS]
NEW = [["Zoe", "likes", "bees"], ["Emil"]]
NEW_ROWS = [[("Zoe", "N"), ("likes", "x")]]


def saved(tmp_path, *steps, X=WORDS):
    pipeline = make_pipeline(*steps).fit(X, LABELS)
    kernelfields.save(pipeline, tmp_path / "words.kfm")
    return pipeline, tmp_path / "words.kfm"


@pytest.mark.parametrize("allowed", [None, LabelDictionary("lower=", min_count=1)], ids=["all", "dictionary"])
def test_words_have_the_labels_of_the_library(allowed, tmp_path):
    crf = ChainCRF("linear", prior_variance=1.0, allowed=allowed)
    pipeline, path = saved(tmp_path, TextFeatures(), crf)
    served = load_chain(path)
    assert served.predict(NEW) == pipeline.predict(NEW)
    expected = crf.predict_marginals(TextFeatures().transform(NEW))
    for ours, theirs in zip(served.predict_marginals(NEW), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_words_need_numpy_alone(tmp_path):
    _, path = saved(tmp_path, TextFeatures(), ChainCRF("linear", prior_variance=1.0))
    code = (
        "import json, sys; from kernelfields.serving import load_chain; "
        f"labels = load_chain({str(path)!r}).predict({NEW!r}); "
        "heavy = {'scipy', 'sklearn', 'numba', 'safetensors', 'typer', 'rich'} & set(sys.modules); "
        "print(json.dumps([labels, sorted(heavy)]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert json.loads(answer) == [[["PER", "O", "O"], ["PER"]], []]


def test_what_numpy_alone_does_not_have_is_named(tmp_path):
    union = SequenceUnion([("words", TextFeatures())])
    _, path = saved(tmp_path, union, ChainCRF("linear", prior_variance=1.0))
    with pytest.raises(ServingError, match="the transformer 'union' cannot be served: prediction with NumPy alone"):
        load_chain(path)
    pipeline = make_pipeline("passthrough", KernelClassifier("linear", prior_variance=1.0)).fit([[0.0], [1.0]], [0, 1])
    kernelfields.save(pipeline, path)
    with pytest.raises(ServingError, match="a pipeline that ends in a KernelClassifier cannot be served"):
        load_chain(path)


@pytest.mark.parametrize("template", [None, "U0:%x[0,0]\nU1:%suffix2[0,0]\nU2:%shape[0,0]\nB\n"], ids=["text", "CRF++"])
def test_models_of_the_command_take_words_in_python(template, tmp_path):
    rows = [[*zip(words, labels, strict=True)] for words, labels in zip(WORDS, LABELS, strict=True)]
    text = "\n\n".join("\n".join("\t".join(row) for row in sentence) for sentence in rows)
    (tmp_path / "train.tsv").write_text(text + "\n")
    options = []
    if template is not None:
        (tmp_path / "template").write_text(template)
        options = ["-t", str(tmp_path / "template")]
    model = str(tmp_path / "model.kfm")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "train.tsv"), *options, "-q", "-m", model])
    assert result.exit_code == 0, result.output
    served, read = load_chain(model), kernelfields.load(model)
    assert read.predict(NEW) == served.predict(NEW) == [["PER", "O", "O"], ["PER"]]
    features = read[:-1].transform(NEW)
    assert served.predict(features) == ChainCRF.load(model).predict(features) == served.predict(NEW)
    kernelfields.save(read, model)
    assert load_chain(model).predict(NEW) == kernelfields.load(model).predict(NEW) == served.predict(NEW)


def test_labels_before_the_words_leave_the_numbers_of_columns_as_they_are(tmp_path):
    (tmp_path / "train.tsv").write_text("PER\tAnna\tN\nO\tsees\tx\n\nPER\tBert\tN\nO\thears\tx\n")
    model = str(tmp_path / "model.kfm")
    options = ["--label-column", "0", "-q", "-m", model]
    result = CliRunner().invoke(app, ["train", str(tmp_path / "train.tsv"), *options])
    assert result.exit_code == 0, result.output
    assert load_chain(model).predict(NEW_ROWS) == kernelfields.load(model).predict(NEW_ROWS) == [["PER", "O"]]


def test_a_pipeline_is_exported_without_its_words(tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    pipeline, path = saved(tmp_path, TextFeatures(), ChainCRF("linear", support="observed", prior_variance=1.0))
    to_onnx(pipeline, tmp_path / "words.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "words.onnx", providers=["CPUExecutionProvider"])
    served = load_chain(path)
    for words, labels in zip(NEW, pipeline.predict(NEW), strict=True):
        found = session.run(["labels"], served.inputs.encode(words))[0]
        assert served.classes_[found].tolist() == labels
