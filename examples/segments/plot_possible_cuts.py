"""
All the ways to cut a song
==========================

One recording, and a hundred segmentations drawn from the distribution of a
``SegmentCRF``. Where all rows agree the segmentation is certain; where borders
scatter the order is certain, but not the time.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from kernelfields import SegmentCRF

# %%
# Songs of verses, choruses and a bridge; loudness and brightness are noisy.
random = np.random.default_rng(2)
parts = ["bridge", "chorus", "verse"]
plan = ["verse", "chorus", "verse", "chorus", "bridge", "chorus"]
sound = {"verse": [0.0, 0.0], "chorus": [0.9, 0.3], "bridge": [0.3, 1.0]}
lasts = {"verse": 16, "chorus": 8, "bridge": 12}


def song():
    labels = [
        part
        for part in plan
        for _ in range(lasts[part] + random.integers(-2, 3))
    ]
    return np.array([sound[part] for part in labels]) + 0.85 * random.normal(
        size=(len(labels), 2)
    ), labels


X, y = zip(*(song() for _ in range(31)), strict=True)
crf = SegmentCRF("rbf", prior_variance=1.0, rank=50, random_state=0).fit(
    X[:30], y[:30]
)

# %%
# Draws, sorted by where they change first.
draws = np.array(
    [
        [parts.index(part) for part in labels]
        for labels in crf.sample(X[30:], n_samples=100, random_state=0)[0]
    ]
)
draws = draws[np.lexsort(draws.T[::-1])]
best = crf.predict_segments(X[30:])[0]
colours = ["#009E73", "#D55E00", "#56B4E9"]

figure, (above, below) = plt.subplots(
    2,
    1,
    figsize=(9, 4.2),
    layout="constrained",
    sharex=True,
    height_ratios=[1, 5],
)
for row, labels in enumerate((y[30], crf.predict(X[30:])[0])):
    above.bar(
        range(len(labels)),
        0.8,
        bottom=-row - 0.4,
        width=1.0,
        color=[colours[parts.index(each)] for each in labels],
    )
for begin, end, part, sure in best:
    above.text(
        (begin + end - 1) / 2,
        -1,
        f"{part} {sure:.2f}",
        ha="center",
        va="center",
        color="white",
        fontsize=8,
    )
above.set(yticks=[0, -1], yticklabels=["truth", "best"], ylim=(-1.5, 0.5))
below.imshow(
    draws, aspect="auto", interpolation="none", cmap=ListedColormap(colours)
)
below.set(xlabel="bar", ylabel="draws", yticks=[])
for axes in (above, below):
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
