"""
The five best readings
======================

``predict_nbest`` ranks whole readings of a strip, with their probabilities.
They differ where the picture is hard to read, and where the rule of the strip,
that digits count up by one or two, allows more than one way through.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF

# %%
# Strips whose digits go up by one or two at each step; the lower halves of the
# pictures are torn off.
digits = load_digits()
random = np.random.default_rng(1)
halves = np.array_split(random.permutation(len(digits.target)), 2)


def strip(choice, length=8):
    label = (
        random.integers(10) + np.cumsum(random.integers(1, 3, length))
    ) % 10
    pictures = [
        digits.data[random.choice(choice[digits.target[choice] == each])]
        for each in label
    ]
    return np.array(pictures) / 16.0, label


whole, y = zip(*(strip(halves[0]) for _ in range(80)), strict=True)
whole_test, y_test = zip(*(strip(halves[1]) for _ in range(200)), strict=True)
X, X_test = (
    [pictures[:, :32] for pictures in part] for part in (whole, whole_test)
)
edges = EdgeCliques(prior_variance=1.0)
crf = ChainCRF(
    RBF(0.05),
    rank=200,
    prior_variance=30.0,
    edges=edges,
    tol=1e-2,
    random_state=0,
).fit(X, y)

# %%
# How often is the right reading among the first k? And what do the five best
# of an unsure strip look like?
ranked = crf.predict_nbest(X_test, 10)
hits = [
    [np.array_equal(labels, truth) for labels, _ in best]
    for best, truth in zip(ranked, y_test, strict=True)
]
among = 100 * np.maximum.accumulate(hits, axis=1).mean(axis=0)
shown = next(
    i for i, each in enumerate(hits) if each[2]
)  # the right reading is the third of its list

# %%
figure = plt.figure(figsize=(9, 3.6), layout="constrained")
rows = [["curve", *range(8)], ["curve", *["list"] * 8]]
places = figure.subplot_mosaic(
    rows, width_ratios=[3.2, *[1] * 8], height_ratios=[1, 3]
)
places["curve"].plot(range(1, 11), among, "o-", color="#0072B2")
places["curve"].set(
    xlabel="readings in the list",
    ylabel="strips with the right one in it, %",
    xticks=[1, 3, 5, 10],
)
places["curve"].spines[["top", "right"]].set_visible(False)
ghost = np.repeat([1.0, 0.18], 4)[
    :, None
]  # what was torn off is drawn faintly
for t in range(8):
    places[t].imshow(
        ghost * whole_test[shown][t].reshape(8, 8),
        cmap="gray_r",
        vmin=0,
        vmax=1.1,
    )
    places[t].axis("off")
table = places["list"]
for rank, (labels, score) in enumerate(ranked[shown][:5]):
    right = hits[shown][rank]
    for t, label in enumerate(labels):
        other = label != ranked[shown][0][0][t]
        style = (
            {"color": "#D55E00", "weight": "bold"}
            if other
            else {"color": "0.3"}
        )
        table.text(
            t + 0.5,
            -rank,
            label,
            ha="center",
            va="center",
            fontsize=15,
            **style,
        )
    table.text(
        8.0,
        -rank,
        f"{np.exp(score):.2f}" + (" ✓" if right else ""),
        ha="left",
        va="center",
        fontsize=10,
    )
table.set(xlim=(0, 8), ylim=(-4.6, 0.6))
table.axis("off")
