"""
Papers that cite each other
===========================

Three fields of research, 240 papers, four of each field with a label. Words
alone are a weak hint and citations a strong one. A kernel of the graph, whose
values are computed beforehand, and words mixed with those of the papers around
get nearly all right together.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

from kernelfields import KernelClassifier
from kernelfields.kernels import RBF, Columns, Normalized, Precomputed

plt.style.use("tableau-colorblind10")
random = np.random.default_rng(0)
topic = np.repeat([0, 1, 2], 80)
words = 1.2 * np.eye(3)[topic] + random.normal(size=(240, 3))

# %%
# Places are drawn around the centre of a field, and papers cite mostly what is
# near; kernels never see the places.
angle = 2 * np.pi * topic / 3
places = np.column_stack(
    [np.cos(angle), np.sin(angle)]
) + 0.38 * random.normal(size=(240, 2))
apart = np.linalg.norm(places[:, None] - places[None], axis=2)
linked = np.triu(
    random.random((240, 240)) < 0.5 * np.exp(-((apart / 0.3) ** 2)) + 0.001, 1
)
graph = (linked | linked.T).astype(float)
cited = [
    np.flatnonzero((topic == each) & graph.any(axis=1)) for each in range(3)
]
known = np.concatenate(
    [random.choice(papers, 4, replace=False) for papers in cited]
)

# %%
# (Lap + 0.05 I)^-1 with the normalised Laplacian Lap: functions that vary
# little along citations have a small norm. Inputs of a precomputed kernel are
# numbers of rows; ``Columns`` puts them beside the words in one table.
degrees = np.maximum(graph.sum(axis=1), 1.0)
laplacian = np.diag((graph.sum(axis=1) > 0).astype(float)) - graph / np.sqrt(
    np.outer(degrees, degrees)
)
inverse = np.linalg.inv(laplacian + 0.05 * np.eye(240))
near = Precomputed((inverse + inverse.T) / 2)
table = np.hstack([np.arange(240)[:, None], 0.05 * inverse @ words])
kernels = {
    "words alone": (RBF(0.3), words),
    "citations alone": (Normalized(near), table[:, :1]),
    "words and citations": (
        Columns(Normalized(near), 0, 1) + 0.5 * Columns(RBF(0.5), 1),
        table,
    ),
}

figure, panels = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
hidden = np.setdiff1d(np.arange(240), known)
for panel, (name, (kernel, inputs)) in zip(
    panels, kernels.items(), strict=True
):
    classifier = KernelClassifier(
        kernel, prior_variance=10.0, scale=False, random_state=0
    )
    predicted = classifier.fit(inputs[known], topic[known]).predict(inputs)
    panel.add_collection(
        LineCollection(
            places[np.argwhere(linked)], color="0.8", lw=0.6, zorder=0
        )
    )
    for label, (mark, colour) in enumerate(
        (("o", "C0"), ("s", "C1"), ("^", "C2"))
    ):
        here = predicted == label
        wrong = here & (topic != label)
        panel.scatter(
            *places[here].T,
            s=26,
            marker=mark,
            color=colour,
            edgecolor="white",
            linewidth=0.5,
        )
        panel.scatter(
            *places[wrong].T, s=28, marker="x", color="black", linewidth=1.0
        )
    panel.scatter(
        *places[known].T,
        s=130,
        facecolor="none",
        edgecolor="black",
        linewidth=1.6,
    )
    right = np.mean(predicted[hidden] == topic[hidden])
    panel.set(title=f"{name}: {right:.0%} right", xticks=[], yticks=[])
    panel.spines[:].set_visible(False)
panels[0].set_xlabel(
    "circles: labels that are known;  crosses: predictions that are wrong",
    loc="left",
)
plt.show()
