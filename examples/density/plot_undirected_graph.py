"""
A density with an undirected graph: neighbours alone share a kernel
====================================================================

A sum of kernels, each of a few coordinates, makes a Markov random field of
the coordinates themselves: those that share no kernel are independent given
the others (Hammersley and Clifford). Here the temperature of noon stands
between those of the morning and of the evening.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ExponentialFamilyDensity
from kernelfields.kernels import RBF, Columns

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
noon = random.uniform(0.1, 0.9, 400)
morning = 0.5 + 0.3 * np.sin(4 * noon) + 0.07 * random.normal(size=400)
evening = 0.2 + 0.6 * noon**2 + 0.07 * random.normal(size=400)
days = np.clip(np.column_stack([morning, noon, evening]), 0.0, 1.0)

# %%
# Two cliques: morning and noon, noon and evening. The kernel is the sum of
# their kernels, and so is the logarithm of the density the sum of a function
# of each clique.
cliques = Columns(RBF(3.0), 0, 2) + Columns(RBF(3.0), 1, 3)
box = [[0.0, 1.0]] * 3
density = ExponentialFamilyDensity(
    cliques, prior_variance=10.0, box=box, rank=60, n_nodes=24
).fit(days)
print(f"the integral is one within {density.log_partition_error_:.0e}")

# %%
# Given the temperature of noon, the odds between two mornings do not depend
# on the evening: the mixed difference of log p is zero, but for rounding.
corners = np.array([[a, 0.4, c] for a in (0.3, 0.8) for c in (0.2, 0.7)])
logs = density.score_samples(corners)
print(f"mixed difference {abs(logs[0] - logs[1] - logs[2] + logs[3]):.0e}")

# %%
# On average over noon, morning and evening do depend on each other.
axis = np.linspace(0, 1, 41)
grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
p = np.exp(density.score_samples(grid.reshape(-1, 3))).reshape(grid.shape[:3])
figure, panels = plt.subplots(
    1, 4, figsize=(12, 3.2), layout="constrained", sharex=True, sharey=True
)
panels[0].contourf(axis, axis, p.mean(axis=1).T, levels=8, cmap="Blues")
panels[0].plot(*days[:, [0, 2]].T, ".", ms=2, color="C1")
panels[0].set(title="all days", xlabel="morning", ylabel="evening")
for panel, at in zip(panels[1:], (8, 20, 32), strict=True):
    panel.contourf(axis, axis, p[:, at].T, levels=8, cmap="Blues")
    panel.set(title=f"given noon = {axis[at]:.1f}", xlabel="morning")
plt.show()
