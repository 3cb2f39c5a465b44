"""What is given of labels answers for itself: known labels, partial ones, targets, and what is said beside y."""

import numpy as np
import pytest

from kernelfields import ChainCRF, PartialLabels
from kernelfields.data.chains import Chains
from kernelfields.data.given_labels import KnownLabels, LabelsElsewhere, resolve_partial_labels
from kernelfields.data.partial_labels import SoftRows
from kernelfields.data.partial_rows import PartialRows, TargetRows
from kernelfields.models.expectations import LabelShares

NUMBERS = np.array([0, 1, 1])
#: The first label is known, the second one of two, of the third nothing.
LOGS = np.array([[0.0, -np.inf, -np.inf], [-np.inf, 0.0, np.log(0.5)], [0.0, 0.0, 0.0]])
NODES = np.array([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])


def given(kind):
    return {
        "known": KnownLabels(NUMBERS),
        "partial": PartialRows(NUMBERS, LOGS),
        "targets": TargetRows(NUMBERS, SoftRows(NODES)),
    }[kind]


def refuses(check, *arguments):
    try:
        check(*arguments)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "complete", "learnable", "informative"),
    [("known", True, True, True), ("partial", False, False, True), ("targets", False, True, True)],
)
def test_each_kind_says_what_it_can_be_used_for(kind, complete, learnable, informative):
    labels = given(kind)
    assert labels.complete is complete
    assert (labels.decided is not None) is complete
    assert refuses(labels.check_complete, "all labels, please") is not complete
    assert refuses(labels.check_learnable, "labels or targets, please") is not learnable
    assert refuses(labels.check_informative) is not informative


def test_a_message_is_that_of_whoever_needs_all_labels():
    with pytest.raises(ValueError, match=r"^this needs every label$"):
        given("partial").check_complete("this needs every label")


def test_labels_that_could_be_anything_are_refused():
    with pytest.raises(ValueError, match="nothing is known of any label in y"):
        PartialRows(NUMBERS, np.zeros((3, 3))).check_informative()
    LabelsElsewhere().check_informative()


def test_known_labels_are_possible_where_they_count_and_partial_ones_wherever_they_may_be():
    weights = np.array([1.0, 0.0, 0.0])
    assert given("known").possible(weights).tolist() == [0]
    assert given("partial").possible(weights).tolist() == [0, 1, 2]


class Uniform:
    """Answers about three positions that are independent, and of which nothing speaks for any label."""

    data = Chains(np.zeros((3, 1)), np.array([0, 3]), NUMBERS)
    log_partition = np.array([3 * np.log(3.0)])

    def label_scores(self, labels):
        return np.zeros(1)

    def log_probability(self, log_weights):
        return np.array([np.log(np.exp(log_weights).sum(axis=1) / 3.0).sum()])

    def condition(self, log_weights):
        self.likeliest = log_weights.argmax(axis=1)
        return self

    def best_labels(self):
        return self.likeliest


def test_the_probability_is_that_of_what_is_known():
    assert given("known").log_probability(Uniform())[0] == pytest.approx(-3 * np.log(3.0))
    assert given("partial").log_probability(Uniform())[0] == pytest.approx(np.log(1 / 3) + np.log(1.5 / 3))
    with pytest.raises(ValueError, match="SoftTargets are matched by a fit"):
        given("targets").log_probability(Uniform())


def test_labels_are_completed_where_they_are_not_certain():
    assert given("known").fill_unknown(Uniform()).tolist() == NUMBERS.tolist()
    assert given("partial").fill_unknown(Uniform()).tolist() == [0, 1, 0]


def test_nothing_stated_is_an_object_like_what_is_stated():
    nothing = resolve_partial_labels(None)
    assert (nothing.classes, nothing.has_expected_shares) == (None, False)
    shares = PartialLabels(classes=["a", "b"], expectations=[LabelShares({"a": 0.5})])
    assert resolve_partial_labels(shares) is shares
    assert shares.has_expected_shares
    with pytest.raises(TypeError, match=r"partial_labels must be None or a PartialLabels\(...\), got 'x'"):
        ChainCRF(partial_labels="x").fit([np.zeros((2, 1))], [["a", "b"]])
