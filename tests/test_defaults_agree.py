"""Defaults are said one way: in code, docstrings, the help of the command, and pages."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
import typer

import kernelfields
from kernelfields import ChainCRF, LabelDictionary
from kernelfields.cli.app import app
from kernelfields.cli.settings import SETTINGS, RunSettings
from kernelfields.data.cliques import USUAL_RANK
from kernelfields.solvers.choice import NATS_PER_POSITION, resolve_tolerance

ROOT = Path(__file__).parents[1]
PAGES = {page.name: page.read_text("utf-8") for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
ROOMS = (
    *("annotators", "compat", "data", "datasets", "engines", "estimators", "evaluation", "families", "features"),
    *("formats", "kernels", "labelling", "reports", "selection", "serving", "uncertainty"),
)
#: Defaults that docstrings say in words.
IN_WORDS = {"all three": ("mean", "difference", "range"), "tab": "\t", "range(12)": range(12)}
#: Pages with tables of the defaults of other packages.
OF_OTHERS = ("migrating.md",)
#: Classes whose parameters are None where CRFsuite has a default, which their docstrings name.
LIKE_CRFSUITE = ("CRF",)


def public_functions():
    """Return public functions, classes and their methods by name."""
    found = {}
    for package in [kernelfields, *(importlib.import_module(f"kernelfields.{room}") for room in ROOMS)]:
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing):
                methods = inspect.getmembers(thing, inspect.isfunction)
                found |= {f"{name}.{key}": own for key, own in methods if not key.startswith("_")}
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[name] = thing
    return found


FUNCTIONS = public_functions()


def signature_defaults(function):
    """Return the parameters with a default."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return {}
    return {name: each.default for name, each in parameters.items() if each.default is not inspect.Parameter.empty}


def stated_defaults(function):
    """Yield the parameters of a docstring with what it says of their default."""
    parameters = re.search(
        r"Parameters\n-+\n(.*?)(?:\n\n[A-Z][\w ]+\n-{3,}|\Z)", inspect.getdoc(function) or "", re.DOTALL
    )
    for names, text in re.findall(r"^(\w[\w, ]*) : (.*)$", parameters[1] if parameters else "", re.MULTILINE):
        if stated := re.search(r"\bdefault (.+)$", text):
            yield from ((name.strip(), stated[1]) for name in names.split(","))


def value_of(text):
    """Return what a text of a document says: a value of Python, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return IN_WORDS.get(text, text)


def same(stated, default):
    named = getattr(default, "__name__", None)
    return stated in (default, named) and isinstance(stated, bool) == isinstance(default, bool)


def test_docstrings_say_the_defaults_of_signatures():
    wrong = []
    for name, function in FUNCTIONS.items():
        defaults = signature_defaults(function)
        for parameter, text in stated_defaults(function):
            if name in LIKE_CRFSUITE and defaults.get(parameter) is None:
                continue
            if parameter in defaults and not same(value_of(text), defaults[parameter]):
                wrong.append(f"{name}: {parameter} is {defaults[parameter]!r}, and its docstring says {text}")
    assert not wrong, "\n".join(wrong)
    assert sum(len(list(stated_defaults(function))) for function in FUNCTIONS.values()) > 500


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_the_command_begins_with_the_defaults_of_the_estimator(name):
    """A setting is the default of the parameter of its name, or left to it; runs of the command are repeatable."""
    default = SETTINGS[name].default
    field = signature_defaults(ChainCRF)
    if name == "random_state":
        assert default == 0
    elif name in field and default is not None:
        assert default == field[name]
    elif name in field:
        assert field[name] in ("auto", None)


def test_the_texts_of_options_name_the_numbers_of_the_code():
    text = {name: setting.text for name, setting in SETTINGS.items()}
    assert f"{signature_defaults(LabelDictionary)['min_count']} by default" in text["allowed_min_count"]
    assert f"at most {USUAL_RANK}" in text["rank"]
    usual, nats = (f"{value:.0e}".replace("e-0", "e-") for value in (resolve_tolerance("auto"), NATS_PER_POSITION))
    assert f"else {usual}, or {nats} nats a position" in text["tol"]


def test_all_commands_have_the_defaults_of_train():
    """An option that several commands have begins with one value."""
    commands = typer.main.get_command(app).commands
    assert "train" in commands
    shared = [
        (name, option.name, option.default)
        for name, command in commands.items()
        for option in command.params
        if option.name in SETTINGS and option.default is not None and option.name not in ("train", "model", "report")
    ]
    assert [own for own in shared if own[2] != SETTINGS[own[1]].default] == []


# ---- pages


def test_the_kernel_that_is_left_to_the_data_is_described_one_way():
    """Names have a linear kernel, and of numbers held-out data decide: nowhere is RBF said to be what numbers get."""
    texts = {**PAGES, "train --help": SETTINGS["kernel"].text, "ChainCRF": inspect.getdoc(ChainCRF)}
    for name, text in texts.items():
        assert not re.search(r"(numbers an RBF|rbf for numbers|RBF kernel for numbers)", text, re.IGNORECASE), name
    assert "other numbers held-out data decide" in " ".join(texts["ChainCRF"].split())
    assert "for numbers held-out sequences decide" in " ".join(texts["command.md"].split())
    assert RunSettings().kernel == signature_defaults(ChainCRF)["kernel"] == "auto"


def stated_on_pages():
    """Yield (page, parameter, text) of every default that a page states as code."""
    for page, text in PAGES.items():
        if page in OF_OTHERS:
            continue
        flat = " ".join(text.split())
        for pattern in (r"`(\w+)=([^`]+)`(?:,| is) the default\b", r"\b[Tt]he default, `(\w+)=([^`]+)`"):
            yield from ((page, name, value) for name, value in re.findall(pattern, flat))
        for name, value in re.findall(r"[Bb]y default `(\w+)` is `([^`]+)`", flat):
            yield page, name, value
        for table in re.findall(r"^\| parameter \| default \|.*?\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE):
            for row in table.splitlines():
                _, names, value, *_ = row.split("|")
                yield from ((page, name, value.strip()) for name in re.findall(r"`(\w+)`", names))


@pytest.mark.parametrize(("page", "parameter", "text"), sorted(set(stated_on_pages())))
def test_pages_state_the_defaults_of_signatures(page, parameter, text):
    there = [own[parameter] for own in map(signature_defaults, FUNCTIONS.values()) if parameter in own]
    if parameter == "tol":
        assert value_of(text) == resolve_tolerance("auto")
    else:
        assert any(same(value_of(text), default) for default in there), f"{parameter} has the defaults {there}"


def test_pages_state_some_defaults():
    assert {"text.md", "chains.md", "density.md", "documents.md"} <= {page for page, *_ in stated_on_pages()}


def test_model_files_end_alike():
    """Pages name model files as the command does by default."""
    ending = Path(RunSettings().model).suffix
    for page, text in PAGES.items():
        saved = re.findall(r"""(?:\bsave|\bload|load_chain)\([^()"]*"([^"]+\.\w+)"\)""", text)
        saved += re.findall(r"kernelfields (?:evaluate|predict|inspect|serve|certify|rank) ([^\s-]\S*\.\w+)", text)
        assert {name for name in saved if Path(name).suffix in (".kfm", ".model", ".safetensors")} == {
            name for name in saved if Path(name).suffix == ending
        }, page


def test_the_search_of_the_quickstart_does_not_lose_to_the_defaults():
    default, *_, searched = re.findall(r"^(\d\.\d+) of the labels are right$", PAGES["quickstart.md"], re.MULTILINE)
    assert float(searched) >= float(default)
