"""
Approximate inference against the truth
=======================================

Marginals of grids of eight by eight, by three approximations and exactly. With
weak edges loopy belief is nearly right. With strong ones mean field and loopy
belief are too sure of themselves, tree-reweighted messages too cautious: the
price of a bound that stays convex.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from kernelfields import GraphCRF, GraphFactors
from kernelfields.data import grid_edges

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
edges = grid_edges(8, 8)


def tile(smooth):
    """Two labels in patches, the larger the smoother, and a noisy number for
    each node.
    """
    labels = (
        gaussian_filter(random.normal(size=(30, 30)), smooth)[:8, :8].ravel()
        > 0
    ).astype(int)
    return (labels[:, None] + 1.5 * random.normal(size=(64, 1)), edges), labels


# %%
# The fit is exact, by junction trees. How to infer may be changed afterwards,
# and then predictions follow.
methods = {
    "mean-field": "mean field",
    "loopy": "loopy belief",
    "trw": "tree-reweighted",
}
figure, panels = plt.subplots(
    2, 3, figsize=(9, 6), layout="constrained", sharex=True, sharey=True
)
for row, (smooth, words) in zip(
    panels, ((0.6, "weak"), (1.5, "strong")), strict=True
):
    X, y = zip(*(tile(smooth) for _ in range(40)), strict=True)
    field = GraphCRF(
        "linear", edges=GraphFactors(symmetric=True), prior_variance=10.0
    ).fit(X, y)
    strength = np.diff(field.edge_scores_["edge"][0])[0]
    X_new, _ = zip(*(tile(smooth) for _ in range(20)), strict=True)
    exact = np.concatenate(field.predict_marginals(X_new))[:, 1]
    for panel, method in zip(row, methods, strict=True):
        rough = np.concatenate(
            field.set_params(inference=method).predict_marginals(X_new)
        )[:, 1]
        panel.plot([0, 1], [0, 1], color="0.6", lw=1)
        panel.plot(exact, rough, ".", ms=4, alpha=0.6)
        panel.annotate(
            f"off by {np.abs(rough - exact).mean():.3f}", (0.04, 0.9)
        )
        panel.set_aspect("equal")
    row[0].set_ylabel(
        f"{words} edges ({-strength:.1f} nats)\napproximate marginal"
    )

# %%
for panel, name in zip(panels[0], methods.values(), strict=True):
    panel.set_title(name)
for panel in panels[1]:
    panel.set_xlabel("exact marginal")
plt.show()
