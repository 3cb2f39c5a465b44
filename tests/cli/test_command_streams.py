"""Streams that are full or closed, and places that are not there: one line and an exit code, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_files import run, sentences, write_columns_file

import kernelfields

IN_CHECKOUT = (Path(kernelfields.__file__).parents[2] / "experiments").is_dir()
CLOSED = "error: standard output: cannot write: Bad file descriptor\n"
FULL = "error: standard output: cannot write: No space left on device\n"
WITHOUT_TORCH = """
import sys
class NoTorch:
    def find_spec(name, *about):
        if name == 'torch':
            raise ModuleNotFoundError('No module named torch')
sys.meta_path.insert(0, NoTorch)
from kernelfields.cli.app import app
app()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("streams")
    write_columns_file(place / "train.conll")
    write_columns_file(place / "many.conll", sentences(2000))
    run("train", place / "train.conll", "-m", place / "one.model", "-q")
    return place


def in_shell(folder, line, buffered=True, start="-m kernelfields.cli"):
    """Run the command with the redirections of a line, as a shell does; return exit code, output and messages."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    if not buffered:
        environment["PYTHONUNBUFFERED"] = "1"
    shell = ["sh", "-c", f'exec "$0" {start} {line}', sys.executable, WITHOUT_TORCH]
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# What is buffered fails at the end, what is not fails at once.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "buffered"),
    [
        ("--help", True),
        ("--version", False),
        pytest.param(
            "reproduce", False, marks=pytest.mark.skipif(not IN_CHECKOUT, reason="it runs what is in a checkout")
        ),
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a disk that is always full")
def test_help_that_cannot_be_written_is_one_line(folder, command, buffered):
    assert in_shell(folder, f"{command} >/dev/full", buffered) == (2, "", FULL)
    assert in_shell(folder, f"{command} >&-", buffered) == (2, "", CLOSED)


# Of commands that write, and read, in the same way the one that starts soonest.
@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict one.model train.conll", "convert train.conll - --to crfsuite"])
def test_standard_output_that_is_closed(folder, command):
    assert in_shell(folder, f"{command} -q >&-") == (2, "", CLOSED)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict one.model", "convert - out.crfsuite --from columns"])
def test_standard_input_that_is_closed(folder, command):
    assert in_shell(folder, f"{command} -q <&-") == (2, "", "error: standard input: cannot read: Bad file descriptor\n")


@pytest.mark.slow
def test_closed_streams_that_nothing_needs_are_no_matter(folder):
    assert in_shell(folder, "convert train.conll out.crfsuite <&- >&- 2>&-") == (0, "", "")
    code, output, messages = in_shell(folder, "--version <&- 2>&-")
    assert (code, output, messages) == (0, f"kernelfields {kernelfields.__version__}\n", "")


@pytest.mark.slow
def test_a_reader_that_has_had_enough_is_no_error(folder):
    line = '{ "$0" -m kernelfields.cli convert many.conll - --to crfsuite -q; echo $? >&2; } | head -n 1'
    shell = subprocess.run(["sh", "-c", line, sys.executable], cwd=folder, capture_output=True, text=True, check=True)
    assert shell.stdout.count("\n") == 1
    assert shell.stderr == "1\n"  # the file is larger than what a pipe holds


@pytest.mark.slow
def test_a_device_without_torch_is_one_line(folder):
    code, output, messages = in_shell(folder, "train train.conll -m out.model -q --engine torch", start='-c "$1"')
    assert (code, output) == (2, "")
    assert messages == "error: engine='torch' needs PyTorch: pip install 'kernelfields[torch]'\n"
    assert not (folder / "out.model").exists()


def test_a_model_of_a_device_that_is_not_here_predicts_and_says_so(folder):
    pytest.importorskip("torch")
    run("train", folder / "train.conll", "-m", folder / "torch.model", "-q", "--engine", "torch")
    code, output, messages = in_shell(folder, "predict torch.model train.conll -q", start='-c "$1"')
    assert (code, output) == (0, run("predict", folder / "one.model", folder / "train.conll", "-q").stdout)
    assert messages.startswith("warning: engine='torch' is not here, 'auto' takes its place")
    assert messages.count("\n") == 1
