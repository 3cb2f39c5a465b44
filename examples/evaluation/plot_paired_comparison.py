"""
Is the second model better, or lucky?
=====================================

Two models, the same test digits. Their own intervals overlap, and one might
shrug. But digits that are hard for one are mostly hard for the other: the
interval of the difference, from the same resamples, is narrower and excludes
zero.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from kernelfields import KernelClassifier, compare

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
X_train, y_train, X_test, y_test = X[:300], y[:300], X[300:800], y[300:800]

# %%
# ``compare`` takes the true labels and two predictions, one sequence of labels
# for each sample.
predicted = {
    kernel: KernelClassifier(kernel, scale=False, random_state=0)
    .fit(X_train, y_train)
    .predict(X_test)
    for kernel in ("linear", "rbf")
}
first, second = (labels[:, None] for labels in predicted.values())
comparison = compare(y_test[:, None], first, second, random_state=0)
print(comparison)

# %%
# The difference depends on nothing but the digits that one of the two got
# right and the other did not.
right = [labels == y_test for labels in predicted.values()]
alone = [int(np.sum(right[0] & ~right[1])), int(np.sum(right[1] & ~right[0]))]
figure, (own, paired) = plt.subplots(
    1, 2, figsize=(9.5, 2.9), layout="constrained", width_ratios=[1.2, 1]
)
accuracy = comparison.accuracy
for row, figures in enumerate((accuracy.first, accuracy.second)):
    reach = 100 * np.array(
        [[figures.value - figures.low], [figures.high - figures.value]]
    )
    own.errorbar(
        100 * figures.value,
        row,
        xerr=reach,
        fmt="o",
        ms=9,
        capsize=4,
        lw=2,
        color=f"C{row}",
    )
own.set(
    title="each on its own",
    xlabel="right, per cent",
    yticks=[0, 1],
    yticklabels=predicted,
    ylim=(-0.6, 1.6),
)
gain = accuracy.difference
reach = 100 * np.array([[gain.value - gain.low], [gain.high - gain.value]])
paired.axvline(0, color="0.6", ls=":")
paired.errorbar(
    100 * gain.value, 0, xerr=reach, fmt="D", ms=9, capsize=4, lw=2, color="C5"
)
paired.set(
    title="the difference, paired",
    xlabel="rbf minus linear, per cent",
    yticks=[],
    ylim=(-0.6, 1.0),
)
counts = f"only linear right: {alone[0]}\nonly rbf right: {alone[1]}"
paired.annotate(counts, (0.98, 0.8), xycoords="axes fraction", ha="right")
plt.show()
