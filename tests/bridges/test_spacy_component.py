"""The component of spaCy's pipelines: entities with probabilities, batches, pipelines on disk."""

import pytest
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, TextFeatures, save

spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'kernelfields[spacy]'")
component = pytest.importorskip("kernelfields.bridges.spacy_component")

WORDS = [["Anna", "lives", "in", "Zurich"], ["Ben", "saw", "Anna", "Smith"], ["in", "Oslo", "lives", "Ben"]] * 4
LABELS = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "O", "B-PER", "I-PER"], ["O", "B-LOC", "O", "B-PER"]] * 4
TEXTS = ["Anna lives in Zurich", "Ben saw\n Anna Smith", ""]


@pytest.fixture(scope="module")
def model():
    return make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=10.0)).fit(WORDS, LABELS)


@pytest.fixture
def nlp(model, tmp_path):
    save(model, tmp_path / "names.kfm")
    nlp = spacy.blank("en")
    nlp.add_pipe("kernelfields", config={"model": str(tmp_path / "names.kfm")})
    return nlp


def found(doc):
    return [(ent.text, ent.label_, round(ent._.probability, 6)) for ent in doc.ents]


def test_entities_are_those_of_the_model_with_their_probabilities(nlp, model):
    doc = nlp(TEXTS[1])
    expected = model[-1].predict_entities(model[:-1].transform([["Ben", "saw", "Anna", "Smith"]]))[0]
    assert found(doc) == [
        ("Ben", "PER", round(expected[0].probability, 6)),
        ("Anna Smith", "PER", round(expected[1].probability, 6)),
    ]
    assert doc.spans["kernelfields"].attrs["scores"] == pytest.approx([one.probability for one in expected])


def test_batches_give_what_single_texts_give(nlp):
    assert [found(doc) for doc in nlp.pipe(TEXTS, batch_size=2)] == [found(nlp(text)) for text in TEXTS]


def test_a_pipeline_on_disk_needs_no_other_file(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    before = found(nlp(TEXTS[0]))
    (tmp_path / "names.kfm").unlink()
    assert found(spacy.load(tmp_path / "pipeline")(TEXTS[0])) == before


def test_a_component_without_a_model_is_one_clear_line():
    nlp = spacy.blank("en")
    nlp.add_pipe("kernelfields", config={"model": "nowhere.kfm"})
    with pytest.raises(ValueError, match=r"no model: there is no file nowhere.kfm"):
        nlp("Anna")
    with pytest.raises(ValueError, match="least must be a probability"):
        component.FieldComponent(None, least=2.0)
