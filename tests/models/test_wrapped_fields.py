"""Wrappers answer what they declare: every question of a field is defined, passed on or refused by each of them."""

import ast
import inspect
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kernelfields
from kernelfields import (
    ChainCRF,
    ChainCRFCV,
    ConformalField,
    FieldSearchCV,
    FrameCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    RingCRF,
    SegmentCRF,
    SequenceClassifier,
    WindowFeatures,
    get_field,
)
from kernelfields.annotators import AnnotatedCRF
from kernelfields.compat import CRF
from kernelfields.models.wrapped_field import (
    CHANGING,
    FITTED,
    OF_LABELS,
    OF_PROBABILITIES,
    OF_THE_FIT,
    WrappedField,
    unwrap_field,
    unwrap_pipeline,
)
from kernelfields.uncertainty import CalibratedField, calibrate
from tests.uncertainty.two_labels import HELD, LABELS, LINEAR, NEW, X, Y, frame_of, same

KINDS = (ChainCRF, RingCRF, SegmentCRF, GraphCRF, MultiLabelCRF, KernelClassifier, SequenceClassifier)
WRAPPERS = (FrameCRF, CalibratedField, ConformalField, AnnotatedCRF, FieldSearchCV, ChainCRFCV, CRF)
QUESTIONS = (*OF_LABELS, *OF_PROBABILITIES, *OF_THE_FIT, *CHANGING)
#: What the library asks of a field once it has found it: wrappers have none of these.
HOOKS = {
    *("answers", "structure"),
}
#: What every estimator of the package defines for itself.
OWN = {"fit", "save", "load"}


@pytest.fixture(scope="module")
def chain():
    return ChainCRF(**LINEAR).fit(X, Y)


def search_of(estimator):
    return FieldSearchCV(estimator, kernels="linear", prior_variances=[1.0], cv=2, halving=False, random_state=0)


@pytest.fixture(scope="module")
def around(chain):
    """Every wrapper around a fitted chain, but for frames and sklearn-crfsuite's face, which read other inputs."""
    annotated = AnnotatedCRF(ChainCRF(**LINEAR)).fit(X, [{"one": own, "other": own} for own in Y])
    return {
        "calibrated": calibrate(chain, HELD, LABELS),
        "conformal": ConformalField(chain).conformalize(HELD, LABELS),
        "annotated": annotated,
        "search": search_of(ChainCRF(**LINEAR)).fit(X, Y),
    }


# ---- what is declared


def public(kind):
    names = {name for name in dir(kind) if not name.startswith("_") and not name.startswith("set_")}
    return names - set(kind._get_param_names()) - set(dir(BaseEstimator))


def test_every_public_name_of_a_field_is_in_one_of_the_lists():
    """A new method of a field has to be put into a list, so that each wrapper is thought of."""
    declared = {*QUESTIONS, *FITTED, "estimator_"}
    # Parameters of some fields are attributes of others.
    parameters = {name for kind in KINDS for name in kind._get_param_names()}
    undecided = {name for kind in KINDS for name in public(kind)} - declared - HOOKS - OWN - parameters
    assert not undecided, f"put {undecided} into a list of models/wrapped_field.py, or into HOOKS above"
    fitted = {name for name in declared if name.endswith("_")}
    assert len(set(QUESTIONS)) == len(QUESTIONS)
    assert not fitted & set(QUESTIONS)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_wrapper_defines_passes_on_or_refuses_every_question(wrapper, name):
    assert name in dir(wrapper)
    found = inspect.getattr_static(wrapper, name)
    if isinstance(found, property) and found.__doc__ == f"``{name}`` of the estimator inside.":
        assert name == "plot"  # the pictures of the field are its attribute
    elif isinstance(found, property):
        assert found.__doc__.startswith("Not there: ")
        with pytest.raises(AttributeError, match=f"{wrapper.__name__} has no {name}: "):
            getattr(wrapper(), name)
    else:
        assert getattr(wrapper, name).__doc__


@pytest.mark.parametrize("name", ["predict_entities", "weights", "log_likelihood"])
def test_what_is_passed_on_has_the_signature_and_the_words_of_the_field(name):
    assert inspect.signature(getattr(ChainCRFCV, name)) == inspect.signature(getattr(ChainCRF, name))
    assert inspect.getdoc(getattr(ChainCRFCV, name)) == inspect.getdoc(getattr(ChainCRF, name))


