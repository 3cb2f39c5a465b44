"""
A report to send to somebody
============================

One HTML file with everything about a fitted field: what it is, how well it
does, with intervals, what it has learnt, and examples. It needs no network and
no scripts. Below are some of its pictures, drawn into axes of one's own.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import GraphCRF, evaluate
from kernelfields.reports import (
    plot_convergence,
    plot_heat_map,
    plot_reliability,
    report_page,
)

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
kinds = np.array(["leaf", "stem", "root"])


def plant():
    """A random tree: parts mostly go on as they began; two noisy measurements
    depend on them.
    """
    parents = [
        int(random.integers(max(0, child - 4), child))
        for child in range(1, 15)
    ]
    labels = [1]
    for parent in parents:
        labels.append(
            labels[parent]
            if random.random() < 0.75
            else int(random.integers(3))
        )
    seen = np.array([[0.0, 1.5], [1.0, 0.0], [-1.0, 0.0]])[
        labels
    ] + random.normal(size=(15, 2))
    return (seen, np.column_stack([parents, range(1, 15)])), kinds[labels]


X, y = zip(*(plant() for _ in range(120)), strict=True)
field = GraphCRF("rbf", prior_variance=1.0, rank=60, random_state=0).fit(
    X[:80], y[:80]
)

# %%
# ``evaluate`` has the figures, ``summary`` and ``weights`` the field, ``show``
# a graph with its labels.
evaluation = evaluate(field, X[80:], y[80:], n_resamples=200, random_state=0)
document = report_page(
    "Parts of plants",
    model=field.summary(),
    evaluation=evaluation,
    sequences=[field.show(X[number], y[number]) for number in (80, 81)],
)
Path("plants.html").write_text(document, encoding="utf-8")
print(evaluation)

# %%
# The same pictures go into any figure. Next to them, the expected shares of
# labels of parents and children.
_, pairs = field.predict_marginals(X[80:], cliques="edge")
steps = np.concatenate(pairs).sum(axis=0)
figure = plt.figure(figsize=(13, 5), layout="constrained")
left, middle, right = figure.subfigures(1, 3, width_ratios=[1.3, 1.2, 0.9])
plot_convergence(field, ax=left.subplots(2, 1, sharex=True))
plot_reliability(evaluation, ax=middle.subplots())
shares = steps / steps.sum(axis=1, keepdims=True)
plot_heat_map(
    shares,
    field.classes_,
    field.classes_,
    ax=right.subplots(),
    row_name="parent",
    column_name="child",
)
plt.show()
