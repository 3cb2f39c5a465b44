"""A few short chains are inferred in NumPy, others by compiled passes: fits and answers are the same."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, NodeCliques

RANDOM = np.random.default_rng(5)
Y = [RANDOM.integers(3, size=n) for n in (7, 1, 4, 7, 12, 2)]
X = [np.eye(3)[labels] + RANDOM.normal(size=(len(labels), 3)) for labels in Y]
TAGS = [
    [
        "B" if i == 0 or label == 0 else "OI"[label - 1] if before != 1 else "O"
        for i, (before, label) in enumerate(zip([1, *y], y, strict=False))
    ]
    for y in Y
]
MODELS = {
    "one table": (ChainCRF(prior_variance=1.0), Y),
    "a table each": (ChainCRF(cliques=[NodeCliques("linear"), EdgeCliques("linear")], prior_variance=1.0), Y),
    "constraints": (ChainCRF(constraints="BIO", prior_variance=1.0, solver="newton"), TAGS),
    "partly known": (
        ChainCRF(prior_variance=1.0),
        [[None if i % 3 == 1 else label for i, label in enumerate(y)] for y in Y],
    ),
}


def answers(model, y):
    model.set_params(random_state=0, tol=1e-8).fit(X, y)
    marginals, pairs = model.predict_marginals(X, cliques="edge")
    return {
        "objective": [model.certificate_.value],
        "marginals": marginals,
        "pairs": pairs,
        "labels": [(model.classes_[:, None] == labels).argmax(axis=0) for labels in model.predict(X, decode="viterbi")],
        "entropies": [model.entropy(X)],
        "samples": [np.asarray(model.sample(X[:2], n_samples=5, random_state=1)[0] == model.classes_[0], float)],
    }


@pytest.mark.parametrize("name", MODELS)
def test_fits_and_answers_are_those_of_compiled_passes(name, monkeypatch):
    model, y = MODELS[name]
    ours = answers(model, y)
    monkeypatch.setattr("kernelfields.inference.chain.family._SHORT_STEPS", 0)
    theirs = answers(model, y)
    for what, values in ours.items():
        for one, other in zip(values, theirs[what], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-6, err_msg=what)
