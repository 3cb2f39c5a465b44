"""
Shares of labels are enough
===========================

Someone has marked a few positions that are "in", and none that is "out". A
field fitted to these marks alone predicts "in" everywhere. With the share of
"out" over all positions, it draws the border where it belongs; a share that is
a little wrong does little harm.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, PartialLabels
from kernelfields.estimators import LabelShares

# %%
# A third of the positions is "in"; a fifth of those is marked.
random = np.random.default_rng(0)
truth = [
    np.repeat(random.permutation(["in", "out", "out"]), 4) for _ in range(80)
]
X = [
    np.where(labels == "in", 1.0, -1.0)[:, None] * [1.0, 0.6]
    + 1.1 * random.normal(size=(12, 2))
    for labels in truth
]
y = [
    [
        label if label == "in" and random.random() < 0.2 else None
        for label in labels
    ]
    for labels in truth
]


def fitted(share=None):
    told = [] if share is None else [LabelShares({"out": share})]
    partial = PartialLabels(classes=["in", "out"], expectations=told)
    return ChainCRF(
        "rbf",
        prior_variance=1.0,
        rank=50,
        partial_labels=partial,
        random_state=0,
    ).fit(X, y)


# %%
# Shares that are given, from far too small to far too large.
shares = [0.2, 0.4, 0.55, 2 / 3, 0.8, 0.95]
right = [100 * fitted(share).score(X, truth) for share in shares]
untold, told = fitted(), fitted(2 / 3)

# %%
figure, panels = plt.subplots(
    1, 3, figsize=(9, 3.2), layout="constrained", width_ratios=[1, 1, 1.2]
)
across, up = np.meshgrid(np.linspace(-4, 4, 80), np.linspace(-4, 4, 80))
grid = list(np.column_stack([across.ravel(), up.ravel()])[:, None, :])
points, marked = (
    np.concatenate(X),
    np.array([label is not None for labels in y for label in labels]),
)
for axes, field, name in zip(
    panels,
    (untold, told),
    ("marks alone", "marks and the share"),
    strict=False,
):
    inside = np.array(
        [marginals[0, 0] for marginals in field.predict_marginals(grid)]
    ).reshape(across.shape)
    axes.contourf(
        across,
        up,
        inside,
        levels=np.linspace(0, 1, 11),
        cmap="PuOr_r",
        alpha=0.6,
    )
    axes.scatter(*points[~marked].T, s=4, color="0.45", lw=0)
    axes.scatter(*points[marked].T, s=14, color="#B35806", lw=0.4, ec="white")
    axes.set(
        title=f"{name}: {100 * field.score(X, truth):.0f} %",
        xticks=[],
        yticks=[],
        xlim=(-4, 4),
        ylim=(-4, 4),
    )
panels[2].axvline(2 / 3, color="0.8", lw=1)
panels[2].plot(shares, right, "o-", color="#0072B2")
panels[2].set(
    xlabel='share of "out" that is given', ylabel="right, %", ylim=(30, 100)
)
panels[2].text(0.65, 33, "true share", ha="right", fontsize=9, color="0.5")
panels[2].spines[["top", "right"]].set_visible(False)
