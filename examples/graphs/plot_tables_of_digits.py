"""
Reading tables of digits
========================

Digits of scikit-learn under heavy noise, in tables of four by four where they
grow by one to the right and by two downwards, mostly. One by one, every third
is misread; a field that has learnt the rule reads nine of ten.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import GraphCRF
from kernelfields.data import grid_edges

plt.style.use("tableau-colorblind10")
random = np.random.default_rng(0)
digits = load_digits(n_class=6)
by_digit = [np.flatnonzero(digits.target == each) for each in range(6)]
halves = [[each[::2] for each in by_digit], [each[1::2] for each in by_digit]]
side, edges = 4, grid_edges(4, 4, by_direction=True)


def table(pictures):
    """Labels that grow by one to the right and by two downwards, mostly, and a
    noisy picture of each.
    """
    rows, columns = np.divmod(np.arange(side**2), side)
    labels = (random.integers(6) + columns + 2 * rows) % 6
    labels = np.where(
        random.random(side**2) < 0.1, random.integers(6, size=side**2), labels
    )
    chosen = [random.choice(pictures[label]) for label in labels]
    return digits.data[chosen] / 16 + 0.7 * random.normal(
        size=(side**2, 64)
    ), labels


# %%
# Pictures of the test tables are never in the training tables. Edges to the
# right and edges downwards have a table of scores each; without edges each
# picture is on its own.
train, test = (
    [table(halves[0]) for _ in range(60)],
    [table(halves[1]) for _ in range(60)],
)
predicted = {}
for name, joined in (("one by one", []), ("in the table", edges)):
    field = GraphCRF("linear", prior_variance=0.1).fit(
        [(x, joined) for x, _ in train], [y for _, y in train]
    )
    predicted[name] = np.array(field.predict([(x, joined) for x, _ in test]))
print(field.inference_.description)
truth = np.array([y for _, y in test])
shares = {name: np.mean(labels == truth) for name, labels in predicted.items()}

# %%
# The table that gained most, and the scores: right of a digit comes the next
# one, below it the next but one.
best = int(
    np.argmax(
        (predicted["in the table"] == truth).sum(1)
        - (predicted["one by one"] == truth).sum(1)
    )
)
figure, panels = plt.subplots(
    1,
    4,
    figsize=(12, 3.4),
    layout="constrained",
    width_ratios=[1.2, 1.2, 1, 1],
)
picture = (
    test[best][0]
    .reshape(side, side, 8, 8)
    .transpose(0, 2, 1, 3)
    .reshape(8 * side, 8 * side)
)
for panel, (name, labels) in zip(panels, predicted.items(), strict=False):
    panel.imshow(picture, cmap="gray_r", vmin=-1, vmax=2)
    for node, label in enumerate(labels[best]):
        right = label == truth[best, node]
        style = {
            "color": "white",
            "backgroundcolor": "C0" if right else "C5",
            "fontweight": "bold",
        }
        panel.text(
            8 * (node % side) + 0.3,
            8 * (node // side) + 1.6,
            f"{label}" if right else f"{label}?",
            **style,
        )
    lines = np.arange(7.5, 8 * side - 1, 8)
    panel.set(title=f"{name}: {shares[name]:.0%} right", xticks=[], yticks=[])
    panel.vlines(lines, -0.5, 31.5, color="white")
    panel.hlines(lines, -0.5, 31.5, color="white")
for panel, direction, words in zip(
    panels[2:], edges, ("to the right", "below"), strict=True
):
    scores = field.edge_scores_[direction]
    panel.imshow(
        scores,
        cmap="PuOr_r",
        vmin=-np.abs(scores).max(),
        vmax=np.abs(scores).max(),
    )
    panel.set(
        title=f"scores, {direction}",
        xlabel=f"digit {words}",
        ylabel="digit",
        xticks=range(6),
        yticks=range(6),
    )
plt.show()
