"""Sparse linear fields on real sentences (CoNLL-2000 chunking), where the data set is on the machine."""

import itertools

import numpy as np
import pytest

from benchmarks.shared_data import DataMissing, token_columns
from benchmarks.templates import chunking_features
from kernelfields import ChainCRF
from kernelfields.compat.metrics import flat_accuracy_score

C2 = 1.0


def first_sentences(part, count=300):
    rows = token_columns("conll2000", f"{part}.tsv.gz")[:count]
    X = [chunking_features([row[0] for row in each], [row[1] for row in each]) for each in rows]
    return X, [[row[2] for row in each] for each in rows]


@pytest.fixture(scope="module")
def sentences():
    try:
        return first_sentences("train"), first_sentences("test")
    except DataMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def fitted(sentences):
    return ChainCRF("linear", support="observed", prior_variance=1 / (2 * C2), tol=1e-5, random_state=0).fit(
        *sentences[0]
    )


@pytest.mark.slow
def test_the_field_is_that_of_the_pairs_seen(sentences, fitted):
    X, y = sentences[0]
    states = {(f, tag) for x, tags in zip(X, y, strict=True) for row, tag in zip(x, tags, strict=True) for f in row}
    steps = {pair for tags in y for pair in itertools.pairwise(tags)}
    node, edge = fitted.field_.terms
    assert node.pairs.size == len(states)
    assert edge.pairs.size == len(steps)
    assert set(fitted.feature_names_in_) == {feature for feature, _ in states}
    assert fitted.solution_.solver == "sgd+lbfgs", "so many values are worth a stochastic start"
    assert fitted.certificate_.relative_gap <= 1e-5
    assert fitted.certify(X, y).value == pytest.approx(fitted.solution_.value, rel=1e-10)


@pytest.mark.slow
def test_a_stochastic_start_saves_passes_and_changes_nothing(sentences, fitted):
    plain = ChainCRF("linear", support="observed", prior_variance=1 / (2 * C2), tol=1e-5, solver="lbfgs")
    plain.fit(*sentences[0])
    assert fitted.solution_.value == pytest.approx(plain.solution_.value, rel=2e-5)
    assert fitted.solution_.passes < plain.solution_.passes
    one, two = (np.concatenate(each.predict(sentences[1][0])) for each in (plain, fitted))
    assert np.mean(one == two) > 0.999


@pytest.mark.slow
@pytest.mark.parametrize(("c1", "c2"), [(0.0, C2), (0.5, 0.1)], ids=str)
def test_loss_and_labels_are_those_of_crfsuite(sentences, c1, c2, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    (X, y), (unseen, tags) = sentences[0], sentences[1]
    X, y = X[:60], y[:60]
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": c1, "c2": c2, "epsilon": 1e-5, "delta": 0.0, "max_iterations": 400})
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    crf = ChainCRF(
        "linear",
        support="observed",
        l1=c1,
        prior_variance=1 / (2 * c2),
        tol=1e-5,
        max_iter=300,
        random_state=0,
    )
    crf.fit(X, y)
    assert crf.solution_.value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-4)
    assert crf.certificate_.lower_bound <= trainer.logparser.last_iteration["loss"]
    theirs = np.concatenate([tagger.tag(x) for x in unseen])
    assert np.mean(np.concatenate(crf.predict(unseen)) == theirs) > 0.998
    assert flat_accuracy_score(tags, crf.predict(unseen)) > 0.85


@pytest.mark.slow
def test_l1_prunes_most_weights_and_loses_little(sentences, fitted):
    unseen, tags = sentences[1]
    pruned = ChainCRF("linear", support="observed", l1=0.5, prior_variance=5.0, tol=1e-3, max_iter=500)
    pruned.fit(*sentences[0])
    weights = pruned.coef_["node"].data
    assert np.count_nonzero(weights) < 0.2 * len(weights)
    assert pruned.certificate_.relative_gap <= 1e-3
    full = flat_accuracy_score(tags, fitted.predict(unseen))
    assert full > 0.9
    assert flat_accuracy_score(tags, pruned.predict(unseen)) > full - 0.015
