"""Small fitted fields of every kind, and their potentials by features: the plain twin of kept expansions."""

from __future__ import annotations

import numpy as np

from kernelfields import ChainCRF, EdgeCliques, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers
from tests.samples import labelled_instances, labelled_sequences

X, Y = labelled_sequences(12)
RINGS = [(x, [(t, (t + 1) % len(x)) for t in range(len(x))]) for x in X if len(x) > 2]
RING_LABELS = [y for y in Y if len(y) > 2]
INSTANCES, INDICATOR = labelled_instances()
QUICK = {"kernel": RBF(0.3), "prior_variance": 3.0, "rank": 12, "tol": 0.05, "random_state": 0}
#: Estimators with kernels of every kind of clique, and what they are fitted to.
FIELDS = {
    "chain": (lambda: ChainCRF(edges=EdgeCliques(RBF(0.1)), **QUICK), X, Y),
    "graph": (lambda: GraphCRF(**QUICK), RINGS, RING_LABELS),
    "several labels": (lambda: MultiLabelCRF(edges=EdgeCliques(RBF(0.3)), **QUICK), INSTANCES, INDICATOR),
    "classifier": (lambda: KernelClassifier(**QUICK), INSTANCES, INDICATOR[:, 0]),
}


def plain_potentials(model, inputs):
    """The potentials by features, z(x)^T V A^T, with a triangular solve for every call."""
    field, data = model._field(), model.structure.read(inputs)
    family = field.family(data)
    potentials = family.zeros()
    for term in field.terms:
        family.arrangement.add_scores(
            potentials, term.placement(data), term.compute_scores(term.features(data), term.known)
        )
    return potentials


def kept_potentials(model, inputs, place=None):
    field, data = model._field(), model.structure.read(inputs)
    return field.potentials(data, field.family(data), Workers(1), place)


def assert_plain(model, inputs=X, tolerance=1e-9, place=None):
    """The kept expansions score as the features do, up to a part of the largest score."""
    for kept, plain in zip(
        kept_potentials(model, inputs, place).arrays, plain_potentials(model, inputs).arrays, strict=True
    ):
        np.testing.assert_allclose(kept, plain, rtol=0, atol=tolerance * np.abs(plain).max())
