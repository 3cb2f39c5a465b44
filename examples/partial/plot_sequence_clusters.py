"""
Clusters that last
==================

No labels at all. k-means sorts every reading by itself and flickers. A field
that is fitted to its surest labels, and to no others, learns that states last,
and fills in the rest.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, confusion_matrix

from kernelfields import ChainCRF

# %%
# Three hidden states, each lasting about twenty readings of three numbers, of
# which the picture shows two.
random = np.random.default_rng(0)
X, states = [], []
for _ in range(8):
    state = (
        random.integers(3)
        + np.cumsum((random.random(80) < 0.05) * random.integers(1, 3, 80))
    ) % 3
    X.append(1.6 * np.eye(3)[state] + random.normal(size=(80, 3)))
    states.append(state)
readings, truth = np.concatenate(X), np.concatenate(states)

# %%
# A tenth of the readings, those that are much nearer to their own centre than
# to any other, keep the label of k-means; the others have None. Numbers of
# clusters mean nothing: they are renamed to agree with the truth as far as
# they can.
means = KMeans(3, n_init=10, random_state=0).fit(readings)
nearest = np.sort(means.transform(readings), axis=1)
margin = nearest[:, 1] - nearest[:, 0]
sure = np.where(margin > np.quantile(margin, 0.9), means.labels_, None)
field = ChainCRF("rbf", prior_variance=1.0, random_state=0).fit(
    X, np.split(sure, 8)
)
found = {
    "k-means": means.labels_,
    "ChainCRF": np.concatenate(field.predict(X)),
}
for name, labels in found.items():
    found[name] = linear_sum_assignment(-confusion_matrix(labels, truth))[1][
        labels
    ]

# %%
colours = ListedColormap(["#0072B2", "#E69F00", "#009E73"])
figure = plt.figure(figsize=(9, 4.6), layout="constrained")
rows = {"truth": truth} | found
places = figure.subplot_mosaic(
    [list(rows), ["strips"] * 3], height_ratios=[1.5, 1]
)
for name, labels in rows.items():
    places[name].scatter(*readings[:, :2].T, c=labels, cmap=colours, s=7, lw=0)
    score = (
        ""
        if name == "truth"
        else f": agreement {adjusted_rand_score(truth, labels):.2f}"
    )
    places[name].set_title(name + score, fontsize=10)
    places[name].set(xticks=[], yticks=[])
places["strips"].imshow(
    [labels[:160] for labels in rows.values()],
    aspect="auto",
    interpolation="none",
    cmap=colours,
)
places["strips"].hlines([0.5, 1.5], -0.5, 159.5, color="white", lw=5)
places["strips"].axvline(79.5, color="white", lw=3)
places["strips"].set(
    yticks=range(3), yticklabels=rows, xlabel="reading, two sequences"
)
for axes in places.values():
    axes.spines[:].set_visible(False)
