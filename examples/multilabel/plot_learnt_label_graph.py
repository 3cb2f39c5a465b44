"""
Which labels have to do with each other
=======================================

Eight labels that were made along a graph: some go together, some exclude each
other, most have nothing to do with each other once their neighbours are known.
Correlations join nearly all pairs; ``StructureSearch`` finds the graph, and
one faint edge more.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import MultiLabelCRF
from kernelfields.selection import StructureSearch

plt.style.use("tableau-colorblind10")
random = np.random.default_rng(0)
names = [
    "rain",
    "umbrella",
    "boots",
    "puddles",
    "sun",
    "hat",
    "ice cream",
    "queue",
]
true = {
    (0, 1): 2.5,
    (0, 3): 2.5,
    (2, 3): 2.0,
    (0, 4): -2.5,
    (4, 5): 2.0,
    (4, 6): 2.0,
    (6, 7): 2.5,
}

# %%
# Labels by Gibbs sampling: the log odds of each come from the inputs and from
# the labels that it meets.
X = random.normal(size=(400, 3))
odds = X @ random.normal(size=(3, 8))
Y = random.integers(2, size=(400, 8))
ratios = np.zeros((8, 8))
for (j, k), ratio in true.items():
    ratios[j, k] = ratios[k, j] = ratio
for _ in range(30):
    for label in range(8):
        Y[:, label] = random.random(400) < 1 / (
            1 + np.exp(-odds[:, label] - (Y - 0.5) @ ratios[label])
        )

# %%
# The search adds pairs as long as held-out instances become more likely.
field = MultiLabelCRF("linear", prior_variance=1.0, random_state=0)
search = StructureSearch(field).fit(X, Y)
learnt = {
    tuple(map(int, pair)): float(score)
    for pair, score in search.edge_scores_.items()
}
correlated = np.corrcoef(Y.T)
strongest = sorted(learnt, key=lambda pair: -abs(learnt[pair]))[: len(true)]
print(
    f"{len(learnt)} pairs of 28 were kept; the strongest are those that were "
    f"made: {set(strongest) == set(true)}"
)

# %%
# Thickness is the log odds ratio, or the correlation; dashed where two labels
# exclude each other.
pairs = [(j, k) for j in range(8) for k in range(j + 1, 8)]
graphs = {
    "correlations above 0.1": {
        pair: 6 * correlated[pair]
        for pair in pairs
        if abs(correlated[pair]) > 0.1
    },
    "made": true,
    "learnt": learnt,
}
angles = 2 * np.pi * np.arange(8) / 8 + np.pi / 8
places = np.column_stack([np.cos(angles), np.sin(angles)])
figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for panel, (title, edges) in zip(panels, graphs.items(), strict=True):
    for pair, weight in edges.items():
        style = (
            {"color": "C0", "ls": "-"}
            if weight > 0
            else {"color": "C1", "ls": (0, (2, 1))}
        )
        panel.plot(
            *places[list(pair)].T,
            lw=2 * abs(weight),
            alpha=0.85,
            zorder=0,
            **style,
        )
    panel.scatter(*places.T, s=90, color="0.25")
    for name, place in zip(names, 1.16 * places, strict=True):
        panel.text(
            *place, name, ha="left" if place[0] > 0 else "right", va="center"
        )
    panel.set(
        title=title, xlim=(-1.9, 1.9), ylim=(-1.3, 1.3), xticks=[], yticks=[]
    )
    panel.spines[:].set_visible(False)
plt.show()
