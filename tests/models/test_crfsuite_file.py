"""Model files of CRFsuite are read as what they are: the field of their weights, or one clear error."""

import itertools
import struct

import numpy as np
import pytest
from crfsuite_bytes import crfsuite_bytes, random_model, random_sequences

import kernelfields
from kernelfields import ChainCRF, ConformalField
from kernelfields.formats import ModelFileError
from kernelfields.models.crfsuite_file import read_crfsuite
from kernelfields.serving import load_chain, to_onnx
from tests.campaigns.fuzzing.campaign import make_case
from tests.campaigns.fuzzing.crfsuite_files import CRFsuiteFiles
from tests.campaigns.fuzzing.verdicts import FAILED, REFUSED, SOUND, judge

LABELS, ATTRIBUTES, STATES, TRANSITIONS = random_model()
CONTENT = crfsuite_bytes(LABELS, ATTRIBUTES, STATES, TRANSITIONS)
X = random_sequences(ATTRIBUTES)


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "model.crfsuite"
    found.write_bytes(CONTENT)
    return found


def score(x, y):
    """The score of a labelling, weight by weight."""
    nodes = sum(
        weight * STATES.get((name, label), 0.0) for row, label in zip(x, y, strict=True) for name, weight in row.items()
    )
    return nodes + sum(TRANSITIONS.get(pair, 0.0) for pair in itertools.pairwise(y))


def test_names_and_weights_are_those_of_the_file():
    model = read_crfsuite(CONTENT)
    assert (model.labels, model.attributes) == (LABELS, ATTRIBUTES)
    found = zip(*(part.tolist() for part in model.states), strict=True)
    assert {(ATTRIBUTES[a], LABELS[b]): weight for a, b, weight in found} == STATES
    found = zip(*(part.tolist() for part in model.transitions), strict=True)
    assert {(LABELS[a], LABELS[b]): weight for a, b, weight in found} == TRANSITIONS


def test_the_field_has_the_probabilities_of_all_labellings(path):
    field = kernelfields.load(path)
    assert type(field) is ChainCRF
    assert field.classes_.tolist() == sorted(LABELS)
    for x, best, marginals, answer in zip(
        X, field.predict(X), field.predict_marginals(X), field.predict_nbest(X, 2), strict=True
    ):
        if len(x) > 4:
            continue
        scores = {y: score(x, y) for y in itertools.product(sorted(LABELS), repeat=len(x))}
        log_z = np.logaddexp.reduce(list(scores.values()))
        assert tuple(best) == max(scores, key=scores.get)
        two = sorted(scores.values(), reverse=True)[:2]
        assert [log for _, log in answer] == pytest.approx([value - log_z for value in two], abs=1e-10)
        for t, label in itertools.product(range(len(x)), range(len(LABELS))):
            own = np.logaddexp.reduce([v for y, v in scores.items() if y[t] == field.classes_[label]]) - log_z
            assert marginals[t][label] == pytest.approx(np.exp(own), abs=1e-12)


def test_the_field_is_kept_served_and_shown_like_any_other(path, tmp_path):
    field = ChainCRF.load(path)
    field.save(tmp_path / "model.kfm")
    twin, served, direct = (
        kernelfields.load(tmp_path / "model.kfm"),
        load_chain(tmp_path / "model.kfm"),
        load_chain(path),
    )
    for other in (twin, served, direct):
        assert other.predict(X) == field.predict(X)
        for ours, theirs in zip(field.predict_marginals(X), other.predict_marginals(X), strict=True):
            np.testing.assert_allclose(theirs, ours, atol=1e-12)
    assert "read from a file of another program" in str(field.summary())
    with pytest.raises(AttributeError, match="no certificate: its weights were read from a file of another program"):
        twin.certificate_  # noqa: B018
    assert twin.n_iter_ == 0


def test_a_model_without_transitions_has_independent_labels(tmp_path):
    path = tmp_path / "model.crfsuite"
    path.write_bytes(crfsuite_bytes(LABELS, ATTRIBUTES, STATES, {}))
    field = kernelfields.load(path)
    alone = field.predict_marginals([[row] for row in X[0]])
    np.testing.assert_allclose(field.predict_marginals(X[:1])[0], np.concatenate(alone), atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "attributes", "states", "words"),
    [
        (["A"], ["w"], {("w", "A"): 1.0}, "it has one label, 'A', and a field has two or more"),
        (["A", "B"], [], {}, "it has no attribute with a weight"),
    ],
)
def test_models_that_no_field_can_be(labels, attributes, states, words, tmp_path):
    path = tmp_path / "model.crfsuite"
    path.write_bytes(crfsuite_bytes(labels, attributes, states, {}))
    with pytest.raises(ModelFileError, match=words):
        kernelfields.load(path)


def put(offset, value):
    """The file with another number at some place."""
    return CONTENT[:offset] + struct.pack("<I", value) + CONTENT[offset + 4 :]


