"""Time lines: a band for every run of labels, true above predicted, probabilities that add up, all of it SVG."""

import re

import numpy as np
import pytest
from parsed_pages import SVG, ParsedPage, box_of, drawn_by, picture_in

from kernelfields.reports import LabelledSequence, report_page
from kernelfields.reports.sequences import runs


def series(length=2000, classes=("walk", "sit", "lie"), change=50, truth=True, seed=0):
    """A series whose label changes every so often, and what a field might say of it."""
    random = np.random.default_rng(seed)
    codes = np.repeat(random.integers(len(classes), size=length // change + 1), change)[:length]
    marginals = random.dirichlet(np.ones(len(classes)), size=length) + 4 * np.eye(len(classes))[codes]
    marginals /= marginals.sum(axis=1, keepdims=True)
    labels = [classes[code] for code in codes]
    shifted = [classes[code] for code in np.roll(codes, 3)]
    return LabelledSequence(labels, marginals, list(classes), truth=shifted if truth else None)


def drawn(sequence):
    return picture_in(sequence._repr_html_())


def test_runs_are_stretches_of_equal_values():
    assert runs("aabccc") == [(0, 2), (2, 3), (3, 6)]
    assert runs([]) == []
    assert runs([1]) == [(0, 1)]


def test_every_run_is_a_band_as_wide_as_it_is_long():
    sequence = series()
    picture = drawn(sequence)
    boxes = {}
    for number, labels in enumerate((sequence.truth, sequence.labels), 1):
        bands = drawn_by(picture, "PolyCollection", number)
        boxes[number] = [box_of(band) for band in bands]
        stretches = runs(labels)
        assert len(bands) == len(stretches)
        per_position = sum(width for _, _, width, _ in boxes[number]) / len(sequence)
        for (left, _, width, _), (begin, end) in zip(boxes[number], stretches, strict=True):
            assert width == pytest.approx(per_position * (end - begin), abs=0.02)
            assert left - boxes[number][0][0] == pytest.approx(per_position * begin, abs=0.02)
        colours = {label: set() for label in sequence.classes}
        for band, (begin, _) in zip(bands, stretches, strict=True):
            colours[labels[begin]].add(re.search("fill: (#[0-9a-f]{6})", band.get("style"))[1])
        assert all(len(each) == 1 for each in colours.values())
    assert boxes[1][0][1] < boxes[2][0][1], "the true labels are above"
    page = ParsedPage(sequence._repr_html_())
    for label, (colour,) in colours.items():
        assert f"background-color:{colour}" in [each.get("style") for tag, each in page.tags if tag == "i"]
        assert f"{label} ({sequence.labels.count(label):,})" in page.text


def test_what_is_wrong_is_marked():
    sequence = series(length=200)
    picture = drawn(sequence)
    assert len(drawn_by(picture, "PolyCollection", 3)) == len(
        [1 for begin, _ in runs(sequence.wrong) if sequence.wrong[begin]]
    )
    share = 100 * (1 - sequence.wrong.mean())
    assert picture.find(SVG + "title").text == f"200 positions, {share:.1f} % right"
    assert not drawn_by(drawn(series(truth=False)), "PolyCollection", 2)


def test_segments_are_bands_of_their_own():
    segments = [(0, 3, "a", 0.5), (3, 5, "a", 1.0)]
    sequence = LabelledSequence(["a"] * 5, np.ones((5, 1)), ["a"], segments=segments)
    first, second = drawn_by(drawn(sequence), "PolyCollection")
    assert "fill-opacity: 0.675" in first.get("style")
    assert "opacity" not in second.get("style")


@pytest.mark.slow
def test_the_size_of_the_picture_is_bounded():
    sequence = series(length=40_000, change=1)
    document = sequence._repr_html_()
    assert len(document) < 700_000
    assert sum(len(drawn_by(drawn(sequence), "PolyCollection", number)) for number in (1, 2)) <= 2 * 960
    page = ParsedPage(document)
    assert "bands: the most frequent label of each stretch" in page.text
    assert "means over 111.1 positions each" in page.text


def test_a_terminal_lists_runs():
    labels, truth = ["a", "a", "b", "b", "b"], ["a", "a", "a", "b", "b"]
    marginals = [[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.25, 0.75], [0.25, 0.75]]
    sequence = LabelledSequence(labels, marginals, ["a", "b"], truth=truth)
    assert str(sequence).splitlines() == ["0 to 1  a  0.800", "2       b  0.600  truth a", "3 to 4  b  0.750"]
    many = LabelledSequence(["a", "b"] * 600, np.tile([0.5, 0.5], (1200, 1)), ["a", "b"])
    assert str(many).endswith("200 more runs")


@pytest.mark.slow
def test_a_report_shows_time_lines():
    document = report_page("Series", sequences=[series(), series(seed=1)])
    page = ParsedPage(document)
    page.assert_harmless()
    assert len([each for tag, each in page.tags if tag == "svg"]) == 2
    assert "Bands have the colours of the labels" in page.text
    words = report_page("Words", sequences=[LabelledSequence(["a"], [[1.0]], ["a"], tokens=["word"])])
    assert "Each word has the colour of its label" in words
