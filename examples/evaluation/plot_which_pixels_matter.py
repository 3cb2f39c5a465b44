"""
Which pixels matter
===================

A kernel has no weights to look at. The loss when one pixel is shuffled among
all test digits shows which pixels a classifier depends on: the middle of the
strokes by which digits differ, and never the margins.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from kernelfields import KernelClassifier

plt.style.use("tableau-colorblind10")
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)

# %%
# Two classifiers: one for all ten digits, one that only has to separate 3 from
# 8.
figure, panels = plt.subplots(2, 2, figsize=(7, 6.6), layout="constrained")
for row, (wanted, title) in zip(
    panels,
    ((range(10), "all ten digits"), ((3, 8), "3 against 8")),
    strict=True,
):
    chosen = np.isin(y, wanted)
    X_here, y_here = X[chosen], y[chosen]
    half = min(len(X_here) // 2, 400)
    classifier = KernelClassifier(
        "rbf", prior_variance=10.0, rank=80, scale=False, random_state=0
    )
    classifier.fit(X_here[:half], y_here[:half])
    X_test, y_test = X_here[half : 2 * half], y_here[half : 2 * half]
    before, lost = classifier.log_likelihood(X_test, y_test), np.zeros(64)
    for pixel in range(64):
        shuffled = X_test.copy()
        shuffled[:, pixel] = np.random.default_rng(0).permutation(
            shuffled[:, pixel]
        )
        lost[pixel] = (
            before - classifier.log_likelihood(shuffled, y_test)
        ) / len(y_test)
    row[0].imshow(X_test.std(axis=0).reshape(8, 8), cmap="gray_r")
    row[0].set(title="how much a pixel varies", ylabel=title)
    shown = row[1].imshow(
        1000 * lost.reshape(8, 8),
        cmap="PuOr_r",
        vmin=-1000 * lost.max(),
        vmax=1000 * lost.max(),
    )
    row[1].set_title("what is lost without it")
    figure.colorbar(shown, ax=row[1], label="millinats of a label")
    for panel in row:
        panel.set(xticks=[], yticks=[])
plt.show()
