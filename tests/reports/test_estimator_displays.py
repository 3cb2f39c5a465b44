"""A fitted field shows itself in a notebook, an unfitted one as scikit-learn does; a prediction can be shown."""

import numpy as np
import pytest
from parsed_pages import ParsedPage
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from kernelfields import ChainCRF, EdgeCliques

WORDS = [["the", "cat", "sat"], ["the", "dog", "sat", "down"], ["sat", "the", "cat"]]
TAGS = [["D", "N", "V"], ["D", "N", "V", "P"], ["V", "D", "N"]]
DICTS = [[{"w": word} for word in words] for words in WORDS]


def arrays(seed=0):
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 3)) for length in (4, 5, 3, 6, 4, 5)]
    return X, [(x[:, 0] > 0).astype(int) for x in X]


@pytest.fixture(scope="module")
def words_field():
    return ChainCRF("linear", tol=1e-2, n_jobs=1, constraints=[("P", "D")]).fit(DICTS, TAGS)


def test_a_fitted_field_shows_its_summary_and_an_unfitted_one_the_diagram(words_field):
    bundle = words_field._repr_mimebundle_()
    page = ParsedPage(bundle["text/html"])
    page.assert_harmless()
    assert "ChainCRF: 4 labels, 5 input features, 2 clique sets" in page.text
    assert f"{words_field.certificate_.relative_gap:.2g}" in page.text
    assert [tag for tag, _ in page.tags].count("svg") == 1
    assert "×" in page.text  # the forbidden step
    assert "constraints [('P', 'D')]" in page.text
    assert bundle["text/plain"] == repr(words_field)
    assert words_field._repr_html_() == bundle["text/html"]
    unfitted = clone(words_field)
    for html in (unfitted._repr_html_(), unfitted._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in html
        assert "kf-inspect" not in html


def test_text_displays_are_respected(words_field):
    with config_context(display="text"):
        for field in (words_field, clone(words_field)):
            assert field._repr_mimebundle_() == {"text/plain": repr(field)}
            assert not hasattr(field, "_repr_html_")
    assert hasattr(words_field, "_repr_html_")


def test_a_field_inside_a_pipeline_keeps_the_diagram(words_field):
    assert "sk-top-container" in estimator_html_repr(make_pipeline(words_field))


def test_transitions_that_depend_on_inputs_have_no_map():
    X, y = arrays()
    field = ChainCRF("linear", edges=EdgeCliques("linear"), tol=1e-2, n_jobs=1).fit(X, y)
    page = ParsedPage(field._repr_html_())
    assert "svg" not in {tag for tag, _ in page.tags}


def test_showing_a_sequence_is_predicting_it(words_field):
    shown = words_field.show(DICTS[1], TAGS[1], tokens=WORDS[1], caption="second")
    assert list(shown.labels) == words_field.predict([DICTS[1]])[0]
    np.testing.assert_array_equal(shown.marginals, words_field.predict_marginals([DICTS[1]])[0])
    page = ParsedPage(shown._repr_html_())
    page.assert_harmless()
    items = [each for tag, each in page.tags if tag == "li"]
    assert [each["title"].split("\n")[0] for each in items] == ["0: the", "1: dog", "2: sat", "3: down"]
    assert "second" in page.text


def test_several_sequences_at_once_are_refused(words_field):
    X, y = arrays()
    field = ChainCRF("linear", tol=1e-2, n_jobs=1).fit(X, y)
    for given in (X, [x.tolist() for x in X]):
        with pytest.raises(ValueError, match=r"show takes one sequence, got a list of 6 of them: pass one"):
            field.show(given)
    with pytest.raises(ValueError, match="got a list of 3 of them"):
        words_field.show(DICTS)
    with pytest.raises(ValueError, match=r"one sequence of shape \(positions, features\), got shape \(3,\)"):
        field.show(X[0][0])
    with pytest.raises(ValueError, match="truth has 1 entries, but there are 4 labels"):
        field.show(X[0], [0])


def test_an_unfitted_field_has_nothing_to_show():
    for ask in (lambda crf: crf.summary(), lambda crf: crf.show(DICTS[0])):
        with pytest.raises(NotFittedError):
            ask(ChainCRF())
