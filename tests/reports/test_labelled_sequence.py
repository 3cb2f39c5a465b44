"""Labelled sequences: coloured by label, probabilities on hover, mistakes told without colour, words escaped."""

import json
import re

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import StepPatch
from parsed_pages import ParsedPage

from kernelfields.reports import LabelledSequence, plot_sequence
from kernelfields.reports.sequences import label_background, label_hues

CLASSES = ["B-PER", "I-PER", "B-LOC", "O"]
MARGINALS = np.array([[0.9, 0.0, 0.1, 0.0], [0.1, 0.7, 0.15, 0.05], [0.0, 0.0, 0.0002, 0.9998]])


def sentence(**changes):
    parts = {
        "labels": ["B-PER", "I-PER", "O"],
        "marginals": MARGINALS,
        "classes": CLASSES,
        "tokens": ["Ada", "Lovelace", "wrote"],
        "truth": ["B-PER", "B-LOC", "O"],
        "caption": "first",
    }
    return LabelledSequence(**{**parts, **changes})


def positions(sequence):
    page = ParsedPage(sequence._repr_html_())
    page.assert_harmless()
    return [each for tag, each in page.tags if tag == "li"]


def test_hovering_tells_the_probabilities_in_falling_order():
    items = positions(sentence())
    assert [each["title"].split("\n") for each in items] == [
        ["0: Ada", "B-PER 0.900", "B-LOC 0.100"],
        ["1: Lovelace", "I-PER 0.700", "B-LOC 0.150", "B-PER 0.100", "O 0.050", "truth B-LOC"],
        ["2: wrote", "O 1.000"],
    ]


def test_the_listed_probabilities_add_up_to_one_with_the_others():
    marginals = np.random.default_rng(0).dirichlet(np.ones(30), size=4)
    classes = [f"L{index}" for index in range(30)]
    labels = [classes[i] for i in marginals.argmax(axis=1)]
    items = positions(LabelledSequence(labels, marginals, classes, tokens=list("abcd")))
    assert len(items) == 4
    for each in items:
        _, *lines = each["title"].split("\n")
        assert lines[-1].startswith("25 other labels ")
        assert sum(float(line.split()[-1]) for line in lines) == pytest.approx(1.0, abs=0.004)


def test_entity_types_share_a_colour_that_is_stronger_where_the_field_is_surer():
    first, second, outside = positions(sentence())
    hues = label_hues(CLASSES)
    assert hues["B-PER"] == hues["I-PER"] != hues["B-LOC"]
    assert hues["O"] is None
    assert first["style"] == label_background(hues["B-PER"], 0.9)
    assert second["style"] == label_background(hues["B-PER"], 0.7)
    assert "style" not in outside
    strengths = [float(each["style"].rstrip(")").split(",")[-1]) for each in (first, second)]
    assert strengths[0] > strengths[1]


def test_wrong_labels_have_a_cross_a_frame_and_the_truth():
    page = ParsedPage(sentence()._repr_html_())
    assert len(page.with_class("kf-wrong")) == 1
    assert page.text.count("✗") == 1
    assert "✗ I-PER truth B-LOC" in page.text
    unknown = ParsedPage(sentence(truth=["B-PER", "I-PER", "never seen"])._repr_html_())
    assert "truth never seen" in unknown.text
    assert not ParsedPage(sentence(truth=None)._repr_html_()).with_class("kf-wrong")


def test_text_is_aligned_and_names_what_is_wrong():
    assert str(sentence()).splitlines() == [
        "first",
        "Ada       B-PER  0.900",
        "Lovelace  I-PER  0.700  truth B-LOC",
        "wrote     O      1.000",
    ]


def test_very_long_sequences_of_words_are_cut_and_say_so():
    marginals = np.tile([0.25, 0.75], (1500, 1))
    shown = LabelledSequence(np.ones(1500, int), marginals, np.array([0, 1]), tokens=["word"] * 1500)
    assert len(positions(shown)) == 1001
    assert "500 more positions" in ParsedPage(shown._repr_html_()).text
    assert str(shown).endswith("500 more positions")
    assert len(shown.to_dict()["positions"]) == 1500


def test_plain_values_go_through_json():
    shown = LabelledSequence(np.array([1, 0]), [[0.25, 0.75], [0.5, 0.5]], np.array([0, 1]), truth=np.array([1, 1]))
    data = json.loads(json.dumps(shown.to_dict()))
    assert data["positions"][0] == {
        "token": None,
        "label": 1,
        "probability": 0.75,
        "truth": 1,
        "marginals": [[0, 0.25], [1, 0.75]],
    }
    assert shown.wrong.tolist() == [False, True]
    assert shown.to_rows()[1] == {"position": 1, "token": None, "label": 0, "probability": 0.5, "truth": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens": ["Ada"]}, "tokens has 1 entries, but there are 3 labels"),
        ({"truth": ["O"] * 4}, "truth has 4 entries"),
        ({"marginals": MARGINALS[:, :2]}, r"marginals have shape \(3, 2\)"),
        ({"marginals": 2 * MARGINALS}, "between 0 and 1"),
        ({"marginals": np.full((3, 4), np.nan)}, "between 0 and 1"),
        ({"labels": ["B-PER", "I-PER", "X"]}, "'X' is not among the classes"),
    ],
)
def test_parts_that_do_not_fit_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        sentence(**changes)
    with pytest.raises(TypeError, match="tokens must be a list"):
        sentence(tokens="Ada")


