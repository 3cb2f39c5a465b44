"""CRFsuite's own loss and marginals at its trained weights are ours: s = 1 / (2 c2)."""

import numpy as np
import pytest

from kernelfields.data.readers import InputReader
from kernelfields.objective.posterior import LogPosterior
from tests.arrays import infer_chains
from tests.samples import chain_datafit, design_of

pycrfsuite = pytest.importorskip("pycrfsuite")

LABELS = ["a", "b", "c"]
C2 = 0.7


def chains_of_words(seed=0, n_sequences=25):
    """Inputs (T, d) of real-valued and binary features, and labels that depend on them and on each other."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        length = int(random.integers(1, 8))
        labels = np.cumsum(random.integers(0, 2, size=length)) % 3
        flags = (random.random((length, 4)) < 0.4).astype(float)
        X.append(np.hstack([flags, random.normal(size=(length, 2)) + labels[:, None]]))
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    X, y = chains_of_words()
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": C2, "feature.possible_states": 1, "feature.possible_transitions": 1})
    for inputs, labels in zip(X, y, strict=True):
        rows = [{f"f{j}": float(value) for j, value in enumerate(row)} for row in inputs]
        trainer.append(rows, [LABELS[label] for label in labels])
    path = str(tmp_path_factory.mktemp("crfsuite") / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return X, y, tagger, trainer.logparser.last_iteration["loss"]


def weights_of(tagger, n_features):
    info = tagger.info()
    node, edge = np.zeros((n_features, 3)), np.zeros((3, 3))
    for (name, label), weight in info.state_features.items():
        node[int(name[1:]), LABELS.index(label)] = weight
    for (left, right), weight in info.transitions.items():
        edge[LABELS.index(left), LABELS.index(right)] = weight
    return node, edge


def test_the_objective_at_its_weights_is_its_loss(trained):
    X, y, tagger, loss = trained
    chains, _ = InputReader().learn(X, y)
    node, edge = weights_of(tagger, X[0].shape[1])
    shared = {"positions": None, "n_labels": 3, "prior_variance": 1.0 / (2.0 * C2)}
    designs = [
        design_of("node", chains.inputs, labels_per_clique=1, **shared),
        design_of("edge", None, labels_per_clique=2, **shared),
    ]
    posterior = LogPosterior(chain_datafit(chains, designs, 3))
    point = posterior.at(posterior.flatten([node, edge]))
    # Its weights are printed with six digits after the point, and it stops short of the optimum.
    assert point.value == pytest.approx(loss, rel=1e-6)
    assert np.linalg.norm(point.gradient) < 1e-2 * abs(loss)


def test_marginals_at_its_weights_are_its_marginals(trained):
    X, _, tagger, _ = trained
    node, edge = weights_of(tagger, X[0].shape[1])
    for inputs in X[:8]:
        tagger.set([{f"f{j}": float(value) for j, value in enumerate(row)} for row in inputs])
        theirs = [[tagger.marginal(label, t) for label in LABELS] for t in range(len(inputs))]
        ours = infer_chains(inputs @ node, edge[None], np.array([0, len(inputs)])).node_marginals
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
