"""The command of today, trained by the settings of a run of version 0.1.0, labels a file as that version did."""

from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from kernelfields.cli.app import app

FOLDER = Path(__file__).parent / "0.1.0" / "command"
TEMPLATE = "U00:%x[-1,0]\nU01:%x[0,0]\nU02:%x[1,0]\nB\n"


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_run_of_the_first_version_is_repeated_with_the_same_answers(tmp_path):
    model, written = tmp_path / "model.kfm", tmp_path / "predicted.conll"
    (tmp_path / "template").write_text(TEMPLATE)
    settings = ["--template", tmp_path / "template", "--window", 3, "--kernel", "linear", "--prior-variance", 1.0]
    result = run("train", FOLDER / "sentences.conll", *settings, "--tol", 1e-7, "-q", "-m", model)
    assert result.exit_code == 0, result.output
    result = run("predict", model, FOLDER / "sentences.conll", "-q", "--marginals", "-o", written)
    assert result.exit_code == 0, result.output
    old, new = ((path.read_text().split("\n")) for path in (FOLDER / "predicted.conll", written))
    assert len(new) == len(old)
    for before, after in zip(old, new, strict=True):
        expected, found = before.split("\t"), after.split("\t")
        assert found[:3] == expected[:3]
        shares = [[float(cell.partition("/")[2]) for cell in cells[3:]] for cells in (expected, found)]
        # The old fit stopped at a relative gap of 1e-3.
        np.testing.assert_allclose(shares[1], shares[0], rtol=0, atol=2e-4)


def test_the_command_reads_its_old_models(tmp_path):
    folder, written = FOLDER.parents[1] / "format-3" / "command", tmp_path / "predicted.conll"
    result = run("predict", folder / "model.kfm", folder / "sentences.conll", "-q", "--marginals", "-o", written)
    assert result.exit_code == 0, result.output
    assert written.read_text() == (folder / "predicted.conll").read_text()


def test_a_model_of_the_first_version_is_refused_in_one_line():
    result = run("predict", FOLDER / "model.kfm", FOLDER / "sentences.conll", "-q")
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert "written by another version of kernelfields, in a form that this one does not read" in result.output
