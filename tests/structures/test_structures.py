"""Structures are values: what a fit has learnt of labels, never changed, described in files and read back."""

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, RingCRF, SegmentCRF
from kernelfields.estimators.base import prepare_fit
from kernelfields.numerics.parameters import declares_parameters
from kernelfields.structures.chains import ChainStructure

X = [np.array([[2.0], [2.1], [1.0], [1.1]]), np.array([[0.9], [1.0], [2.2]])]
Y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
ROWS = np.vstack(X)
PAIRS = [(x, [[k, k + 1] for k in range(len(x) - 1)]) for x in X]
SETTINGS = {"prior_variance": 1.0, "scale": False, "random_state": 0}


def fitted_fields():
    labels = np.array([own == "sun" for own in Y[0] + Y[1]])
    return [
        ChainCRF("rbf", constraints=[("sun", "rain")], **SETTINGS).fit(X, [["sun"] * 4, ["rain", "rain", "sun"]]),
        RingCRF("rbf", **SETTINGS).fit(X, Y),
        SegmentCRF("rbf", max_duration=3, repeats=True, **SETTINGS).fit(X, Y),
        GraphCRF("rbf", **SETTINGS).fit(PAIRS, Y),
        KernelClassifier("rbf", **SETTINGS).fit(ROWS, labels.astype(int)),
        MultiLabelCRF("rbf", decision="hamming", **SETTINGS).fit(ROWS, np.column_stack([labels, ~labels]).astype(int)),
    ]


@pytest.fixture(scope="module")
def fields():
    return fitted_fields()


def test_a_structure_cannot_be_changed(fields):
    for field in fields:
        with pytest.raises(FrozenInstanceError):
            field.structure.classes = None


def test_the_family_of_labellings_is_described_and_read_back(fields):
    for field in fields:
        structure = field.structure
        classes = structure.rebuild_classes(structure.describe_classes())
        spec, rebuilt = structure.spec, structure.rebuild_spec(structure.describe(), classes)
        names = ("kind", "n_labels", "max_duration", "repeats", "n_names", "pairs")
        assert [getattr(spec, name) for name in names] == [getattr(rebuilt, name) for name in names]
        assert np.array_equal(spec.step_penalties, rebuilt.step_penalties)


def test_data_are_read_as_in_the_fit_before_and_after_it(fields):
    """What is learnt from data and what is read with it are the same numbers."""
    for field, given in zip(fields[:2], ([["sun"] * 4, ["rain", "rain", "sun"]], Y), strict=True):
        reader, learnt, classes = field.structure.learn(X, given, None)
        again = field.structure.with_reader(reader, classes).read_training(X, given, None)
        assert np.array_equal(learnt.inputs, again.inputs)
        assert np.array_equal(learnt.labels, again.labels)


def test_a_new_label_gives_another_structure_and_leaves_the_old_one():
    crf = ChainCRF("rbf", constraints=[("sun", "rain")], **SETTINGS).fit(X, [["sun"] * 4, ["rain", "rain", "sun"]])
    before = crf.structure
    grown = before.with_classes(np.array(["fog", "rain", "sun"]))
    assert before.classes.tolist() == ["rain", "sun"]
    assert (before.spec.n_labels, grown.spec.n_labels) == (2, 3)
    barred = grown.spec.step_penalties
    assert np.isneginf(barred[2, 1])
    assert np.isneginf(barred).sum() == 1


def test_items_are_spread_over_folds_by_labels_that_are_known(fields):
    ring = fields[1]
    training = prepare_fit(ring, X, [["sun", None, "rain", "rain"], Y[1]], None)
    assert [own.tolist() for own in ring.structure.item_labels(training, None)] == [[1, 0, 0], [0, 0, 1]]


@dataclass(frozen=True, eq=False)
class CalledBySides(ChainStructure):
    """Chains whose labels may be written with the side they are on, which does not count."""

    def training_labels(self, y, *, warn=False):
        return super().training_labels([[label.split()[-1] for label in own] for own in y], warn=warn)


@declares_parameters
class SidedCRF(ChainCRF):
    """A ChainCRF on labels with sides."""

    _structures = CalledBySides


def test_an_estimator_is_made_by_naming_a_structure():
    sided = [[f"left {label}" for label in Y[0]], [f"right {label}" for label in Y[1]]]
    own, plain = SidedCRF("rbf", **SETTINGS).fit(X, sided), ChainCRF("rbf", **SETTINGS).fit(X, Y)
    assert own.predict(X) == plain.predict(X)
    assert own.solution_.value == plain.solution_.value
