"""
Where a classifier is uncertain
===============================

A fit is confident wherever its function is large, and that reaches well beyond
what it has seen. ``laplace`` puts a Gaussian around the fit; averaged over it,
probabilities are high only near the data, and doubt grows with distance.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
X, y = make_blobs(
    120, centers=[[-2, -1], [0, 2], [2, -1]], cluster_std=0.8, random_state=3
)
classifier = KernelClassifier(
    RBF(0.15), rank=40, prior_variance=30.0, random_state=0
).fit(X, y)

# %%
# ``laplace`` takes the data of the fit. Afterwards ``uncertainty=True``
# averages probabilities over the Gaussian, and ``predict_variances`` has the
# variance of each class's function.
evidence = classifier.laplace(X, y, random_state=0)
across, up = np.meshgrid(np.linspace(-7, 7, 65), np.linspace(-6, 7, 60))
points = np.column_stack([across.ravel(), up.ravel()])
sure = classifier.predict_proba(points).max(axis=1)
doubting = classifier.predict_proba(points, uncertainty=True).max(axis=1)
spread = np.sqrt(classifier.predict_variances(points).mean(axis=1))
print(
    f"log evidence {evidence.value:.1f}; the Gaussian fits where this is near "
    f"1: {classifier.laplace_.rise:.2f}"
)

# %%
titles = (
    "probability, by the fit alone",
    "probability, averaged",
    "deviation of the functions",
)
figure, panels = plt.subplots(
    1, 3, figsize=(10.5, 3.3), layout="constrained", sharex=True, sharey=True
)
for panel, values, title in zip(
    panels, (sure, doubting, spread), titles, strict=True
):
    shares = panel is not panels[2]
    levels = np.linspace(1 / 3, 1, 9) if shares else 9
    filled = panel.contourf(
        across, up, values.reshape(across.shape), levels=levels, cmap="cividis"
    )
    for label, mark in enumerate("o^s"):
        panel.scatter(
            *X[y == label].T,
            s=14,
            marker=mark,
            color="white",
            edgecolor="0.2",
            linewidth=0.5,
        )
    panel.set(title=title, xlabel="first input")
    if panel is not panels[0]:
        bar = figure.colorbar(
            filled, ax=panels[:2] if shares else panel, format="%.1f"
        )
        bar.set_label("of the likeliest class" if shares else "log-odds")
panels[0].set_ylabel("second input")
plt.show()
