"""
One known digit, and the rest follows
=====================================

The digits of a strip count up, with a jump now and then, and the field sees
one of their eight rows of pixels. A single known digit (``known``) changes the
probabilities of the others. Bars are probabilities of the ten digits; the
right one is blue.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF

# %%
# Counting goes on with probability 0.9; else any digit may follow.
digits = load_digits()
random = np.random.default_rng(5)
halves = np.array_split(random.permutation(len(digits.target)), 2)


def strip(choice, length=8):
    steps = np.where(
        random.random(length) < 0.9, 1, random.integers(10, size=length)
    )
    label = (random.integers(10) + np.cumsum(steps)) % 10
    pictures = [
        digits.data[random.choice(choice[digits.target[choice] == each])]
        for each in label
    ]
    return np.array(pictures) / 16.0, label


whole, y = zip(*(strip(halves[0]) for _ in range(80)), strict=True)
whole_test, y_test = zip(*(strip(halves[1]) for _ in range(60)), strict=True)
X, X_test = (
    [pictures[:, 16:24] for pictures in part] for part in (whole, whole_test)
)
edges = EdgeCliques(prior_variance=3.0)
crf = ChainCRF(
    RBF(0.1),
    rank=200,
    prior_variance=10.0,
    edges=edges,
    tol=1e-2,
    random_state=0,
).fit(X, y)

# %%
# In each test strip the digit with the least probable label is given. The
# picture shows where that helped most.
untold = crf.predict_marginals(X_test)
asked = [int(np.argmin(marginals.max(axis=1))) for marginals in untold]
known = [
    [int(y[t]) if t == place else None for t in range(8)]
    for y, place in zip(y_test, asked, strict=True)
]
told = crf.predict_marginals(X_test, known=known)
right = np.array(
    [
        [
            np.sum(m.argmax(axis=1) == y)
            for m, y in zip(each, y_test, strict=True)
        ]
        for each in (untold, told)
    ]
)
shown = int(np.argmax(right[1] - right[0]))

# %%
figure, panels = plt.subplots(
    3, 8, figsize=(9, 4.4), layout="constrained", height_ratios=[1, 1.3, 1.3]
)
ghost = np.array([0.18, 0.18, 1, 0.18, 0.18, 0.18, 0.18, 0.18])[
    :, None
]  # rows that the field does not see
truth = y_test[shown]
for t in range(8):
    panels[0, t].imshow(
        ghost * whole_test[shown][t].reshape(8, 8),
        cmap="gray_r",
        vmin=0,
        vmax=1.1,
    )
    panels[0, t].set_title(
        f"given: {truth[t]}" if t == asked[shown] else f"is {truth[t]}",
        fontsize=9,
        color="0.4",
    )
    panels[0, t].axis("off")
    for axes, marginals in (
        (panels[1, t], untold[shown][t]),
        (panels[2, t], told[shown][t]),
    ):
        colours = [
            "#0072B2" if digit == truth[t] else "#BBBBBB"
            for digit in range(10)
        ]
        axes.barh(range(10), marginals, color=colours, height=0.8)
        axes.set(xlim=(0, 1), xticks=[], yticks=range(10), ylim=(-0.6, 9.6))
        axes.tick_params(length=0, labelsize=6)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
panels[1, 0].set_ylabel(f"none given: {right[0, shown]} of 8")
panels[2, 0].set_ylabel(f"one given: {right[1, shown]} of 8")
mean = right.mean(axis=1)
figure.suptitle(
    f"Right digits of a strip in the mean: {mean[0]:.1f} of 8, with one given "
    f"{mean[1]:.1f}",
    fontsize=11,
)
