"""
Two moons, and how far from the best fit
========================================

Left, the probability of one of two classes, as a kernel logistic regression
sees it. Right, what comes with every fit: after each iteration, how much
better than this the best function of all could be. Ten iterations leave
nothing to win.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import make_moons

from kernelfields import KernelClassifier

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
X, y = make_moons(200, noise=0.25, random_state=1)
classifier = KernelClassifier("rbf", prior_variance=10.0, random_state=0).fit(
    X, y
)

# %%
# The objective is convex, so a point and its gradient bound how low it can be
# anywhere. ``certificate_`` is about all functions that the basis spans,
# ``certify`` about all functions of the kernel, whether the basis spans them
# or not.
print(classifier.certificate_)
print(classifier.certify(X, y))

# %%
# ``predict_proba`` on a grid is the picture, and ``solution_.history`` has a
# line for each iteration.
across, up = np.meshgrid(
    np.linspace(-1.9, 2.9, 150), np.linspace(-1.5, 2.0, 110)
)
probability = classifier.predict_proba(
    np.column_stack([across.ravel(), up.ravel()])
)[:, 1].reshape(across.shape)
history = classifier.solution_.history

figure, (plane, course) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=[1.25, 1]
)
shades = LinearSegmentedColormap.from_list("classes", ["C0", "white", "C1"])
filled = plane.contourf(
    across,
    up,
    probability,
    levels=np.linspace(0, 1, 11),
    cmap=shades,
    alpha=0.8,
)
plane.contour(
    across, up, probability, levels=[0.5], colors="0.2", linewidths=1.5
)
for label, mark in ((0, "o"), (1, "^")):
    plane.scatter(
        *X[y == label].T,
        s=22,
        marker=mark,
        color=f"C{label}",
        edgecolor="white",
        linewidth=0.6,
    )
plane.set(
    xlabel="first input",
    ylabel="second input",
    title="probability of the second moon",
)
figure.colorbar(filled, ax=plane, ticks=[0, 0.5, 1])

gaps = [max(each.gap, 1e-13) for each in history]
course.semilogy(range(len(gaps)), gaps, "o-", ms=5)
course.axhline(0.01, color="0.5", ls=":")
course.annotate(
    "a hundredth of a nat", (0, 0.01), (0, -12), textcoords="offset points"
)
course.set(
    xlabel="iteration",
    ylabel="nats above the best, at most",
    title="the gap closes",
)
plt.show()
