"""
Iris petals: a density in the plane, and draws from it
======================================================

The lengths and widths of 150 petals, the density that an exponential family
makes of them, and 150 petals that never grew, drawn from it by rejection. The
number of species is not given; the density has the gap between them all the
same.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from kernelfields import ExponentialFamilyDensity
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
iris = load_iris()
petals = iris.data[:, 2:]

# %%
# The kernel sees the box as the unit square. Far from the data the density
# falls back to the base measure, here normal distributions with the deviations
# of the sample.
box = [[0.0, 8.0], [0.0, 3.0]]
density = ExponentialFamilyDensity(
    RBF(15.0), prior_variance=20.0, base_measure="gaussian", box=box, rank=60
)
density.fit(petals)
print(
    f"the integral is one within {density.log_partition_error_:.0e}; "
    f"{density.certificate_}"
)

# %%
# ``expectation`` integrates any function of the points: here, how probable a
# petal longer than 6 cm is.
long = density.expectation(lambda points: points[:, 0] > 6)
print(
    f"longer than 6 cm: probability {long:.3f}, of those measured "
    f"{np.mean(petals[:, 0] > 6):.3f}"
)

# %%
# Points of the box are kept with a probability in proportion to their density.
# What is kept is drawn from it.
random = np.random.default_rng(0)
points = random.uniform(*np.transpose(box), size=(20_000, 2))
logs = density.score_samples(points)
kept = np.log(random.random(len(points))) < logs - logs.max()
drawn = points[kept][:150]

# %%
lengths, widths = np.meshgrid(
    np.linspace(*box[0], 140), np.linspace(*box[1], 100)
)
logs = density.score_samples(
    np.column_stack([lengths.ravel(), widths.ravel()])
).reshape(lengths.shape)
figure, panels = plt.subplots(
    1, 2, figsize=(9.5, 3.8), layout="constrained", sharex=True, sharey=True
)
for panel, title in zip(
    panels,
    ("150 petals that were measured", "150 petals that were drawn"),
    strict=True,
):
    levels = np.arange(-9, logs.max() + 1)
    filled = panel.contourf(
        lengths, widths, logs, levels=levels, cmap="Blues", extend="min"
    )
    panel.set(title=title, xlabel="petal length, cm")
for species, mark in enumerate("o^s"):
    panels[0].plot(
        *petals[iris.target == species].T,
        mark,
        ms=5,
        color="C1",
        mec="white",
        mew=0.6,
    )
panels[1].plot(*drawn.T, "D", ms=4, color="C5", mec="white", mew=0.6)
panels[0].set_ylabel("petal width, cm")
panels[0].legend(list(iris.target_names), frameon=False, loc="upper left")
figure.colorbar(filled, ax=panels, label="log density")
plt.show()
