"""Time lines: a band for every run of labels, true above predicted, probabilities that add up, all of it SVG."""

from xml.etree import ElementTree

import numpy as np
import pytest
from parsed_pages import HOSTILE, ParsedPage

from kernelfields.reports import LabelledSequence, report_page
from kernelfields.reports.timeline import runs


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
    """The picture as an element, checked to be harmless and well-formed."""
    document = sequence._repr_html_()
    ParsedPage(document).assert_harmless()
    begin, end = document.index("<svg"), document.index("</svg>") + len("</svg>")
    return ElementTree.fromstring(document[begin:end])


def of_class(picture, name):
    return [each for each in picture.iter() if each.get("class") == name]


def test_runs_are_stretches_of_equal_values():
    assert runs("aabccc") == [(0, 2), (2, 3), (3, 6)]
    assert runs([]) == []
    assert runs([1]) == [(0, 1)]


def test_every_run_is_a_band_as_wide_as_it_is_long():
    sequence = series()
    bands = of_class(drawn(sequence), "kf-run")
    true, predicted = runs(sequence.truth), runs(sequence.labels)
    assert len(bands) == len(true) + len(predicted)
    per_position = sum(float(each.get("width")) for each in bands) / 2 / len(sequence)
    for band, (begin, end) in zip(bands, [*true, *predicted], strict=True):
        assert float(band.get("width")) == pytest.approx(per_position * (end - begin), abs=0.02)
    heights = {float(band.get("y")) for band in bands}
    assert len(heights) == 2
    assert min(heights) == float(bands[0].get("y")), "the true labels are above"
    begin, end = predicted[0]
    mean = sequence.probabilities[begin:end].mean()
    title = bands[len(true)].find("title").text
    assert title == f"{sequence.labels[0]}, positions {begin} to {end - 1}, mean probability {mean:.3f}"


def test_one_colour_a_label_and_a_legend_that_tells_it():
    sequence = series()
    page = ParsedPage(sequence._repr_html_())
    bands = of_class(drawn(sequence), "kf-run")
    colours = {label: set() for label in sequence.classes}
    for band in bands:
        colours[band.find("title").text.split(",")[0]].add(band.get("fill"))
    assert all(len(each) == 1 for each in colours.values())
    assert len(set.union(*colours.values())) == 3
    for label, colour in colours.items():
        assert f"background-color:{next(iter(colour))}" in [each.get("style") for tag, each in page.tags if tag == "i"]
        assert f"{label} ({sequence.labels.count(label):,})" in page.text


def test_what_is_wrong_is_marked_and_counted():
    sequence = series()
    picture = drawn(sequence)
    marks = of_class(picture, "kf-missed")
    counted = sum(int(each.find("title").text.split()[0].replace(",", "")) for each in marks)
    assert counted == sequence.wrong.sum() > 0
    share = 100 * (1 - sequence.wrong.mean())
    assert picture.find("title").text == f"2,000 positions, {share:.1f} % right"
    assert not of_class(drawn(series(truth=False)), "kf-missed")


def test_probabilities_are_stacked_to_one():
    sequence = series(length=50)
    curves = of_class(drawn(sequence), "kf-curve")
    assert len(curves) == 3
    tops = np.array([[float(pair.split(",")[1]) for pair in each.get("d")[1:].split()[:100:2]] for each in curves])
    low, high = tops[-1].max(), tops[-1].min()
    assert high == pytest.approx(low), "the last curve is at one throughout"
    bottom = high + 110
    np.testing.assert_allclose((bottom - tops[0]) / 110, sequence.marginals[:, 0], atol=0.002)
    hovers = of_class(drawn(sequence), "kf-hover")
    assert [each.find("title").text for each in hovers] == [sequence.hover(t) for t in range(50)]


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


def test_a_report_shows_time_lines():
    document = report_page("Series", sequences=[series(), series(seed=1)])
    page = ParsedPage(document)
    page.assert_harmless()
    assert len([each for tag, each in page.tags if tag == "svg"]) == 2
    assert "Bands have the colours of the labels" in page.text
    words = report_page("Words", sequences=[LabelledSequence(["a"], [[1.0]], ["a"], tokens=["word"])])
    assert "Each word has the colour of its label" in words
