"""The command as a whole: help that teaches and comes at once, messages, exit codes, scripts of a checkout."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import typer
from command_files import run

import kernelfields
from kernelfields.cli import checkout_scripts
from kernelfields.cli.app import app
from kernelfields.cli.messages import Console, json_text

COMMANDS = [
    *("train", "predict", "evaluate", "inspect", "certify", "check", "rank", "convert", "export"),
    "reproduce",
]


def test_help_names_every_command_and_a_way_to_begin():
    text = run("--help", env={"COLUMNS": "100"}).stdout
    assert "kernelfields train train.conll" in text
    for command in COMMANDS:
        assert command in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_examples_that_fit_the_screen(command):
    text = run(command, "--help", env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    examples = [line for line in text.splitlines() if f"kernelfields {command}" in line and "Usage" not in line]
    assert len(examples) >= 2
    assert all(len(line.rstrip()) < 80 for line in examples)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_in_an_example_exists(command):
    group = typer.main.get_command(app)
    known = {name for each in group.commands[command].params for name in (*each.opts, *each.secondary_opts)}
    lines = [line for line in group.commands[command].help.splitlines() if f"kernelfields {command} " in line]
    used = {word for line in lines for word in line.split(" -- ")[0].split() if word.startswith("--")}
    assert used <= known


@pytest.mark.parametrize("command", COMMANDS)
def test_help_cuts_nothing_off_and_has_no_kinds_of_python(command):
    text = run(command, "--help", env={"COLUMNS": "80"}).stdout
    for noise in ("\u2026", "<bool>", "<str>", "<int", "<float"):
        assert noise not in text
    for each in typer.main.get_command(app).commands[command].params:
        assert all(name in text for name in (*each.opts, *each.secondary_opts) if name.startswith("--"))
    assert all(len(line) <= 80 for line in text.splitlines())


def test_options_of_earlier_versions_name_what_replaces_them():
    for arguments, words in (
        (["train", "train.conll", "--search"], "there is no --search any more: settings are chosen on held-out"),
        (["train", "train.conll", "--c2=1"], "use --prior-variance, which is 1 / (2 c2)"),
        (["predict", "m", "f", "--segments"], "use --entities"),
        (["bench"], "python -m benchmarks.NAME"),
    ):
        assert words in " ".join(run(*arguments, code=2).stderr.split())


def test_help_loads_nothing_heavy():
    code = (
        "import json, sys\nfrom kernelfields.cli.app import app\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'safetensors', 'matplotlib'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == []


def test_the_version():
    assert run("--version").stdout == f"kernelfields {kernelfields.__version__}\n"


def test_json_is_strict_and_knows_numbers_of_numpy():
    document = {
        "a": np.float64(0.5),
        "b": np.array([1, 2]),
        "c": float("nan"),
        "d": [np.inf, "é"],
        1: (None, True),
    }
    assert json_text(document) == '{"a": 0.5, "b": [1, 2], "c": null, "d": [null, "é"], "1": [null, true]}'


def test_warnings_of_the_library_are_heard_and_those_for_programmers_are_not(capsys):
    with Console(quiet=True).show_warnings():
        warnings.warn("the fit is\n  short", UserWarning, stacklevel=1)
        warnings.warn("soon gone", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "warning: the fit is short\n")


def test_scripts_are_listed_and_run(tmp_path, monkeypatch):
    root = tmp_path / "checkout"
    for folder in ("experiments", "src/kernelfields"):
        (root / folder).mkdir(parents=True)
    script = '"""What it does.\n\nMore."""\nimport sys\nif __name__ == "__main__":\n    sys.exit(len(sys.argv[1:]))\n'
    (root / "experiments" / "the_figure.py").write_text(script)
    (root / "experiments" / "shared.py").write_text('"""No script."""\n')
    monkeypatch.setattr(checkout_scripts.kernelfields, "__file__", str(tmp_path / "a" / "b" / "__init__.py"))
    monkeypatch.chdir(root)
    assert run("reproduce").stdout == "the_figure  What it does.\n"
    run("reproduce", "the-figure")
    run("reproduce", "the_figure", "--option", "value", "--", "--help", code=3)
    assert "choose among the_figure" in run("reproduce", "another", code=2).stderr
    assert checkout_scripts.find_experiments() == root / "experiments"
    monkeypatch.chdir(tmp_path)
    assert checkout_scripts.find_experiments() is None
    assert "run this inside a checkout" in run("reproduce", "solvers", code=2).stderr
