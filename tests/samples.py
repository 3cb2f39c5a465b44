"""Small problems for the tests of every folder: potentials, labelled chains and sequences, designs, samples."""

from __future__ import annotations

import numpy as np

from kernelfields.basis import ConstantSubspace, ExplicitSubspace, PivotSubspace
from kernelfields.data import Chains, CliqueSet, resolve_constraints
from kernelfields.engines import SampleSettings, Threads
from kernelfields.inference import EDGE, FamilySpec
from kernelfields.kernels import Constant, Linear
from kernelfields.models.build import build_designs, name_cliques
from kernelfields.numerics import Workers
from kernelfields.objective import Datafit, Term, choose_likelihood
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.pairs import EVERY_PAIR


def make_offsets(lengths):
    """Where sequences of some lengths begin and end, (S + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def on_a_grid(rng, shape, spread=1.0, forbidden=0.0):
    """Potentials on a grid of 1/64: scores add up without rounding, whatever the spread, and ties are exact."""
    potentials = np.round(64 * spread * rng.uniform(-1, 1, size=shape)) / 64
    potentials[rng.random(shape) < forbidden] = -np.inf
    return potentials


def chain_potentials(rng, n_labels, spread=1.0, forbidden=0.0, tied=True, lengths=(1, 2, 6, 3, 5, 4)):
    """Node (N, L) and edge (1 or N, L, L) potentials of chains, and their offsets."""
    offsets = make_offsets(lengths)
    node = on_a_grid(rng, (offsets[-1], n_labels), spread, forbidden)
    edge = on_a_grid(rng, (1 if tied else offsets[-1], n_labels, n_labels), spread, forbidden)
    return node, edge, offsets


def faint_chain(nats, backwards=False):
    """Potentials of one chain whose end decides for a label that was all but lost in its middle.

    Before the middle is scaled to one, the label is a number of few digits, fewer the more ``nats``; after that it
    looks like one of many, and only logarithms know better.
    """
    node = np.array([[0.0, -300.0, -300.0], [-506.0 - nats, 0.0, -253.0], [0.0, -520.0 - nats, -520.0 - nats]])
    edge = np.stack([np.zeros((3, 3)), np.tile([-230.0, -230.0, 0.0], (3, 1)), -600.0 * (1.0 - np.eye(3))])
    if backwards:
        node, edge = node[::-1].copy(), np.concatenate([edge[:1], edge[:0:-1].transpose(0, 2, 1)])
    return node, edge, np.array([0, 3])


def random_chains(lengths=(3, 1, 4, 2), n_labels=3, n_features=2, seed=0, weighted=False):
    """Chains with normal inputs and random labels; every label occurs."""
    random = np.random.default_rng(seed)
    n_positions = sum(lengths)
    labels = random.permutation(np.arange(n_positions) % n_labels)
    weights = random.uniform(0.5, 2.0, len(lengths)) if weighted else None
    return Chains(random.normal(size=(n_positions, n_features)), make_offsets(lengths), labels, weights)


def labelled_sequences(n_sequences=10, n_features=3, n_labels=3, longest=7, seed=0):
    """Sticky labels, and inputs spread around a centre per label: lists of (T, d) and (T,) arrays."""
    random = np.random.default_rng(seed)
    centres = 1.5 * random.normal(size=(n_labels, n_features))
    X, y = [], []
    for index in range(n_sequences):
        length = int(random.integers(2, longest + 1))
        labels = np.empty(length, dtype=np.int64)
        labels[0] = index % n_labels  # so that every label occurs
        for t in range(1, length):
            labels[t] = labels[t - 1] if random.random() < 0.6 else random.integers(n_labels)
        X.append(centres[labels] + random.normal(size=(length, n_features)))
        y.append(labels)
    return X, y


def as_words(labels):
    """The same labels as strings whose sorted order is that of the numbers."""
    return [np.array(["adj", "noun", "verb"])[each] for each in labels]


def labelled_instances(n=80, seed=0):
    """X (n, 3) and Y (n, 4): the second label mostly follows the first, the third mostly excludes the fourth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = (X @ rng.normal(size=(3, 4)) + rng.logistic(size=(n, 4)) > 0).astype(int)
    Y[:, 1] = Y[:, 0] ^ (rng.random(n) < 0.15)
    Y[:, 3] = (1 - Y[:, 2]) ^ (rng.random(n) < 0.2)
    return X, Y


class SomeCliques(CliqueSet):
    """Cliques of any number of labels that only carry a prior: features and positions are given.

    Pairs of labels are neighbours where no other group is named.
    """

    def __init__(self, labels_per_clique=1, group=None, *, prior_variance=1.0, l1=0.0):
        super().__init__(prior_variance=prior_variance, l1=l1)
        self.labels_per_clique = labels_per_clique
        self.group = EDGE if group is None and labels_per_clique == 2 else group


def design_of(
    name,
    features,
    *,
    positions=None,
    labels_per_clique=1,
    n_labels,
    group=None,
    prior_variance=1.0,
    l1=0.0,
    label_factor=None,
    support=None,
    whitened=True,
    origin=None,
):
    """The design of given features (n, r), or of the constant 1 (None), as if a basis had whitened them."""
    if features is None:
        subspace = ConstantSubspace(Constant())
    elif whitened:
        rank = features.shape[1]
        subspace = PivotSubspace(Linear(), np.eye(rank), np.eye(rank), np.arange(rank))
    else:
        subspace = ExplicitSubspace(Linear(), features.shape[1])
    clique = SomeCliques(labels_per_clique, group, prior_variance=prior_variance, l1=l1)
    term = Term(clique, name, subspace, label_factor, support or EVERY_PAIR)
    return LocalDesign.from_features(term, features, n_labels, positions=positions, origin=origin)


def steps_of(chains):
    """Positions that have a predecessor in their chain."""
    return np.flatnonzero(~chains.is_start)


def chain_datafit(chains, designs, n_labels, *, masks=None, workers=None):
    """The datafit of labelled chains whose neighbours meet."""
    masks = resolve_constraints(None, np.arange(n_labels)) if masks is None else masks
    likelihood = choose_likelihood(chains, designs, FamilySpec("chain", n_labels, masks), workers or Workers())
    return Datafit(likelihood, designs)


def chain_sample(chains, n_labels, *, engine=None, masks=None, workers=None, dtype="float64", tol=1e-12):
    """Labelled chains on an engine, this process unless another is given."""
    masks = resolve_constraints(None, np.arange(n_labels)) if masks is None else masks
    settings = SampleSettings(np.dtype(dtype), tol, workers or Workers(1))
    return (engine or Threads()).place(chains, FamilySpec("chain", n_labels, masks), settings)


def designs_on(sample, cliques, seed=0):
    """The clique sets of a field on a sample, each with a basis."""
    return build_designs(name_cliques(cliques), sample, np.random.default_rng(seed))


def potentials_of(crf, chains):
    """Node and edge potentials of a fitted ChainCRF, forbidden ones included."""
    answers = crf.field_.answers(chains, Workers(1))
    potentials = answers.family.with_base(answers.potentials)
    return potentials.node, potentials.edge
