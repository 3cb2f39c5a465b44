"""Section 7 of the paper, what was tried and not built: missing inputs, chains in fits, a semidefinite start, pairs.

    python -m experiments.discussion {missing,chains,relaxation,pairs} ...

*missing*: an RBF kernel marginalised over missing columns, against columns filled in. *chains*: pseudo-moments by
persistent Gibbs chains in fits, against "trw" and "loopy", on snakes and label sets. *relaxation*: starts for clusters
of completed labels: 30 random ones, a semidefinite relaxation, the leading eigenvector of the same matrix, k-means.
*pairs*: pivots on pairs (x, y) against pivots that all labels share, at equal numbers of coefficients, on letters and
phonemes. Each takes 2 to 20 minutes on one core; docs/paper.md has what they printed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

import kernelfields.solvers.choice as choice
from benchmarks.shared_data import multilabel_set, ocr_letters
from experiments import nettalk, snakes
from kernelfields import GraphCRF, GraphFactors, MultiLabelCRF
from kernelfields.inference.approximate.belief_propagation import PropagationFamily
from kernelfields.inference.approximate.gibbs_compiled import sample_sweeps
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.graphs import GraphMember
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.kernels import RBF
from kernelfields.solvers import minimize

# ---- missing inputs


def marginal_kernel(first: np.ndarray, second: np.ndarray, gamma: float) -> np.ndarray:
    """Return E exp(-gamma |x - x'|^2) over missing columns, which are N(0, 1): 1 + 2 gamma v for a variance of v."""
    logs = np.zeros((len(first), len(second)))
    for a, b in zip(first.T[:, :, None], second.T[:, None, :], strict=True):
        widened = 1 + 2 * gamma * (np.isnan(a) * 1.0 + np.isnan(b))
        logs -= gamma * (np.nan_to_num(a) - np.nan_to_num(b)) ** 2 / widened + np.log(widened) / 2
    return np.exp(logs)


def feature_map(kernel: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return features of the training points and of others, from the kernel between them."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > 1e-10 * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    return kernel @ root, asked @ root


FILLED: dict[str, Callable] = {
    "mean": lambda A, B: (np.nan_to_num(A), np.nan_to_num(B)),
    "mean and marks": lambda A, B: tuple(np.hstack([np.nan_to_num(each), np.isnan(each)]) for each in (A, B)),
    "iterative": lambda A, B: (lambda fitted: (fitted.transform(A), fitted.transform(B)))(
        IterativeImputer(random_state=0).fit(A)
    ),
    "marginalised": lambda A, B: (A, B),
}


def missing() -> None:
    for name, load in (("iris", load_iris), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        whole, y = load(return_X_y=True)
        for rate in (0.3, 0.5):
            found: dict[str, list] = {kind: [] for kind in FILLED}
            for seed in range(2):
                random = np.random.default_rng(seed)
                X = np.where(random.random(whole.shape) < rate, np.nan, whole)
                for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
                    scale = StandardScaler().fit(X[train])
                    order = random.permutation(len(train))
                    parts = order[len(train) // 3 :], order[: len(train) // 3]
                    for kind, filled in FILLED.items():
                        inputs = filled(scale.transform(X[train]), scale.transform(X[test]))
                        found[kind].append(_held_out(*inputs, y[train], y[test], parts, X.shape[1]))
            for kind, rows in found.items():
                print(f"missing {name} {rate:g} {kind}: log-likelihood {np.mean(np.concatenate(rows)):.4f}", flush=True)


def _held_out(
    A: np.ndarray, B: np.ndarray, y: np.ndarray, asked: np.ndarray, parts: tuple[np.ndarray, np.ndarray], width: int
) -> np.ndarray:
    """Return log p of the labels asked, kernel scale and prior variance chosen on a third of the training points."""
    chosen, (inner, held) = [], parts
    for gamma in np.array([0.1, 0.3, 1.0, 3.0]) / width:
        kernel = marginal_kernel(A, A, gamma)
        Z, Z_held = feature_map(kernel[np.ix_(inner, inner)], kernel[np.ix_(held, inner)])
        for s in (1.0, 10.0, 100.0):
            chosen.append((_log_chances(Z, y[inner], Z_held, y[held], s).mean(), gamma, s))
    _, gamma, s = max(chosen)
    Z, Z_asked = feature_map(marginal_kernel(A, A, gamma), marginal_kernel(B, A, gamma))
    return _log_chances(Z, y, Z_asked, asked, s)


def _log_chances(Z: np.ndarray, y: Any, Z_asked: Any, asked: Any, s: float) -> np.ndarray:
    fitted = LogisticRegression(C=s, max_iter=500).fit(Z, y)
    chances = fitted.predict_proba(Z_asked)[np.arange(len(asked)), np.searchsorted(fitted.classes_, asked)]
    return np.log(np.maximum(chances, 1e-12))


# ---- chains in fits

N_CHAINS, N_STEPS, RATES = 20, 300, (0.01, 0.03)


class ChainMember(GraphMember):
    """Shares of labels in the chains of a family, where a fit asks for marginals."""

    chains: np.ndarray

    def _table_marginals(self, group: int) -> np.ndarray:
        members, n_labels = self.family.members[group], self.family.n_labels
        shares = np.zeros((len(members), n_labels ** members.shape[1]))
        for labels in self.chains:
            cells = np.ravel_multi_index(tuple(labels[members].T), (n_labels,) * members.shape[1])
            shares[np.arange(len(members)), cells] += 1 / len(self.chains)
        return shares.reshape(len(members), *(n_labels,) * members.shape[1])


def fit_by_chains(build: Callable[[], Any], rate: float) -> Any:
    """Fit by stochastic steps (Adam, averaged over the last third) on moments of chains that are never begun anew."""
    state: dict[str, Any] = {}
    usual = PropagationFamily._member

    def member(family: PropagationFamily, checked: Any, workers: Any) -> GraphMember:
        if "on" not in state:
            return usual(family, checked, workers)
        if "labels" not in state:
            random = np.random.default_rng(0)
            state["labels"] = random.integers(family.n_labels, size=(N_CHAINS, family.n_positions))
            state["states"] = random.integers(2**64, size=(N_CHAINS, family.n_items), dtype=np.uint64)
        arranged, once = family.arrange(checked), np.ones(family.n_items, dtype=np.int64)
        for labels, states in zip(state["labels"], state["states"], strict=True):
            sample_sweeps(0, family.n_items, *arranged, labels, states, once)
        shares = np.stack([(state["labels"] == label).mean(axis=0) for label in range(family.n_labels)], axis=1)
        found = ChainMember(family, checked, np.zeros(family.n_items), shares, workers)
        found.chains = state["labels"]
        return found

    def descend(posterior: Any, rule: Any, *, start: Any = None, **settings: Any) -> Any:
        solution = minimize(posterior, rule, start=start, **{**settings, "max_iter": 3})
        state["on"], theta, sums, kept = True, solution.theta.copy(), [0.0, 0.0], []
        for step in range(1, N_STEPS + 1):
            gradient = posterior.make_point(theta).gradient
            sums = [0.9 * sums[0] + 0.1 * gradient, 0.99 * sums[1] + 0.01 * gradient**2]
            size = rate * min(1.0, 2 * (1 - (step - 1) / N_STEPS))
            theta = theta - size * (sums[0] / (1 - 0.9**step)) / (np.sqrt(sums[1] / (1 - 0.99**step)) + 1e-8)
            if step > N_STEPS * 2 // 3:
                kept.append(theta)
        del state["on"]
        return replace(solution, theta=np.mean(kept, axis=0))

    try:
        PropagationFamily._member, choice.minimize = member, descend
        return build()
    finally:
        PropagationFamily._member, choice.minimize = usual, minimize


def chains() -> None:
    for name, build, score in (*_snake_fields(), *_label_fields()):
        ways = {kind: partial(build, kind) for kind in ("trw", "loopy")}
        if name in ("yeast", "scene"):
            ways["exact"] = partial(build, "table")
        ways |= {f"chains, rate {rate:g}": partial(fit_by_chains, partial(build, "loopy"), rate) for rate in RATES}
        for kind, way in ways.items():
            begin = time.perf_counter()
            fitted = way()
            print(f"chains {name} {kind}: {score(fitted)}, {time.perf_counter() - begin:.0f} s", flush=True)


def _snake_fields() -> list[tuple]:
    (grids, y), (asked, truth) = snakes.read_grids("train"), snakes.read_grids("test")
    fields = []
    for model, kernel in (("plain edges", None), ("directional edges", "linear")):
        X, X_asked = ([snakes.as_graph(codes, model) for codes in some] for some in (grids[:60], asked))
        crf = GraphCRF(
            "linear", edges=GraphFactors(kernel), prior_variance=10.0, tol=1e-2, max_iter=300, random_state=0
        )

        def build(kind: str, crf: GraphCRF = crf, X: list = X) -> GraphCRF:
            return crf.set_params(inference=kind).fit(X, y[:60])

        def score(fitted: GraphCRF, X: list = X_asked) -> str:
            rights = []
            for kind in ("loopy", "trw"):
                found = fitted.set_params(inference=kind, decode="posterior").predict(X)
                rights.append(np.mean(np.concatenate(found) == np.concatenate(truth)))
            return f"cells right {rights[0]:.4f} by loopy marginals, {rights[1]:.4f} by trw"

        fields.append((f"snakes, {model}", build, score))
    return fields


def _label_fields() -> list[tuple]:
    fields = []
    for name in ("yeast", "scene"):
        (X, Y), (X_test, Y_test), _ = multilabel_set(name)
        scale, some = StandardScaler().fit(X), np.random.default_rng(0).permutation(len(X))[:500]
        X, X_test = (scale.transform(each) / np.sqrt(X.shape[1]) for each in (X[some], X_test))
        train, test = (X, Y[some]), (X_test, Y_test)
        settings: dict[str, Any] = {"label_graph": "full", "rank": 100, "prior_variance": 3.0, "random_state": 0}
        crf = MultiLabelCRF(RBF(1.0), decision="hamming", tol=1e-2, max_iter=200, **settings)

        def build(kind: str, crf: MultiLabelCRF = crf, data: tuple = train) -> MultiLabelCRF:
            return crf.set_params(inference=kind).fit(*data)

        def score(fitted: MultiLabelCRF, data: tuple = test) -> str:
            X, Y = data
            fitted.set_params(inference="table")
            likelihood, wrong = fitted.log_likelihood(X, Y) / len(X), np.mean(fitted.predict(X) != Y)
            return f"log-likelihood {likelihood:.4f}, wrong {wrong:.4f}"

        fields.append((name, build, score))
    return fields


# ---- a semidefinite start for clusters


def completed(Z: np.ndarray, y: np.ndarray, s: float) -> tuple[float, np.ndarray]:
    """Return the objective of labels y in -1, 1, and the scores f of its minimiser."""
    weights = LogisticRegression(C=s, max_iter=300, tol=1e-6, fit_intercept=False).fit(Z, y).coef_[0]
    return float(np.logaddexp(0, -y * (Z @ weights)).sum() + weights @ weights / (2 * s)), Z @ weights


def balanced(scores: np.ndarray, share: float) -> np.ndarray:
    """Return labels in -1, 1 with the share of 1 that is known, at the largest scores."""
    labels = -np.ones(len(scores))
    labels[np.argsort(-scores)[: round(share * len(scores))]] = 1
    return labels


def descended(Z: np.ndarray, y: np.ndarray, s: float, share: float) -> tuple[float, np.ndarray]:
    """Complete labels and fit by turns until the objective rests."""
    value, scores = completed(Z, y, s)
    for _ in range(30):
        again = balanced(scores, share)
        lower, moved = completed(Z, again, s)
        if lower >= value - 1e-9:
            break
        value, scores, y = lower, moved, again
    return value, y


def relaxed(matrix: np.ndarray, rank: int, random: np.random.Generator) -> np.ndarray:
    """Return rows of unit length (n, rank) that maximise tr V^T M V, each renewed in turn."""
    rows = random.normal(size=(len(matrix), rank))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    apart = matrix - np.diag(np.diag(matrix))
    for _ in range(200):
        before = rows.copy()
        for i, couplings in enumerate(apart):
            pull = couplings @ rows
            rows[i] = pull / np.linalg.norm(pull)
        if np.abs(rows - before).max() < 1e-6:
            break
    return rows


def relaxation() -> None:
    s = 10.0
    for name, X, truth, gamma in _cluster_sets():
        n, share, random = len(X), truth.mean(), np.random.default_rng(0)
        kernel = RBF(gamma)(X, X)
        values, vectors = np.linalg.eigh(kernel)
        Z = vectors[:, values > 1e-8 * values[-1]] * np.sqrt(values[values > 1e-8 * values[-1]])
        centring = np.eye(n) - 1 / n
        matrix = centring @ kernel @ np.linalg.inv(kernel + 4 / s * np.eye(n)) @ centring

        def semidefinite(matrix: np.ndarray = matrix, random: Any = random, share: float = share) -> list[np.ndarray]:
            rows = relaxed(matrix, 20, random)
            rounded = np.array([balanced(rows @ random.normal(size=20), share) for _ in range(10)])
            return [rounded[np.einsum("ki,ij,kj->k", rounded, matrix, rounded).argmax()]]

        def eigenvector(matrix: np.ndarray = matrix, share: float = share) -> list[np.ndarray]:
            leading = np.linalg.eigh(matrix)[1][:, -1]
            return [balanced(sign * leading, share) for sign in (1, -1)]

        def by_means(X: np.ndarray = X, share: float = share) -> list[np.ndarray]:
            to_first, to_second = KMeans(2, n_init=10, random_state=0).fit(X).transform(X).T
            return [balanced(sign * (to_first - to_second), share) for sign in (1, -1)]

        def by_chance(n: int = n, random: Any = random, share: float = share) -> list[np.ndarray]:
            return [random.permutation(balanced(np.zeros(n), share)) for _ in range(30)]

        starts = {"30 random": by_chance, "semidefinite": semidefinite, "eigenvector": eigenvector, "k-means": by_means}
        for kind, start in starts.items():
            begin = time.perf_counter()
            value, labels = min((descended(Z, each, s, share) for each in start()), key=lambda found: found[0])
            rand, seconds = adjusted_rand_score(truth, labels), time.perf_counter() - begin
            print(f"relaxation {name} {kind}: objective {value:.2f}, Rand {rand:.2f}, {seconds:.1f} s", flush=True)


def _cluster_sets() -> list[tuple]:
    sets = [(f"moons {seed}", *make_moons(160, noise=0.15, random_state=seed), 2.0) for seed in range(4)]
    pairs = {"iris": (load_iris, 1, 2), "wine": (load_wine, 0, 1), "digits": (load_digits, 3, 8)}
    for name, (load, first, second) in {**pairs, "breast cancer": (load_breast_cancer, 0, 1)}.items():
        X, y = load(return_X_y=True)
        some = np.flatnonzero((y == first) | (y == second))
        some = some[np.random.default_rng(0).permutation(len(some))[:200]]
        X = (X[some] - X[some].mean(axis=0)) / (X[some].std(axis=0) + 1e-9)
        sets.append((name, X / np.sqrt(X.shape[1]), (y[some] == second).astype(int), 1.0))
    return sets


# ---- pivots on pairs (x, y)


def shared_pivots(kernel: np.ndarray, rank: int, random: np.random.Generator) -> np.ndarray:
    """Return pivots drawn in proportion to their residual, one at a time."""
    left, factor, chosen = np.diag(kernel).copy(), np.zeros((len(kernel), rank)), []
    while len(chosen) < rank and left.sum() > 1e-9:
        pivot = random.choice(len(left), p=left / left.sum())
        column = (kernel[:, pivot] - factor @ factor[pivot]) / np.sqrt(left[pivot])
        factor[:, len(chosen)] = column
        left = np.maximum(left - column**2, 0)
        left[pivot] = 0
        chosen.append(pivot)
    return np.array(chosen)


def pair_pivots(kernel: np.ndarray, y: np.ndarray, n_labels: int, n_pairs: int, random: Any) -> list[np.ndarray]:
    """Return the pivots of each label: pairs (x_i, y_i) drawn in proportion to their residual in k_x delta."""
    places = [np.flatnonzero(y == label) for label in range(n_labels)]
    left = [kernel[own, own].copy() for own in places]
    factors, chosen = [np.zeros((len(own), 0)) for own in places], [[] for _ in places]
    for _ in range(n_pairs):
        traces = np.array([each.sum() for each in left])
        if traces.sum() < 1e-9:
            break
        label = random.choice(n_labels, p=traces / traces.sum())
        own, residual, factor = places[label], left[label], factors[label]
        i = random.choice(len(own), p=residual / residual.sum())
        column = (kernel[own, own[i]] - factor @ factor[i]) / np.sqrt(residual[i])
        factors[label] = np.column_stack([factor, column])
        left[label] = np.maximum(residual - column**2, 0)
        left[label][i] = 0
        chosen[label].append(own[i])
    return [np.array(each, dtype=int) for each in chosen]


def whitened(kernel: RBF, pivots: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return features of X in the span of pivots, in which the prior is Euclidean."""
    if not len(pivots):
        return np.zeros((len(X), 0))
    root = scipy.linalg.cholesky(kernel(pivots, pivots) + 1e-9 * np.eye(len(pivots)), lower=True)
    return scipy.linalg.solve_triangular(root, kernel(pivots, X), lower=True).T


class LabelFeatures:
    """A chain whose labels have features of their own each; transitions and biases have a prior variance of 3."""

    def __init__(self, Z: list[np.ndarray], y: np.ndarray, offsets: np.ndarray, s: float):
        n_labels, n_weights = len(Z), sum(each.shape[1] for each in Z)
        self.cuts = np.cumsum([each.shape[1] for each in Z])
        observed, steps = np.eye(n_labels)[y], _steps(y, offsets, n_labels)
        prior = 1 / np.concatenate([np.full(n_weights, s), np.full(n_labels * (n_labels + 1), 3.0)])

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            self.theta = theta
            potentials = self.potentials(Z)
            member = ChainFamily(offsets, n_labels, tied=True).distribution(potentials)
            mean, residual = member.mean(), member.marginals() - observed
            value = (
                member.log_partition.sum() - (potentials.node * observed).sum() - (potentials[EDGE][0] * steps).sum()
            )
            slopes = [each.T @ column for each, column in zip(Z, residual.T, strict=True)]
            gradient = np.concatenate([*slopes, (mean[EDGE][0] - steps).ravel(), residual.sum(axis=0)])
            return value + theta @ (prior * theta) / 2, gradient + prior * theta

        start = np.zeros(len(prior))
        self.theta = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 150}).x

    def potentials(self, Z: list[np.ndarray]) -> Potentials:
        *weights, rest = np.split(self.theta, self.cuts)
        square = len(Z) ** 2
        node = np.column_stack([each @ own for each, own in zip(Z, weights, strict=True)]) + rest[square:]
        return Potentials(node, {EDGE: rest[:square].reshape(1, len(Z), len(Z))})

    def score(self, Z: list[np.ndarray], y: np.ndarray, offsets: np.ndarray) -> tuple[float, float]:
        """Return log-likelihood and accuracy for each position."""
        potentials = self.potentials(Z)
        member = ChainFamily(offsets, len(Z), tied=True).distribution(potentials)
        of_labels = potentials.node[np.arange(len(y)), y].sum()
        of_steps = (potentials[EDGE][0] * _steps(y, offsets, len(Z))).sum()
        likelihood = (of_labels + of_steps - member.log_partition.sum()) / len(y)
        return float(likelihood), float(np.mean(member.marginals().argmax(axis=1) == y))


def _steps(y: np.ndarray, offsets: np.ndarray, n_labels: int) -> np.ndarray:
    """Return how often each label follows each."""
    later = np.setdiff1d(np.arange(len(y)), offsets[:-1])
    counts = np.zeros((n_labels, n_labels))
    np.add.at(counts, (y[later - 1], y[later]), 1)
    return counts


def _words(name: str, random: np.random.Generator) -> tuple[RBF, list, list, tuple[int, int]]:
    if name == "letters":
        X, y, _ = ocr_letters()
        order = random.permutation(len(X))
        return RBF(0.02), [X[i].astype(float) for i in order], [list(y[i]) for i in order], (150, 200)
    spellings, labels, common = nettalk.entries("phoneme")
    X = [nettalk.letter_windows(word, 0.8).toarray() for word in spellings]
    order = [*random.permutation(np.flatnonzero(common))[:200], *random.permutation(np.flatnonzero(~common))[:600]]
    return RBF(1.0), [X[i] for i in order], [labels[i] for i in order], (200, 300)


def pairs() -> None:
    for name in ("nettalk", "letters"):
        random = np.random.default_rng(0)
        kernel, X, y, (n_train, n_held) = _words(name, random)
        labels = sorted({label for word in y[:n_train] for label in word})
        ends = np.cumsum([0, n_train, n_held, n_held])
        train, held, test = (_packed(X[a:b], y[a:b], labels) for a, b in pairwise(ends))
        gram = kernel(train[0], train[0])
        for rank in (5, 10, 20):
            own = pair_pivots(gram, train[1], len(labels), rank * len(labels), np.random.default_rng(rank))
            ways = {"shared": [shared_pivots(gram, rank, np.random.default_rng(rank))] * len(labels), "pairs": own}
            if rank == 5:
                as_many = len(np.unique(np.concatenate(own)))
                ways["shared, as many pivots"] = [shared_pivots(gram, as_many, random)] * len(labels)
            for kind, pivots in ways.items():
                Z, Z_held, Z_test = (
                    [whitened(kernel, train[0][each], some[0]) for each in pivots] for some in (train, held, test)
                )
                fits = [LabelFeatures(Z, train[1], train[2], s) for s in (3.0, 30.0)]
                best = max(fits, key=lambda fitted: fitted.score(Z_held, *held[1:])[0])
                likelihood, right = best.score(Z_test, *test[1:])
                count = sum(map(len, pivots))
                print(f"pairs {name} {kind}, {count} coefficients: {likelihood:.4f}, right {right:.4f}", flush=True)


def _packed(X: list, y: list, labels: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return words whose labels were seen in training, end to end."""
    kept = [i for i, word in enumerate(y) if set(word) <= set(labels)]
    numbers = np.concatenate([[labels.index(label) for label in y[i]] for i in kept])
    return np.concatenate([X[i] for i in kept]), numbers, np.cumsum([0, *(len(y[i]) for i in kept)])


PARTS = {"missing": missing, "chains": chains, "relaxation": relaxation, "pairs": pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    warnings.simplefilter("ignore")
    for part in parser.parse_args().parts:
        PARTS[part]()


if __name__ == "__main__":
    main()