OFFSETS = dict(zip(("FEAT", "labels", "attributes", "LFRF", "AFRF"), struct.unpack("<5I", CONTENT[28:48]), strict=True))
FIRST = OFFSETS["FEAT"] + 12  # the first feature: kind, source, label, weight


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"lCRF", "header is incomplete, 4 of 48 bytes"),
        (b"lCRFfoo" * 100, "version"),
        (CONTENT[:-1], "its header says"),
        (CONTENT + b"\0", "its header says"),
        (put(12, 99), "of version 99"),
        (put(20, 0), "0 labels"),
        (put(20, 2**31), "2147483648 labels"),
        (put(20, 5), "5 labels, and a table of 4 names"),
        (put(24, 2**31), "a table of 12 names"),
        (put(28, len(CONTENT) - 2), "ends after the file"),
        (put(28, 8), "no chunk 'FEAT' at 8"),
        (put(OFFSETS["FEAT"] + 8, 2**32 - 1), "ends after the file"),
        (put(OFFSETS["FEAT"] + 8, 3), "more entries than there are features, 3"),
        (put(FIRST, 7), "a feature does not fit an attribute"),
        (put(FIRST + 4, 3), "a feature does not fit an attribute"),
        (put(FIRST + 8, 200), "the label 200, and there are 4"),
        (put(FIRST + 16, 0x7FF00000), "a weight is not finite"),
        (put(OFFSETS["labels"] + 12, 1), "another byte order"),
        (put(OFFSETS["labels"] + 4, 2**31), "ends after the file"),
        (put(OFFSETS["labels"] + 24 + 2048, 3), "other numbers than their places"),
        (put(OFFSETS["labels"] + 28 + 2048, 2), "does not end where it should"),
        (put(OFFSETS["labels"] + 28 + 2048, 2**31), "longer than the part of the file for names"),
        (put(OFFSETS["attributes"] + 32 + 2048, 0xFFFFFFFF), "not UTF-8"),
        (put(OFFSETS["LFRF"] + 12, 2**31), "leads out of the file"),
        (put(OFFSETS["AFRF"] + 8, 1), "'AFRF' has 1 entries, and 12 are needed"),
        (put(OFFSETS["AFRF"] + 12, struct.unpack("<I", CONTENT[OFFSETS["AFRF"] + 16 :][:4])[0]), "feature"),
    ],
)
def test_damaged_files_are_refused_in_one_line(content, words, tmp_path):
    path = tmp_path / "model.crfsuite"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=words) as error:
        kernelfields.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_other_classes_say_what_opens_it(path):
    with pytest.raises(
        ModelFileError, match=r"a model file of CRFsuite, which holds a ChainCRF: open it with kernelfiel"
    ):
        kernelfields.SegmentCRF.load(path)


def test_files_damaged_at_random_are_refused_or_sound():
    """``python -m tests.campaigns.fuzz --targets crfsuite-models`` runs as many cases as there is time for."""
    target = CRFsuiteFiles()
    target.prepare()
    verdicts = [judge(make_case(target, 0, number)) for number in range(200)]
    assert [each.reason for each in verdicts if each.kind == FAILED] == []
    assert {REFUSED, SOUND} <= {each.kind for each in verdicts}


def test_the_field_answers_everything_that_a_fitted_one_does(tmp_path):
    """Entities, prediction sets and n best labellings; the NumPy reader and ONNX give its labels and marginals."""
    labels = ["O", "B-PER", "I-PER", "B-LOC"]
    _, attributes, states, transitions = random_model()
    named = dict(
        zip(sorted({label for _, label in states} | {a for pair in transitions for a in pair}), labels, strict=True)
    )
    path = tmp_path / "entities.crfsuite"
    path.write_bytes(
        crfsuite_bytes(
            labels,
            attributes,
            {(attribute, named[label]): weight for (attribute, label), weight in states.items()},
            {(named[a], named[b]): weight for (a, b), weight in transitions.items()},
        )
    )
    field = kernelfields.load(path)
    own, marginals = field.predict(X), field.predict_marginals(X)
    place = list(field.classes_).index("B-LOC")  # no label goes on with it
    found = [(entity, table) for row, table in zip(field.predict_entities(X), marginals, strict=True) for entity in row]
    places = [(entity, table) for entity, table in found if entity.label == "LOC"]
    assert places
    for entity, table in places:
        assert entity.probability == pytest.approx(table[entity.begin, place], abs=1e-12)
    for x, ranked in zip(X[:3], field.predict_nbest(X[:3], 3), strict=True):
        for y, log in ranked:
            assert log == pytest.approx(field.log_likelihood([x], [y]), abs=1e-10)
    drawn = field.sample(X, random_state=0)
    sets = ConformalField(field, confidence_level=0.8).conformalize(X, drawn)
    chosen = sets.predict_set(X)
    assert all(
        label in each for y, own_sets in zip(own, chosen, strict=True) for label, each in zip(y, own_sets, strict=True)
    )
    served = load_chain(path)
    for x, y, expected in zip(X, own, marginals, strict=True):
        assert served.predict([x])[0] == y
        np.testing.assert_allclose(served.predict_marginals([x])[0], expected, atol=1e-10)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    to_onnx(field, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    for x, y, expected in zip(X, own, marginals, strict=True):
        answers = dict(
            zip((each.name for each in session.get_outputs()), session.run(None, served.inputs.encode(x)), strict=True)
        )
        assert [str(field.classes_[k]) for k in answers["labels"]] == y
        np.testing.assert_allclose(answers["marginals"], expected, atol=1e-6)
