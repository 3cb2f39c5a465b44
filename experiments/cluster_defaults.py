"""Prior variances of FieldClustering on the sets its defaults were settled on, none of which is a set of results.

    python -m experiments.cluster_defaults

Prints the adjusted Rand index of the best of two starts, for prior variances of functions on small tables, and for
those of transitions on drawn Markov chains; the first column is k-means.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from experiments.clusters import standardised
from kernelfields import FieldClustering

VARIANCES = (100.0, 1000.0, 10_000.0)
EDGE_VARIANCES = (1e-6, 10.0, 100.0, 1000.0)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return inputs and classes of small sets of single inputs."""
    known = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
    real = {name: load(return_X_y=True) for name, load in known.items()}
    return {
        **{name: (standardised(X), y) for name, (X, y) in real.items()},
        "six blobs": make_blobs(600, 10, centers=6, cluster_std=4.0, random_state=0),
        "uneven blobs": make_blobs([400, 100, 50], 5, cluster_std=1.5, random_state=2),
        "moons": make_moons(300, noise=0.06, random_state=0),
    }


def markov_chains(
    n_states: int, stay: float, spread: float, n_sequences: int, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return sequences of 60 noisy readings (60, 3) and all states; a state stays or is drawn anew."""
    random = np.random.default_rng(seed)
    centres = spread * random.normal(size=(n_states, 3))
    sequences, states = [], []
    for _ in range(n_sequences):
        state = np.empty(60, dtype=np.int64)
        for t in range(60):
            state[t] = random.integers(n_states) if t == 0 or random.random() > stay else state[t - 1]
        sequences.append(centres[state] + random.normal(size=(60, 3)))
        states.append(state)
    return sequences, np.concatenate(states)


CHAINS = {
    "states that stay": (4, 0.9, 1.0, 20, 0),
    "few changes": (3, 0.95, 2.0, 10, 1),
    "no memory": (4, 0.0, 1.5, 20, 7),
}


def main() -> None:
    """Print a line for each set."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{'':18}k-means  " + "  ".join(f"s={variance:<7g}" for variance in VARIANCES))
    for name, (X, y) in tables().items():
        k = len(np.unique(y))
        found = [FieldClustering(k, prior_variance=s, n_init=2, random_state=0).fit_predict(X) for s in VARIANCES]
        _print(name, y, [KMeans(k, n_init=10, random_state=0).fit_predict(X), *found])
    print(f"\n{'':18}k-means  " + "  ".join(f"s={variance:<7g}" for variance in EDGE_VARIANCES))
    for name, drawn in CHAINS.items():
        sequences, y = markov_chains(*drawn)
        k = drawn[0]
        found = [
            np.concatenate(FieldClustering(k, edge_prior_variance=s, n_init=2, random_state=0).fit_predict(sequences))
            for s in EDGE_VARIANCES
        ]
        _print(name, y, [KMeans(k, n_init=10, random_state=0).fit_predict(np.concatenate(sequences)), *found])


def _print(name: str, y: np.ndarray, partitions: list[np.ndarray]) -> None:
    print(f"{name:18}" + "  ".join(f"{adjusted_rand_score(y, labels):<9.3f}" for labels in partitions), flush=True)


if __name__ == "__main__":
    main()
