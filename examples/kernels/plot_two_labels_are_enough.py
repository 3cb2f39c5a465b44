"""
Two labels are enough
=====================

Three hundred points, two of them with a label. A plain kernel can only draw a
line between the two. The same kernel, bent to the points without labels by a
function, lets one cost little that is the same along each arm.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.neighbors import kneighbors_graph

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
angle = np.sqrt(random.uniform(0.6, 9.0, size=150)) * np.pi / 2 * 1.1
arm = angle[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) / 3
X = np.vstack([arm, -arm]) + 0.05 * random.normal(size=(300, 2))
y = np.repeat([0, 1], 150)
labelled = [int(angle.argmin()), 150 + int(angle.argmin())]

# %%
# Every point is joined with its nearest neighbours, and a function f costs
# f(X)^T M f(X) more, M = 1000 times the Laplacian of these. That is a kernel
# as well, for new points too (Sindhwani, Niyogi, Belkin 2005).
joined = kneighbors_graph(X, 10).toarray()
joined = np.maximum(joined, joined.T)
root = np.sqrt(joined.sum(axis=1))
cost = 1000.0 * (np.eye(300) - joined / np.outer(root, root))
plain = RBF(4.0)
inner = np.linalg.solve(np.eye(300) + cost @ plain(X), cost)


def bent(A, B):
    return plain(A, B) - plain(A, X) @ inner @ plain(X, B)


kernels = {"RBF": plain, "RBF, bent to all points": bent}
across, up = np.meshgrid(
    np.linspace(-2.1, 2.1, 90), np.linspace(-2.1, 2.1, 90)
)
grid = np.column_stack([across.ravel(), up.ravel()])

figure, panels = plt.subplots(
    1, 2, figsize=(8.5, 4.2), layout="constrained", sharex=True, sharey=True
)
shades = LinearSegmentedColormap.from_list("classes", ["C0", "white", "C1"])
for panel, (name, kernel) in zip(panels, kernels.items(), strict=True):
    classifier = KernelClassifier(
        kernel, prior_variance=1000.0, random_state=0
    ).fit(X[labelled], y[labelled])
    probability = classifier.predict_proba(grid)[:, 1].reshape(across.shape)
    panel.contourf(
        across,
        up,
        probability,
        levels=np.linspace(0, 1, 17),
        cmap=shades,
        alpha=0.8,
    )
    for label, mark in ((0, "o"), (1, "^")):
        panel.scatter(
            *X[y == label].T, s=9, marker=mark, color="0.25", linewidth=0
        )
        place = X[labelled[label]]
        panel.plot(
            *place, mark, ms=13, color=f"C{label}", mec="black", mew=1.5
        )
    right = classifier.score(X, y)
    panel.set(
        title=f"{name}: {100 * right:.0f} % of 300 points right",
        xticks=[],
        yticks=[],
        aspect="equal",
    )
plt.show()
