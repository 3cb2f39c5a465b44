"""
Neighbours help to read
=======================

The lower halves of these digits, drawn faintly, are torn off. After a digit d
mostly comes d + 1 or d + 3. Read one by one, many are mistaken; a chain field
learns the rule along with the pictures and puts most of them right. Colour
marks mistakes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import ChainCRF, EdgeCliques, KernelClassifier
from kernelfields.kernels import RBF

# %%
# Half of scikit-learn's pictures is for training strips, the other half for
# test strips.
digits = load_digits()
random = np.random.default_rng(0)
halves = np.array_split(random.permutation(len(digits.target)), 2)


def strip(choice, length=10):
    label = [random.integers(10)]
    while len(label) < length:
        label.append(
            (
                label[-1]
                + random.choice(
                    [1, 3, random.integers(10)], p=[0.5, 0.35, 0.15]
                )
            )
            % 10
        )
    pictures = [
        digits.data[random.choice(choice[digits.target[choice] == each])]
        for each in label
    ]
    return np.array(pictures) / 16.0, np.array(label)


whole, y = zip(*(strip(halves[0]) for _ in range(70)), strict=True)
whole_test, y_test = zip(*(strip(halves[1]) for _ in range(70)), strict=True)
X, X_test = (
    [pictures[:, :32] for pictures in part] for part in (whole, whole_test)
)  # four rows of eight pixels

# %%
# The same kernel, with and without neighbours.
settings = {
    "rank": 200,
    "prior_variance": 30.0,
    "tol": 1e-2,
    "random_state": 0,
}
crf = ChainCRF(
    RBF(0.05), edges=EdgeCliques(prior_variance=1.0), **settings
).fit(X, y)
alone = KernelClassifier(RBF(0.05), **settings).fit(
    np.concatenate(X), np.concatenate(y)
)
right = (
    100 * alone.score(np.concatenate(X_test), np.concatenate(y_test)),
    100 * crf.score(X_test, y_test),
)

# %%
figure, panels = plt.subplots(4, 10, figsize=(9, 4.8), layout="constrained")
ghost = np.repeat([1.0, 0.18], 4)[
    :, None
]  # what was torn off is drawn faintly
for row, labels in enumerate(crf.predict(X_test[:4])):
    single, truth = alone.predict(X_test[row]), y_test[row]
    for t, axes in enumerate(panels[row]):
        axes.imshow(
            ghost * whole_test[row][t].reshape(8, 8),
            cmap="gray_r",
            vmin=0,
            vmax=1.1,
        )
        for place, label in ((0.25, single[t]), (0.75, labels[t])):
            style = (
                {"color": "0.3"}
                if label == truth[t]
                else {"color": "#D55E00", "weight": "bold"}
            )
            axes.text(
                place,
                -0.03,
                label,
                transform=axes.transAxes,
                ha="center",
                va="top",
                fontsize=12,
                **style,
            )
        axes.axis("off")
figure.suptitle(
    f"left: read alone, {right[0]:.0f} % right      right: read in its strip, "
    f"{right[1]:.0f} % right"
)
