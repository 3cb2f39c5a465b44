"""A model that the command of version 0.1.0 wrote, with its notes on how files are read, labels a file as before."""

from pathlib import Path

from typer.testing import CliRunner

from kernelfields.cli.app import app

FOLDER = Path(__file__).parent / "0.1.0" / "command"


def test_the_command_reads_its_old_models(tmp_path):
    written = tmp_path / "predicted.conll"
    arguments = ["predict", FOLDER / "model.kfm", FOLDER / "sentences.conll", "-q", "--marginals", "-o", written]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert written.read_text() == (FOLDER / "predicted.conll").read_text()
