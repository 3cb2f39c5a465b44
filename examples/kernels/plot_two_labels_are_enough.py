"""
Two labels are enough
=====================

Three hundred points, two of them with a label. A plain kernel can only draw a line between the two. ``Manifold`` bends
the same kernel to the points without labels, and a function then costs little if it is the same along each arm.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF, Manifold

plt.style.use(["tableau-colorblind10", {"axes.spines.top": False, "axes.spines.right": False}])
random = np.random.default_rng(0)
angle = np.sqrt(random.uniform(0.6, 9.0, size=150)) * np.pi / 2 * 1.1
arm = angle[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) / 3
X = np.vstack([arm, -arm]) + 0.05 * random.normal(size=(300, 2))
y = np.repeat([0, 1], 150)
labelled = [int(angle.argmin()), 150 + int(angle.argmin())]

# %%
# The kernel joins every point with its nearest neighbours and lets a function cost more where neighbours differ. It is
# a kernel like any other: the fit stays convex, and new points are classified as always.
kernels = {"RBF": RBF(4.0), "Manifold(RBF)": Manifold(RBF(4.0), X, n_neighbors=10, strength=1000.0)}
across, up = np.meshgrid(np.linspace(-2.1, 2.1, 90), np.linspace(-2.1, 2.1, 90))
grid = np.column_stack([across.ravel(), up.ravel()])

figure, panels = plt.subplots(1, 2, figsize=(8.5, 4.2), layout="constrained", sharex=True, sharey=True)
shades = LinearSegmentedColormap.from_list("classes", ["C0", "white", "C1"])
for panel, (name, kernel) in zip(panels, kernels.items(), strict=True):
    classifier = KernelClassifier(kernel, prior_variance=1000.0, random_state=0).fit(X[labelled], y[labelled])
    probability = classifier.predict_proba(grid)[:, 1].reshape(across.shape)
    panel.contourf(across, up, probability, levels=np.linspace(0, 1, 17), cmap=shades, alpha=0.8)
    for label, mark in ((0, "o"), (1, "^")):
        panel.scatter(*X[y == label].T, s=9, marker=mark, color="0.25", linewidth=0)
        place = X[labelled[label]]
        panel.plot(*place, mark, ms=13, color=f"C{label}", mec="black", mew=1.5)
    right = classifier.score(X, y)
    panel.set(title=f"{name}: {100 * right:.0f} % of 300 points right", xticks=[], yticks=[], aspect="equal")
plt.show()
