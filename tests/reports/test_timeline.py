"""Time lines: a band for every run of labels, true above predicted, probabilities that add up, all of it SVG."""

import re

import numpy as np
import pytest
from parsed_pages import HOSTILE, SVG, ParsedPage, box_of, of_class, picture_in, points_of, style_of, title_of

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
    bands = of_class(drawn(sequence), "kf-run")
    true, predicted = runs(sequence.truth), runs(sequence.labels)
    assert len(bands) == len(true) + len(predicted)
    boxes = [box_of(band) for band in bands]
    per_position = sum(width for _, _, width, _ in boxes) / 2 / len(sequence)
    for (left, _, width, _), (begin, end) in zip(boxes, [*true, *predicted], strict=True):
        assert width == pytest.approx(per_position * (end - begin), abs=0.02)
        assert left - boxes[0][0] == pytest.approx(per_position * begin, abs=0.02)
    heights = {top for _, top, _, _ in boxes}
    assert len(heights) == 2
    assert min(heights) == boxes[0][1], "the true labels are above"
    begin, end = predicted[0]
    mean = sequence.probabilities[begin:end].mean()
    assert (
        title_of(bands[len(true)])
        == f"{sequence.labels[0]}, positions {begin} to {end - 1}, mean probability {mean:.3f}"
    )


@pytest.mark.slow
def test_one_colour_a_label_and_a_legend_that_tells_it():
    sequence = series()
    page, picture = ParsedPage(sequence._repr_html_()), drawn(sequence)
    colours = {label: set() for label in sequence.classes}
    for band in of_class(picture, "kf-run"):
        colours[title_of(band).split(",")[0]].add(re.search("fill: (#[0-9a-f]{6})", style_of(picture, band))[1])
    assert all(len(each) == 1 for each in colours.values())
    assert len(set.union(*colours.values())) == 3
    for label, colour in colours.items():
        assert f"background-color:{next(iter(colour))}" in [each.get("style") for tag, each in page.tags if tag == "i"]
        assert f"{label} ({sequence.labels.count(label):,})" in page.text


@pytest.mark.slow
def test_what_is_wrong_is_marked_and_counted():
    sequence = series()
    picture = drawn(sequence)
    marks = of_class(picture, "kf-missed")
    counted = sum(int(title_of(each).split()[0].replace(",", "")) for each in marks)
    assert counted == sequence.wrong.sum() > 0
    share = 100 * (1 - sequence.wrong.mean())
    assert picture.find(SVG + "title").text == f"2,000 positions, {share:.1f} % right"
    assert not of_class(drawn(series(truth=False)), "kf-missed")


def test_probabilities_are_stacked_to_one():
    sequence = series(length=50)
    curves = of_class(drawn(sequence), "kf-curve")
    assert [title_of(curve) for curve in curves] == ["walk", "sit", "lie"]
    # Each curve goes along its upper edge, two corners for every position, and back along the lower one.
    edges = [points_of(curve) for curve in curves]
    bottom, top = edges[0][:, 1].max(), edges[-1][:, 1].min()
    tops = np.array([edge[edge[:, 0] < edge[:, 0].max()][1:101:2, 1] for edge in edges])
    np.testing.assert_allclose(tops[-1], top, atol=0.01, err_msg="the last curve is at one throughout")
    np.testing.assert_allclose((bottom - tops[0]) / (bottom - top), sequence.marginals[:, 0], atol=0.002)
    hovers = of_class(drawn(sequence), "kf-hover")
    assert [title_of(each) for each in hovers] == [sequence.hover(t) for t in range(50)]


def test_columns_of_many_positions_show_means():
    sequence = series(length=2000)
    first, *_ = of_class(drawn(sequence), "kf-hover")
    heading, *lines = title_of(first).split("\n")
    assert heading == "positions 0 to 7"
    assert lines[0] == f"lie {sequence.marginals[:8, 2].mean():.3f}"
    assert sum(float(line.split()[-1]) for line in lines) == pytest.approx(1.0, abs=0.002)


def test_segments_are_bands_of_their_own():
    segments = [(0, 3, "a", 0.5), (3, 5, "a", 1.0)]
    sequence = LabelledSequence(["a"] * 5, np.ones((5, 1)), ["a"], segments=segments)
    bands = of_class(drawn(sequence), "kf-run")
    assert [title_of(band) for band in bands] == [
        "a, positions 0 to 2, probability of the segment 0.500",
        "a, positions 3 to 4, probability of the segment 1.000",
    ]
    assert "fill-opacity: 0.675" in bands[0].get("style")
    assert "opacity" not in bands[1].get("style")


@pytest.mark.slow
def test_the_size_of_the_picture_is_bounded():
    sequence = series(length=40_000, change=1)
    document = sequence._repr_html_()
    assert len(document) < 700_000
    assert len(of_class(drawn(sequence), "kf-run")) <= 2 * 960
    page = ParsedPage(document)
    assert "bands: the most frequent label of each stretch" in page.text
    assert "means over 111.1 positions each" in page.text


def test_hostile_labels_stay_text():
    n = len(HOSTILE)
    picture = drawn(LabelledSequence(HOSTILE, np.eye(n), HOSTILE, truth=HOSTILE[::-1], caption=HOSTILE[0]))
    assert len(of_class(picture, "kf-run")) == 2 * n


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