def test_no_class_of_the_package_passes_on_any_name():
    """One class has ``__getattr__``, and that one raises: it says what names of other packages are called here."""
    defining = []
    for path in Path(kernelfields.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "def __getattr" in text else ():
            if isinstance(node, ast.ClassDef):
                inside = [own for own in ast.walk(node) if isinstance(own, ast.FunctionDef)]
                defining += [node.name for own in inside if own.name in ("__getattr__", "__getattribute__")]
    assert defining == ["StoredEstimator"]


# ---- what reaches the field


@pytest.mark.parametrize("name", ["best_estimator_", "chain_", "answers", "structure", "nonsense", "nonsense_"])
def test_no_other_name_reaches_the_field_inside(around, name):
    search = around["search"]
    for model in (ConformalField(search).conformalize(HELD, LABELS), calibrate(search, HELD, LABELS)):
        assert getattr(model, name, None) is None
        assert unwrap_pipeline(model, NEW) == (model, NEW)


@pytest.mark.parametrize("wrapper", ["conformal", "annotated", "search"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *[(name, ()) for name in ("predict", "predict_marginals", "predict_entities", "predict_boundaries", "entropy")],
        ("predict_nbest", (3,)),
    ],
)
def test_answers_that_are_passed_on_are_those_of_the_field(around, wrapper, name, arguments):
    model = around[wrapper]
    field = unwrap_field(model, NEW, None)[0]
    assert type(field) is ChainCRF
    assert same(getattr(model, name)(NEW, *arguments), getattr(field, name)(NEW, *arguments))
    assert same(model.sample(NEW, random_state=0), field.sample(NEW, random_state=0))
    assert model.score(HELD, LABELS) == field.score(HELD, LABELS)
    assert model.log_likelihood(HELD, LABELS) == field.log_likelihood(HELD, LABELS)
    assert str(model.explain(NEW[0])) == str(field.explain(NEW[0]))
    assert str(model.weights()) == str(field.weights())
    assert model.coef_ is field.coef_


def test_frames_ask_the_same_of_sequences(chain):
    model, new = FrameCRF(ChainCRF(**LINEAR)).fit(frame_of(X, Y)), frame_of(NEW)
    for name, arguments in (("predict_nbest", (2,)), ("predict_entities", ()), ("entropy", ())):
        assert same(getattr(model, name)(new, *arguments), getattr(chain, name)(NEW, *arguments))
    assert model.log_likelihood(frame_of(HELD, LABELS)) == chain.log_likelihood(HELD, LABELS)
    segments = FrameCRF(SegmentCRF(max_duration=4, **LINEAR)).fit(frame_of(X, Y))
    plain = SegmentCRF(max_duration=4, **LINEAR).fit(X, Y)
    assert segments.predict_segments(new) == plain.predict_segments(NEW)
    with pytest.raises(AttributeError, match="ChainCRF' object has no attribute 'predict_segments'"):
        model.predict_segments(new)


def test_methods_are_there_where_the_estimator_inside_has_them(around):
    for model in (*around.values(), ChainCRFCV(), AnnotatedCRF(), FrameCRF()):
        assert hasattr(model, "predict_nbest")
        assert hasattr(model, "predict_proba") or model is around.get("compat")
        assert not hasattr(model, "predict_segments") or isinstance(model, FrameCRF)
    with pytest.raises(AttributeError, match=r"GraphCRF has no predict_segments|no attribute 'predict_segments'"):
        FieldSearchCV(GraphCRF()).predict_segments(NEW)
    assert hasattr(FieldSearchCV(GraphCRF()), "predict_proba")
    assert hasattr(FieldSearchCV(KernelClassifier()), "predict_proba")
    assert hasattr(FieldSearchCV(make_pipeline(KernelClassifier())), "predict_proba")
    with pytest.raises(NotFittedError):
        ChainCRFCV().predict_nbest(NEW, 2)
    assert not hasattr(ChainCRFCV(), "coef_")


# ---- fields of models


def test_the_field_of_wrappers_in_wrappers_is_found(chain, around):
    table, held = frame_of(X, Y), frame_of(HELD, LABELS)
    searched = FrameCRF(search_of(ChainCRF(**LINEAR))).fit(table)
    field, inputs, labels = unwrap_field(searched, held, None)
    assert type(field) is ChainCRF
    assert len(inputs) == len(labels) == len(HELD)
    grid = GridSearchCV(ChainCRF(**LINEAR), {"prior_variance": [1.0]}, cv=2).fit(X, Y)
    for model in (grid, around["search"], ConformalField(grid).conformalize(HELD, LABELS)):
        assert type(unwrap_field(model, NEW, None)[0]) is ChainCRF
    calibrated = calibrate(grid, HELD, LABELS)
    field, inputs, _ = unwrap_field(calibrated, NEW, None)
    assert type(field) is CalibratedField
    assert inputs is NEW
    assert same(field.predict_marginals(NEW), calibrate(chain, HELD, LABELS).predict_marginals(NEW))


def test_pipelines_inside_are_asked_with_what_they_take():
    pipeline = make_pipeline(WindowFeatures(widths=(3,)), ChainCRF(**LINEAR)).fit(X, Y)
    model = ConformalField(pipeline).conformalize(HELD, LABELS)
    assert same(model.predict_entities(NEW), get_field(pipeline).predict_entities(NEW))
    assert same(model.predict(NEW), pipeline.predict(NEW))


def test_what_is_no_model_has_no_field():
    for wrong in (3, None, "model"):
        assert unwrap_pipeline(wrong, NEW) == (wrong, NEW)
        with pytest.raises(TypeError, match="model must be a fitted estimator of kernelfields"):
            get_field(wrong)


def test_a_search_inside_a_frame_is_asked_by_every_tool():
    table, held = frame_of(X, Y), frame_of(HELD, LABELS)
    plain = FrameCRF(ChainCRF(**LINEAR)).fit(table)
    searched = FrameCRF(search_of(ChainCRF(**LINEAR))).fit(table)
    tools = {
        "calibrate": lambda model: calibrate(model, held, held.label).maps_["positions"].slopes,
        "conformal": lambda model: ConformalField(model).conformalize(held, held.label).thresholds_,
        "rank": lambda model: str(kernelfields.rank_for_labelling(model, held)),
        "errors": lambda model: str(kernelfields.find_label_errors(model, held, None, cv=None)),
        "evaluate": lambda model: str(kernelfields.evaluate(model, held, random_state=0)),
    }
    for tool in tools.values():
        assert same(tool(searched), tool(plain))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_are_wrapped_fields(wrapper):
    assert issubclass(wrapper, WrappedField)


@pytest.mark.parametrize("model", [FieldSearchCV(ChainCRF()), ChainCRFCV()])
def test_a_search_without_labels_says_what_searches_tables(model):
    with pytest.raises(ValueError, match=r"the target y is None; of a table .*FrameCRF\(.*\)\.fit\(table\)"):
        model.fit(frame_of(X, Y))
