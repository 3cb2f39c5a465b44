"""Ctrl-C, kill -9 and full stops: what a training run leaves behind, and how it goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from command_files import run, sentences, write_columns_file

from kernelfields import ChainCRF
from kernelfields.cli.models import load_model
from kernelfields.estimators import auto_parameters, base
from kernelfields.models import build

TIGHT = ["--tol", "1e-9", "--max-iter", "500"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_columns_file(tmp_path / "train.conll")
    return tmp_path


@pytest.fixture
def interrupted_at(monkeypatch):
    """Let every fit be interrupted at an iteration, as Ctrl-C would."""

    def interrupt_at(number):
        class Interrupting(auto_parameters.NoProgress):
            def __call__(self, iteration):
                if iteration.iteration == number:
                    raise KeyboardInterrupt

        monkeypatch.setattr(base.FieldEstimator, "_progress", lambda self: Interrupting())

    yield interrupt_at
    monkeypatch.undo()


def test_an_interrupt_writes_the_best_estimate_and_exits_with_130(folder, interrupted_at):
    interrupted_at(3)
    result = run("train", "train.conll", *TIGHT, "-q", code=130)
    assert "warning: fit was interrupted after 3 iterations; the best estimate so far was kept" in result.stderr
    assert ChainCRF.load("model.safetensors").solution_.iterations == 3
    assert (folder / "model.toml").exists()


def test_an_interrupt_before_there_is_an_estimate_writes_nothing(folder, monkeypatch):
    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "build_designs", interrupt)
    result = run("train", "train.conll", "-q", code=130)
    assert result.stderr == "interrupted; nothing was written\n"
    assert os.listdir(folder) == ["train.conll"]


def test_an_interrupted_run_goes_on_from_its_checkpoint_to_the_same_optimum(folder, interrupted_at, monkeypatch):
    fully = json.loads(run("train", "train.conll", *TIGHT, "-q", "--json", "-m", "full.safetensors").stdout)
    arguments = ["train", "train.conll", *TIGHT, "--checkpoint", "run.checkpoint", "--resume", "--json"]
    with monkeypatch.context():
        interrupted_at(2)
        first = run(*arguments, code=130)
    assert "there is no checkpoint run.checkpoint yet: starting afresh" in first.stderr
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert (folder / "run.checkpoint").exists()
    second = run(*arguments)
    assert "going on from run.checkpoint" in second.stderr
    assert json.loads(second.stdout)["objective"] == pytest.approx(fully["objective"], rel=1e-8)
    assert not (folder / "run.checkpoint").exists()
    for name, values in ChainCRF.load("full.safetensors").coef_.items():
        np.testing.assert_allclose(ChainCRF.load("model.safetensors").coef_[name], values, atol=1e-3)


def test_a_run_that_was_too_short_keeps_its_checkpoint_and_can_go_on(folder):
    checkpoint = ["--checkpoint", "run.checkpoint", "-q"]
    run("train", "train.conll", "--tol", "1e-9", "--max-iter", "2", *checkpoint, code=1)
    assert load_model("run.checkpoint").crf.solution_.iterations == 2
    run("train", "train.conll", *TIGHT, *checkpoint, "--resume")
    assert ChainCRF.load("model.safetensors").solution_.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--prior-variance", "2"], "prior_variance was None and is now 2.0"),
        (["--columns", "0"], "columns was None and is now"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(folder, change, message):
    checkpoint = ["--checkpoint", "run.checkpoint", "-q"]
    run("train", "train.conll", "--tol", "1e-9", "--max-iter", "2", *checkpoint, code=1)
    result = run("train", "train.conll", *TIGHT, *change, *checkpoint, "--resume", code=2)
    assert f"run.checkpoint is the checkpoint of another run: {message}" in result.stderr
    write_columns_file(folder / "train.conll", sentences(21))
    result = run("train", "train.conll", *TIGHT, *checkpoint, "--resume", code=2)
    assert "the file train.conll has changed" in result.stderr


def start(folder, *arguments):
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kernelfields.cli", "train", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


SLOW = ["--tol", "1e-12", "--max-iter", "100000", "--solver", "block-jacobi", "--prior-variance", "100"]


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_same_optimum(folder):
    """kill -9 in the middle of a fit; see also the checkpoints of ChainCRF itself."""
    fully = json.loads(run("train", "train.conll", *TIGHT, "-q", "--json", "-m", "full.safetensors").stdout)
    checkpoint = ["--checkpoint", "run.checkpoint", "--checkpoint-seconds", "0"]
    with start(folder, "train.conll", *SLOW, *checkpoint, "-q") as process:
        wait_for(folder / "run.checkpoint", process)
        process.kill()
    assert not (folder / "model.safetensors").exists()
    result = run("train", "train.conll", *TIGHT, "--prior-variance", "100", *checkpoint, "--resume", "--json")
    fully = json.loads(
        run("train", "train.conll", *TIGHT, "--prior-variance", "100", "-m", "full.safetensors", "--json").stdout
    )
    assert json.loads(result.stdout)["objective"] == pytest.approx(fully["objective"], rel=1e-8)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks that tell the dead from the living")
def test_what_a_killed_process_was_writing_is_removed_by_the_next(folder):
    left = [f".{name}.0123456789abcdef.tmp" for name in ("run.checkpoint", "model.safetensors", "model.toml")]
    for name in left:
        (folder / name).write_text("half")
    run("train", "train.conll", "--checkpoint", "run.checkpoint", "--resume", "-q")
    assert sorted(os.listdir(folder)) == ["model.safetensors", "model.toml", "train.conll"]


def test_a_checkpoint_that_cannot_be_removed_is_a_warning(folder, monkeypatch):
    def stuck(path, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.unlink", stuck)
    result = run("train", "train.conll", "--checkpoint", "run.checkpoint", "-q")
    assert result.stderr == (
        "warning: the checkpoint run.checkpoint is no longer needed, but cannot be removed: Permission denied\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for single processes")
def test_a_real_ctrl_c(folder):
    checkpoint = ["--checkpoint", "run.checkpoint", "--checkpoint-seconds", "0"]
    with start(folder, "train.conll", *SLOW, *checkpoint) as process:
        wait_for(folder / "run.checkpoint", process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "fit was interrupted" in err
    assert "wrote model.safetensors, model.toml" in err
    assert ChainCRF.load(folder / "model.safetensors").solution_.reason == "interrupted"
