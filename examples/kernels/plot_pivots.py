"""
Which inputs become the basis
=============================

A fit works in the span of a few training inputs, its pivots. Drawn evenly,
they crowd where the data are dense. Greedy Cholesky takes the input that is
expressed worst, so that pivots are spread evenly; random Cholesky draws inputs
by how much of them is missing, looks at both, and loses least on average.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
angle = 3.5 * np.pi * random.random(600) ** 3 + 1.0
X = angle[:, None] * np.column_stack(
    [np.cos(angle), np.sin(angle)]
) / 4 + 0.05 * random.normal(size=(600, 2))
y = (np.sin(2 * angle) > 0).astype(int)
kernel = RBF(4.0)

# %%
# What pivots leave unexplained of an input x is k(x, x) minus the square of
# its features, which is zero at a pivot.
methods = ["uniform", "random-cholesky", "greedy-cholesky"]
ranks = [5, 10, 20, 30, 40, 60]
left_out, bases = {}, {}
for method in methods:
    for rank in ranks:
        fit = KernelClassifier(
            kernel, basis=method, rank=rank, prior_variance=1.0, random_state=0
        ).fit(X, y)
        features = fit.basis_["node"].features(X)
        left_out.setdefault(method, []).append(
            np.mean(1 - (features**2).sum(axis=1))
        )
        if rank == 30:
            bases[method] = fit.basis_["node"].pivots

# %%
figure, panels = plt.subplots(
    1, 4, figsize=(12, 3.3), layout="constrained", width_ratios=[1, 1, 1, 1.1]
)
for panel, (method, pivots), mark in zip(
    panels, bases.items(), "os^", strict=False
):
    panel.scatter(*X.T, s=5, color="C2")
    panel.plot(*pivots.T, mark, ms=7, color="C1", mec="white")
    panel.set(
        title=f"{method}, 30 pivots", aspect="equal", xticks=[], yticks=[]
    )
for (method, shares), mark in zip(left_out.items(), "os^", strict=True):
    panels[3].semilogy(ranks, shares, f"{mark}-", label=method)
panels[3].set(
    xlabel="pivots",
    ylabel="left out of an input, on average",
    title="how much is lost",
)
panels[3].legend(frameon=False)
plt.show()