def heights_of(ax):
    """Heights (stacks, positions) of what is stacked."""
    stacks = [patch for patch in ax.patches if isinstance(patch, StepPatch)]
    return stacks, np.array([stack.get_data().values - stack.get_data().baseline for stack in stacks])


def test_a_plotted_sequence_is_stacks_of_marginals_that_add_up_to_one():
    marginals = np.random.default_rng(0).dirichlet(np.ones(20) / 5, size=6)
    classes = [f"L{index}" for index in range(20)]
    labels = [classes[index] for index in marginals.argmax(axis=1)]
    truth = ["L19", *labels[1:]]
    sequence = LabelledSequence(labels, marginals, classes, list("abcdef"), truth)
    picture = plot_sequence(sequence)
    (ax,) = picture.axes
    stacks, heights = heights_of(ax)
    np.testing.assert_allclose(heights.sum(axis=0), 1.0, atol=1e-9)
    np.testing.assert_array_equal(stacks[0].get_data().edges, np.arange(7) - 0.5)
    named = [each.get_text() for each in ax.get_legend().get_texts()]
    assert set(labels) <= set(named)
    assert named[-1] == f"{20 - len(named) + 1} others"
    for name, stack in zip(named[:-1], heights, strict=False):
        np.testing.assert_allclose(stack, marginals[:, classes.index(name)], atol=1e-15)
    assert [each.get_text() for each in ax.get_xticklabels()] == list("abcdef")
    assert [each.get_text() for each in ax.texts] == [f"✗ {labels[0]} (L19)", *labels[1:]]


def test_plotted_entity_types_share_a_hue_and_tags_can_be_told_apart():
    shown = LabelledSequence(["B-X", "I-X", "O"], np.eye(3), ["B-X", "I-X", "O"])
    colours = [to_rgb(stack.get_facecolor()) for stack in heights_of(plot_sequence(shown).axes[0])[0]]
    assert len(set(colours)) == 3
    assert max(colours[2]) - min(colours[2]) < 0.1  # outside is grey
    for colour in colours[:2]:
        assert int(np.argmax(colour)) == 2


def test_what_cannot_be_plotted_is_named():
    with pytest.raises(TypeError, match=r"a fitted estimator and a sequence, or what show\(\) returns"):
        plot_sequence([1, 2])
    with pytest.raises(ValueError, match="has no positions"):
        plot_sequence(LabelledSequence([], np.zeros((0, 2)), ["a", "b"]))


def test_adjacent_entities_are_not_joined():
    labels, classes = ["O", "B-X", "B-X", "I-X", "I-X", "O", "O"], ["B-X", "I-X", "O"]
    marginals = np.eye(3)[[classes.index(label) for label in labels]]
    (table,) = LabelledSequence(labels, marginals, classes).parts()
    assert [row[0] for row in table.rows] == ["0", "1", "2", "3 to 4", "5 to 6"]
    chords = LabelledSequence(["B-flat", "B-flat"], np.ones((2, 1)), ["B-flat"])
    (table,) = chords.parts()
    assert [row[0] for row in table.rows] == ["0 to 1"]


# ---- entities


def entity_items(labels, classes, truth=None):
    """Return the classes and the written label of each word on a page."""
    marginals = np.eye(len(classes))[[classes.index(label) for label in labels]]
    words = [f"w{t}" for t in range(len(labels))]
    html = LabelledSequence(labels, marginals, classes, words, truth)._repr_html_()
    found = re.findall(r"<li([^>]*)>.*?<small>(.*?)</small>", html, re.DOTALL)
    written = [re.sub("<[^>]*>", "", label).replace("\u00a0", "") for _, label in found]
    return [
        (set((re.search('class="([^"]*)"', tag) or [0, ""])[1].split()), label)
        for (tag, _), label in zip(found, written, strict=True)
    ]


@pytest.mark.parametrize(
    ("labels", "written", "joined"),
    [
        ("B-PER I-PER O B-PER B-PER", ["PER", "", "", "PER", "PER"], [1]),
        ("I-PER I-PER O B-PER I-LOC", ["PER", "", "", "PER", "LOC"], [1]),
        ("B-PER E-PER S-PER O B-LOC", ["PER", "", "PER", "", "LOC"], [1]),
        ("U-PER B-PER I-PER L-PER O", ["PER", "PER", "", "", ""], [2, 3]),
    ],
)
def test_words_of_an_entity_stand_together_with_its_type_once(labels, written, joined):
    labels = labels.split()
    items = entity_items(labels, sorted({*labels, "O"}))
    assert [label for _, label in items] == written
    assert [t for t, (kinds, _) in enumerate(items) if "kf-joins" in kinds] == joined
    assert [t for t, (kinds, _) in enumerate(items) if "kf-goes-on" in kinds] == [t - 1 for t in joined]


def test_wrong_labels_of_entities_are_written_in_full():
    items = entity_items(["B-PER", "I-PER"], ["B-PER", "I-PER", "O"], truth=["B-PER", "O"])
    assert [label for _, label in items] == ["PER", "✗ I-PER"]


def test_labels_that_are_no_entities_are_written_at_every_word():
    items = entity_items(["B-flat", "I-beam", "noise"], ["B-flat", "I-beam", "noise"])
    assert [label for _, label in items] == ["B-flat", "I-beam", "noise"]
    assert not any(kinds for kinds, _ in items)
