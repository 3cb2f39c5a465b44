"""Settings of a run: TOML and back, names of files that survive a move, and what is wrong with a file."""

import os
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest
import typer

from kernelfields import ChainCRF
from kernelfields.cli.app import app
from kernelfields.cli.settings import SETTINGS, RunSettings, find_changed_files, read_settings, settings_text

EVERYTHING = RunSettings(
    train="train.conll",
    dev="dev.conll",
    format="columns",
    template='odd "name" \\ é\x7f.template',
    columns=["0", "a,b"],
    label_column="-1",
    standardize=True,
    kernel="linear+rbf",
    gamma=1e-05,
    degree=2,
    window=[2, 0],
    rank=0,
    l1=0.5,
    prior_variance=[1.0, float("inf")],
    edge_prior_variance=0.1,
    constraints="bio",
    tol=1e-6,
    n_jobs=-1,
    random_state=7,
    model="model.safetensors",
)


def write_settings(path, settings):
    Path(path).write_text(settings_text(settings, path), encoding="utf-8")


def test_options_of_train_are_the_settings_and_those_of_every_command():
    train = typer.main.get_command(app).commands["train"]
    names = [each.name for each in fields(RunSettings)]
    assert [each.name for each in train.params] == [*names, "as_json", "quiet", "verbose"]
    assert all(each.default is None for each in train.params if each.name in names)


def test_defaults_of_settings_are_those_of_the_estimator():
    """What "auto" settles is None here; a rank of 0 and a window of a list have no default of their own."""
    parameters = signature(ChainCRF).parameters
    values = {**RunSettings().part("nodes"), **RunSettings().part("estimator")}
    assert values.pop("min_freq") == 0.0
    for name, value in values.items():
        if value is not None and name != "random_state":
            assert value == parameters[name].default, name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("window", "3", 3),
        ("window", "2,0", [2, 0]),
        ("prior_variance", "1", 1.0),
        ("prior_variance", "1,0.1", [1.0, 0.1]),
        ("columns", "0", ["0"]),
        ("columns", "a,b", ["a", "b"]),
        ("separator", ",", ","),
        ("window", None, None),
    ],
)
def test_texts_of_options_become_values(name, text, value):
    read = SETTINGS[name].read(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("settings", [RunSettings(), EVERYTHING])
def test_what_is_written_is_read_again(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    write_settings("run.toml", settings)
    again, checksums = read_settings("run.toml")
    assert again == settings
    assert checksums == {}


def test_names_of_files_are_relative_to_the_settings(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    write_settings("models/run.toml", RunSettings(train="data.conll", model="models/m.safetensors"))
    assert 'train = "../data.conll"' in (tmp_path / "models" / "run.toml").read_text()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings, _ = read_settings("../models/run.toml")
    assert os.path.realpath(settings.train) == str(tmp_path / "data.conll")
    assert os.path.realpath(settings.model) == str(tmp_path / "models" / "m.safetensors")


def test_a_changed_file_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train", "dev"):
        (tmp_path / name).write_text(name)
    write_settings("run.toml", RunSettings(train="train", dev="dev", template="absent"))
    settings, checksums = read_settings("run.toml")
    assert set(checksums) == {"train", "dev"}
    assert find_changed_files(settings, checksums) == []
    (tmp_path / "dev").write_text("another")
    assert find_changed_files(settings, checksums) == ["dev"]
    (tmp_path / "dev").unlink()
    assert find_changed_files(settings, checksums) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[field\n", "cannot be read as TOML"),
        (
            "[field]\nkernl = 'rbf'\n",
            r"\[field\] has the unknown key 'kernl'; did you mean 'kernel' in \[field\]\?",
        ),
        ("[fit]\nkernel = 'rbf'\n", r"\[fit\] has the unknown key 'kernel'; did you mean 'kernel' in \[field\]\?"),
        ("[fields]\nkernel = 'rbf'\n", "unknown table or key 'fields'"),
        ("kernel = 'rbf'\n", "unknown table or key 'kernel'"),
        ("[fit]\ntol = 'small'\n", r"tol in \[fit\] is 'small', expected a number"),
        ("[fit]\nmax_iter = 2.5\n", r"max_iter in \[fit\] is 2.5, expected a whole number"),
        ("[fit]\nmax_iter = true\n", r"max_iter in \[fit\] is True, expected a whole number"),
        (
            "[field]\nwindow = ['a']\n",
            r"window in \[field\] is \['a'\], expected a whole number or a list of whole",
        ),
        ("[data]\nstandardize = 1\n", "standardize in .* expected true or false"),
        ("checksums = 1\n", r"\[checksums\] must be a table"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_settings(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if int in each.types])
def test_every_whole_number_has_bounds_as_an_option_and_in_a_file(name):
    for given in (10**20, -(10**20)):
        with pytest.raises(ValueError, match=f"{SETTINGS[name].names[0]} must be at"):
            SETTINGS[name].read(given)
        with pytest.raises(ValueError, match=f"a file: {name} must be at"):
            SETTINGS[name].check(given, f"a file: {name}")


def test_numbers_in_a_file_may_be_whole_but_not_larger_than_numbers_can_be(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[field]\nprior_variance = 10000000000\n")
    assert read_settings(path)[0].prior_variance == 1e10
    path.write_text(f"[field]\nprior_variance = 1{'0' * 400}\n")
    with pytest.raises(
        ValueError, match=r"prior_variance in \[field\] is 10000000000000000000..., larger than numbers"
    ):
        read_settings(path)
