"""
How far a position has to look
==============================

Whether a noisy wave rises or falls cannot be seen from one reading: such a
field is right half of the time. ``window`` lets the kernel see readings on
both sides, and each pair helps less than the one before. Red ticks are
mistakes.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF

# %%
# Waves of changing length, with noise. Labels: does the wave rise or fall?
random = np.random.default_rng(0)


def wave(length):
    phase = np.cumsum(
        random.uniform(0.15, 0.5) * np.exp(0.3 * random.normal(size=length))
    ) + random.uniform(0, 6)
    return (np.sin(phase) + 0.8 * random.normal(size=length))[
        :, None
    ], np.where(np.cos(phase) > 0, "rise", "fall")


X, y = zip(*(wave(80) for _ in range(15)), strict=True)
X_test, y_test = zip(*(wave(80) for _ in range(80)), strict=True)

# %%
# The same field with wider and wider windows.
windows = [1, 3, 5, 9, 15, 25, 41]
fields = [
    ChainCRF(
        "rbf", window=width, prior_variance=3.0, rank=200, random_state=0
    ).fit(X, y)
    for width in windows
]
right = [100 * field.score(X_test, y_test) for field in fields]

# %%
figure = plt.figure(figsize=(9, 3.8), layout="constrained")
places = figure.subplot_mosaic(
    [["curve", "1"], ["curve", "3"], ["curve", "9"]], width_ratios=[1, 1.7]
)
places["curve"].plot(right, "o-", color="#0072B2")
places["curve"].set(
    xlabel="window, readings",
    ylabel="right, %",
    xticks=range(7),
    xticklabels=windows,
)
places["curve"].spines[["top", "right"]].set_visible(False)
for width in (1, 3, 9):
    axes = places[str(width)]
    found = fields[windows.index(width)].predict(X_test[:1])[0]
    axes.bar(
        range(80),
        6.4,
        bottom=-3.2,
        width=1,
        color=np.where(np.array(found) == "rise", "#FBE3B5", "#CDE4F2"),
    )
    axes.plot(X_test[0][:, 0], color="0.25", lw=1.2)
    wrong = np.flatnonzero(np.array(found) != y_test[0])
    axes.plot(
        wrong, np.full(len(wrong), -2.8), "|", color="#D55E00", ms=7, mew=2
    )
    axes.set(
        ylim=(-3.2, 3.2),
        xlim=(-0.5, 79.5),
        xticks=[],
        yticks=[],
        ylabel=f"window {width}",
    )
    axes.spines[:].set_visible(False)
places["9"].set(xticks=range(0, 80, 20), xlabel="time")
