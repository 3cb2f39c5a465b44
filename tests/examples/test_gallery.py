"""The gallery: every script is short, has a title, runs without a warning and draws something."""

import ast
import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import sklearn

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))
FOLDERS = sorted({script.parent for script in SCRIPTS})


def name_of(path):
    return path.relative_to(EXAMPLES).as_posix()


def underlined_title(text):
    """The first line, if the second one underlines it as reStructuredText asks."""
    title, rule, *rest = text.splitlines()
    assert set(rule) == {"="}
    assert len(rule) >= len(title) > 0
    assert "".join(rest).strip(), "a title and nothing else"
    return title


@pytest.fixture
def drawing(monkeypatch, tmp_path):
    """Figures go to memory, files to a folder of their own; settings and figures are gone afterwards."""
    with mpl.rc_context():
        plt.switch_backend("agg")
        plt.close("all")
        monkeypatch.setattr(plt, "show", lambda: None)  # agg would warn that it cannot
        monkeypatch.chdir(tmp_path)
        yield
        plt.close("all")


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_an_example_draws_without_a_warning(script, drawing, capsys):
    if "latent_mean_and_variance" in script.read_text(encoding="utf-8") and sklearn.__version__.startswith("1.6."):
        pytest.skip("scikit-learn 1.6 does not show the latent function of a Gaussian process")
    runpy.run_path(str(script), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert any(ax.has_data() for figure in figures for ax in figure.axes)
    for figure in figures:
        figure.canvas.draw()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_an_example_is_short_and_says_what_one_sees(script):
    text = script.read_text(encoding="utf-8")
    assert len(text) < 4200
    assert "\n# %%\n" in text
    underlined_title(ast.get_docstring(ast.parse(text)))


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_a_folder_has_a_header(folder):
    underlined_title((folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8"))
    assert len(list(folder.iterdir())) <= 16


def test_titles_differ():
    titles = [underlined_title(ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))) for script in SCRIPTS]
    assert len(set(titles)) == len(titles)


def test_there_are_enough_examples():
    assert len(SCRIPTS) >= 25
