"""Ctrl-C and kill -9: what a training run leaves behind."""

import os
import signal
import subprocess
import sys

import pytest
from command_files import run, write_columns_file

from kernelfields import ChainCRF
from kernelfields.reports.progress import FitProgress
from kernelfields.structures import library

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
        def interrupt(self, iteration):
            if iteration.iteration == number:
                raise KeyboardInterrupt

        monkeypatch.setattr(FitProgress, "__call__", interrupt)

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

    monkeypatch.setattr(library, "build_designs", interrupt)
    result = run("train", "train.conll", "-q", code=130)
    assert result.stderr == "interrupted; nothing was written\n"
    assert os.listdir(folder) == ["train.conll"]


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks that tell the dead from the living")
def test_what_a_killed_process_was_writing_is_removed_by_the_next(folder):
    left = [f".{name}.0123456789abcdef.tmp" for name in ("model.safetensors", "model.toml")]
    for name in left:
        (folder / name).write_text("half")
    run("train", "train.conll", "-q")
    assert sorted(os.listdir(folder)) == ["model.safetensors", "model.toml", "train.conll"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for single processes")
def test_a_real_ctrl_c(folder):
    with start(folder, "train.conll", *SLOW, "--verbose") as process:
        while not process.stderr.readline().startswith("iteration"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "fit was interrupted" in err
    assert "wrote model.safetensors, model.toml" in err
    assert ChainCRF.load(folder / "model.safetensors").solution_.reason == "interrupted"
