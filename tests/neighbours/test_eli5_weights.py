"""eli5 shows the weights of our CRF as it shows those of sklearn_crfsuite's, once it has been imported."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from kernelfields.compat import CRF, register_with_eli5
from kernelfields.compat.crf import explain_with_eli5
from tests.compat.tagged_sentences import tagged_data

X, y = tagged_data(20)


def test_eli5_is_not_imported_by_a_fit():
    code = "import sys; from kernelfields.compat import CRF\n"
    code += "CRF().fit([[{'a': 1}, {'b': 1}]], [['x', 'y']]); print('eli5' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout == "False\n"


@pytest.fixture(scope="module")
def eli5():
    return pytest.importorskip("eli5")


@pytest.mark.parametrize("make", [lambda crf: crf, lambda crf: pickle.loads(pickle.dumps(crf))], ids=["fit", "pickle"])
def test_weights_and_transitions_are_those_of_the_model(eli5, make):
    crf = make(CRF(c1=0.05, c2=0.1).fit(X, y))
    shown = eli5.explain_weights(crf, top=3)
    assert shown.error is None
    assert shown.targets[0].target == "O"
    names = shown.transition_features.class_names
    assert sorted(names) == crf.classes_
    for (before, label), weight in crf.transition_features_.items():
        assert shown.transition_features.coef[names.index(before), names.index(label)] == weight
    for each in shown.targets:
        found = [*each.feature_weights.pos, *each.feature_weights.neg]
        assert len(found) == 3
        of_label = [weight for (_, label), weight in crf.state_features_.items() if label == each.target]
        largest = sorted(of_label, key=abs, reverse=True)[:3]
        np.testing.assert_allclose(sorted(map(abs, (one.weight for one in found)), reverse=True), np.abs(largest))
        assert all(crf.state_features_[one.feature, each.target] == one.weight for one in found)


def test_names_labels_and_features_can_be_chosen(eli5):
    crf = CRF(c1=0.05, c2=0.1).fit(X, y)
    shown = eli5.explain_weights(crf, targets=["B-PER", "O"], target_names={"O": "none"}, feature_re="^postag")
    assert [each.target for each in shown.targets] == ["B-PER", "none"]
    assert shown.transition_features.coef[1, 0] == crf.transition_features_["O", "B-PER"]
    weights = shown.targets[0].feature_weights
    assert all(one.feature.startswith("postag") for one in (*weights.pos, *weights.neg))
    assert "Transition features" in eli5.format_as_text(shown)


def test_the_table_is_that_of_sklearn_crfsuite(eli5):
    theirs = pytest.importorskip("sklearn_crfsuite")
    pytest.importorskip("eli5.sklearn_crfsuite")
    settings = {"c1": 0.1, "c2": 0.1, "epsilon": 1e-7, "delta": 0.0}
    ours, other = (eli5.explain_weights(kind(**settings).fit(X, y), top=2) for kind in (CRF, theirs.CRF))
    assert [each.target for each in ours.targets] == [each.target for each in other.targets]
    np.testing.assert_allclose(ours.transition_features.coef, other.transition_features.coef, atol=1e-3)
    for one, twin in zip(ours.targets, other.targets, strict=True):
        mine, expected = ([w.weight for w in each.feature_weights.pos] for each in (one, twin))
        np.testing.assert_allclose(mine, expected, atol=1e-3)


def test_a_model_from_before_the_import_is_shown_after_a_word(eli5):
    class Later(CRF):
        """A class that eli5 has not heard of."""

    register_with_eli5(Later)
    assert eli5.explain_weights.dispatch(Later) is explain_with_eli5
