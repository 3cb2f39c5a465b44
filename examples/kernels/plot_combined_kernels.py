"""
Sums, products and columns
==========================

``Columns`` lets a kernel see some of the inputs only, a sum adds a function
for each part, a product needs both at once. Each row is a problem, each column
a kernel: the one that is made like the problem learns it from fewer points.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF, Columns

plt.style.use("tableau-colorblind10")
random = np.random.default_rng(0)
problems = {
    "stripes": lambda x: np.sin(4 * x[:, 0]),
    "hills": lambda x: np.cos(3 * x[:, 0]) + np.cos(3 * x[:, 1]),
    "chequers": lambda x: np.sin(3 * x[:, 0]) * np.sin(3 * x[:, 1]),
}

# %%
# A product of two RBFs on a column each is an RBF on both; their sum has only
# functions f(first) + g(second).
first, second = Columns(RBF(4.0), 0, 1), Columns(RBF(4.0), 1, 2)
kernels = {
    "first column": first,
    "sum of columns": first + second,
    "product of columns": first * second,
}
across, up = np.meshgrid(np.linspace(-2, 2, 60), np.linspace(-2, 2, 60))
grid = np.column_stack([across.ravel(), up.ravel()])

# %%
# 200 points of each problem, a tenth of them with the wrong label; the share
# is that of the plane that is right.
shades = LinearSegmentedColormap.from_list("classes", ["C0", "white", "C1"])
figure, panels = plt.subplots(
    3, 3, figsize=(7.2, 7.4), layout="constrained", sharex=True, sharey=True
)
for row, (problem, function) in zip(panels, problems.items(), strict=True):
    X = random.uniform(-2, 2, size=(200, 2))
    y = (function(X) > 0) ^ (random.random(200) < 0.1)
    truth = function(grid) > 0
    for panel, kernel in zip(row, kernels.values(), strict=True):
        classifier = KernelClassifier(
            kernel, prior_variance=5.0, random_state=0
        ).fit(X, y)
        probability = classifier.predict_proba(grid)[:, 1].reshape(
            across.shape
        )
        panel.imshow(
            probability,
            extent=(-2, 2, -2, 2),
            origin="lower",
            cmap=shades,
            vmin=0,
            vmax=1,
            alpha=0.85,
        )
        panel.contour(
            across,
            up,
            truth.reshape(across.shape),
            levels=[0.5],
            colors="0.25",
            linewidths=0.9,
        )
        for label, mark in ((False, "o"), (True, "^")):
            panel.scatter(
                *X[y == label].T,
                s=7,
                marker=mark,
                color=f"C{int(label)}",
                edgecolor="white",
                linewidth=0.3,
            )
        panel.set(xticks=[], yticks=[])
        panel.set_xlabel(f"{100 * classifier.score(grid, truth):.0f} % right")
    row[0].set_ylabel(problem, fontsize="large")
for panel, name in zip(panels[0], kernels, strict=True):
    panel.set_title(name)
plt.show()
