"""Seconds to fit the same chains by ChainCRF and, given as graphs, by GraphCRF: same objective, same marginals.

    python -m benchmarks.graph_fit

Sequences of eight labels out of 26 with 32 noisy features each, about as many as a fold of handwritten letters
has, and longer ones with ten labels. Each field is fitted twice and the faster fit counts, with the default solver
and tolerance; both are fitted once more, to 1e-13, to compare objectives and marginals.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.result_files import write_results
from kernelfields import ChainCRF, GraphCRF
from kernelfields.kernels.stationary import RBF


def noisy_chains(n_chains: int, length: int, n_labels: int, n_features: int) -> tuple[list, list]:
    """Sequences whose labels follow each other by chance, and what is seen of them."""
    random = np.random.default_rng(0)
    steps = random.dirichlet(0.3 * np.ones(n_labels), size=n_labels)
    centres = random.normal(size=(n_labels, n_features))
    X, y = [], []
    for _ in range(n_chains):
        labels = [int(random.integers(n_labels))]
        while len(labels) < length:
            labels.append(int(random.choice(n_labels, p=steps[labels[-1]])))
        X.append(centres[labels] + 2.5 * random.normal(size=(length, n_features)))
        y.append(np.array(labels))
    return X, y


def as_graphs(X: list) -> list:
    return [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in X]


def fastest_fit(estimator, X: list, y: list) -> float:
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        estimator.fit(X, y)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def row(name: str, kernel, X: list, y: list, **parameters) -> dict:
    graphs = as_graphs(X)
    chain = ChainCRF(kernel, random_state=0, **parameters)
    graph = GraphCRF(kernel, random_state=0, **parameters)
    chain_seconds, graph_seconds = fastest_fit(chain, X, y), fastest_fit(graph, graphs, y)
    passes = chain.solution_.passes, graph.solution_.passes
    tight = {"solver": "lbfgs", "tol": 1e-13, "max_iter": 5000}
    chain.set_params(**tight).fit(X, y)
    graph.set_params(**tight).fit(graphs, y)
    marginals = [np.vstack(field.predict_marginals(data)) for field, data in ((chain, X), (graph, graphs))]
    return {
        "chains": name,
        "kernel": str(kernel),
        "positions": sum(map(len, X)),
        "labels": len(chain.classes_),
        "method": graph.inference_.method,
        "chain_seconds": chain_seconds,
        "graph_seconds": graph_seconds,
        "times_slower": graph_seconds / chain_seconds,
        "chain_passes": passes[0],
        "graph_passes": passes[1],
        "objective_difference": abs(graph.solution_.value / chain.solution_.value - 1.0),
        "marginal_difference": float(np.abs(marginals[0] - marginals[1]).max()),
    }


def main() -> None:
    letters, speech = noisy_chains(680, 8, 26, 32), noisy_chains(200, 50, 10, 32)
    # The first fit of each estimator compiles.
    fastest_fit(ChainCRF("linear"), letters[0][:20], letters[1][:20])
    fastest_fit(GraphCRF("linear"), as_graphs(letters[0][:20]), letters[1][:20])
    rows = [
        row("680 chains of 8", "linear", *letters),
        row("680 chains of 8", RBF(0.01), *letters, rank=500),
        row("200 chains of 50", "linear", *speech),
        row("200 chains of 50", RBF(0.01), *speech, rank=500),
    ]
    print(f"{'chains':18s} {'kernel':18s} {'ChainCRF s':>10s} {'GraphCRF s':>10s} {'ratio':>6s} passes  differences")
    for each in rows:
        print(
            f"{each['chains']:18s} {each['kernel']:18s} {each['chain_seconds']:10.2f} "
            f"{each['graph_seconds']:10.2f} {each['times_slower']:6.2f} "
            f"{each['chain_passes']:.0f}, {each['graph_passes']:.0f}  "
            f"objective {each['objective_difference']:.1e}, marginals {each['marginal_difference']:.1e}"
        )
    write_results("graph_fit.json", rows)


if __name__ == "__main__":
    main()
