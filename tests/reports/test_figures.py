"""Pictures: drawn by matplotlib without a trace on it; SVG that is well-formed, self-contained and repeatable."""

import io
import re
import subprocess
import sys
import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from parsed_pages import HOSTILE, ParsedPage, solution_of, texts

from kernelfields.reports import LabelledSequence, plot_convergence, plot_sequence, plot_transitions
from kernelfields.reports.figures import (
    format_decade,
    legend,
    note,
    panels,
    set_decade_limits,
    set_logarithmic,
    set_tick_labels,
)
from kernelfields.reports.markup import LIGHT

FIT = solution_of([900.0, 400.0, 301.0, 300.1], [-np.inf, 200.0, 299.0, 300.0], tol=0.1)


@pytest.fixture(autouse=True)
def _no_figure_is_left_to_pyplot():
    before = pyplot.get_fignums()
    yield
    assert pyplot.get_fignums() == before


def points(description="three points"):
    """A small picture of its own, with a mark for each of three points."""
    with panels(None, description, (3.0, 2.0)) as picture:
        picture.axes[0].plot([1, 2, 3], [1, 4, 9], marker="o")
    return picture


def test_a_picture_is_one_image_with_a_description():
    root = ElementTree.fromstring(points("a < b").markup())
    assert root.get("role") == "img"
    assert (root[0].tag.split("}")[1], root[0].text) == ("title", "a < b")
    assert root.get("width") == f"{3 * 72}pt"
    assert [float(number) for number in root.get("viewBox").split()] == pytest.approx([0, 0, 216, 144])


@pytest.mark.slow
def test_the_same_data_are_the_same_picture():
    assert points().markup() == points().markup()
    picture = points()
    assert picture.markup() == picture.markup()


def test_a_picture_loads_nothing_and_has_no_date():
    for svg in (points().markup(), plot_convergence(FIT).markup()):
        ParsedPage(f"<body>{svg}</body>").assert_harmless()
        assert "metadata" not in svg
        assert not re.search(r"\d{4}-\d\d-\d\d", svg)
        assert "<style" not in svg  # a style inside a picture would be that of the whole page
        assert svg.count("http") == 2  # the names of SVG and of its references


def test_ids_differ_between_pictures_and_references_are_to_their_own():
    drawn = [points().markup(), plot_convergence(FIT).markup(), plot_transitions(np.eye(2), "ab").markup()]
    names = []
    for svg in drawn:
        defined = [each.get("id") for each in ElementTree.fromstring(svg).iter() if each.get("id")]
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) <= set(defined)
        assert len(set(defined)) == len(defined)
        names += defined
    assert len(set(names)) == len(names)


def test_colours_have_names_that_follow_the_screen():
    svg = plot_convergence(FIT).markup()
    used = set(re.findall(r"var\(--kf-([a-z-]+),", svg))
    assert {"ink", "muted", "line", "accent", "second"} <= used <= set(LIGHT)
    # A colour stands there only as what to fall back on.
    assert set(re.findall(r"(?<!,)#[0-9a-f]{6}", svg)) == set()


def test_a_notebook_shows_a_picture_once():
    html = points()._repr_html_()
    page = ParsedPage(html)
    page.assert_harmless()
    assert len(page.with_class("kf-notebook")) == 1
    assert "--kf-ink:currentColor" in html
    assert repr(points()) == "Picture('three points')"
    figure, ax = pyplot.subplots()
    try:
        assert plot_transitions(np.eye(2), "ab", ax=ax)._repr_html_() is None
    finally:
        pyplot.close(figure)


def test_style_and_backend_are_left_alone():
    before = dict(matplotlib.rcParams)
    plot_convergence(FIT).markup()
    points().savefig(io.BytesIO(), format="png")
    assert dict(matplotlib.rcParams) == before


