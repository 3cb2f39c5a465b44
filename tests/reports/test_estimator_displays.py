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
from kernelfields.reports import plot_convergence, plot_sequence, plot_transitions

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


def test_a_fitted_field_is_the_box_of_scikit_learn_with_one_line_and_the_rest_folded(words_field):
    bundle = words_field._repr_mimebundle_()
    summary = words_field.summary()
    assert bundle["text/html"].endswith(summary.fold())
    page = ParsedPage(summary.fold())
    page.assert_harmless()
    near = f"within {100 * words_field.certificate_.relative_gap:.2g} % of the best fit"
    assert f"4 labels, 5 features, {near}" in page.text
    assert [tag for tag, _ in page.tags if tag in ("details", "summary")][:2] == ["details", "summary"]
    assert [tag for tag, _ in page.tags].count("svg") == 1
    assert "×" in page.text  # the forbidden step
    assert "constraints [('P', 'D')]" in page.text
    assert bundle["text/plain"] == repr(words_field)
    for html in (bundle["text/html"], words_field._repr_html_()):
        assert "sk-top-container" in html
        assert near in html
    unfitted = clone(words_field)
    for html in (unfitted._repr_html_(), unfitted._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in html
        assert "kf-inspect" not in html


def test_displays_are_their_tables_and_plots_take_a_fitted_field(words_field):
    summary, shown = words_field.summary(), words_field.show(DICTS[0], tokens=WORDS[0])
    for display in (summary, words_field.weights(), shown, summary.set_table):
        assert repr(display) == str(display)
    history = plot_convergence(words_field).axes[1].lines[-1].get_ydata()
    assert set(history) == {words_field.solution_.history[-1].tol}
    drawn = plot_transitions(words_field).markup()
    assert drawn == summary.transition_picture().markup()
    assert plot_sequence(words_field, DICTS[0], tokens=WORDS[0]).markup() == plot_sequence(shown).markup()
    X, y = arrays()
    field = ChainCRF("linear", edges=EdgeCliques("linear"), tol=1e-2, n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match="ChainCRF has no transitions that are the same for all inputs"):
        plot_transitions(field)


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
    page = ParsedPage(field.summary().fold())
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