def test_the_style_of_the_user_changes_no_report():
    expected = plot_convergence(FIT).markup()
    with matplotlib.style.context(["dark_background", {"font.size": 20, "axes.grid": False, "savefig.bbox": "tight"}]):
        picture = plot_convergence(FIT)
        assert picture.markup() == expected
    assert picture.markup() == expected


def test_as_many_axes_as_panels_are_needed():
    axes = matplotlib.figure.Figure().subplots(2)
    with panels(axes, "", (1, 1), (1, 1)) as picture:
        assert picture.axes == tuple(axes)
    for given, words in ((axes[0], "got Axes"), (axes[:1], "got 1")):
        with (
            pytest.raises(ValueError, match=f"ax must hold 2 Axes, one for each panel, {words}"),
            panels(given, "", (1, 1), (1, 1)),
        ):
            pass


def test_labels_are_text_whatever_they_look_like():
    hostile = [*HOSTILE, "$\\frac{$", "_hidden", "x" * 100]
    with panels(None, hostile[0] + "\x00", (14.0, 4.0)) as picture:
        ax = picture.axes[0]
        lines = [ax.plot([0, 1], [index, index])[0] for index in range(len(hostile))]
        set_tick_labels(ax.xaxis, range(len(hostile)), hostile)
        legend(ax, lines, hostile)
        note(ax, 0, 0, "$\\frac{$")
    picture.savefig(io.BytesIO(), format="png")
    svg = picture.markup()
    assert "<script" not in svg
    assert "<img" not in svg
    shown = [each.removeprefix("\u2060") for each in texts(svg)]
    assert shown.count("$\\frac{$") == 3
    assert shown.count("_hidden") == 2
    assert shown.count("_a\\nb") == 2
    assert max(map(len, shown)) == 40  # in a legend; 24 beside an axis


def test_letters_that_matplotlib_cannot_draw_reach_the_browser_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = plot_transitions(np.eye(2), ["名詞", "動詞"]).markup()
    assert texts(svg).count("名詞") == 2


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1e-5, 1.0, ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]),
        (80.0, 1200.0, ["100", "200", "500", "1,000"]),
        (70.0, 75.0, ["70", "72", "74"]),
    ],
)
def test_logarithmic_axes_have_readable_ticks(low, high, expected):
    with panels(None, "", (6.0, 4.0)) as picture:
        (ax,) = picture.axes
        set_logarithmic(ax, low, high)
        ax.set_ylim(low, high)
    svg = picture.markup()
    assert set(expected) <= set(texts(svg))
    assert not [each for each in texts(svg) if "$" in each]


def test_decades_end_at_powers_of_ten():
    with panels(None, "", (3.0, 2.0)) as picture:
        set_decade_limits(picture.axes[0], [0.02, 30.0, 0.0, -1.0, np.nan, np.inf])
    low, high = picture.axes[0].get_ylim()
    assert 0.005 < low < 0.01
    assert 100 < high < 200
    assert [format_decade(value) for value in (1e-16, 0.1, 1.0, 1e16)] == ["10⁻¹⁶", "10⁻¹", "10⁰", "10¹⁶"]
    assert format_decade(1234.0) == "1,234"


@pytest.mark.slow
def test_matplotlib_and_jinja2_load_when_something_is_drawn():
    code = """
import sys
import kernelfields.evaluation, kernelfields.reports
from kernelfields import ChainCRF, evaluate
X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
crf = ChainCRF("linear").fit(X, y)
print(crf.summary(), crf.weights(), crf.explain(X[0]), evaluate(crf, X, y))
loaded = {"matplotlib", "jinja2", "networkx"} & set(sys.modules)
sys.exit(f"loaded: {loaded}" if loaded else 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_convergence(FIT),
        lambda: plot_transitions([[0.0]], ["a"]),
        lambda: plot_sequence(LabelledSequence(["a"], [[1.0]], ["a"])),
    ],
)
def test_without_matplotlib_the_error_says_what_to_install(draw, monkeypatch):
    for name in [each for each in sys.modules if each.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="plots need matplotlib: pip install matplotlib"):
        draw()
