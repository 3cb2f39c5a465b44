"""
Labellings that mean something
==============================

In BIO labels an ``I-`` must continue an entity of its own kind. A field that
is fitted to few sentences breaks the rule now and then, more often if each
position takes its own most probable label. With ``constraints="bio"`` what is
hatched has probability zero, in fitting and in every answer. F1 hardly changes
here; what changes is that every answer can be read.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF
from kernelfields.evaluation import entity_f1_score

# %%
# Entities of two kinds, up to three positions long, seen through noise.
random = np.random.default_rng(1)
pieces = [
    ["O"],
    ["O"],
    ["B-DAY"],
    ["B-DAY", "I-DAY"],
    ["B-CITY", "I-CITY"],
    ["B-CITY", "I-CITY", "I-CITY"],
]
level = {
    "O": [0, 0],
    "B-DAY": [1, 0.3],
    "I-DAY": [1, -0.3],
    "B-CITY": [0.3, 1],
    "I-CITY": [-0.3, 1],
}


def draw(n_sequences):
    y = [
        [
            label
            for piece in random.integers(6, size=8)
            for label in pieces[piece]
        ]
        for _ in range(n_sequences)
    ]
    return [
        np.array([level[label] for label in labels])
        + 0.6 * random.normal(size=(len(labels), 2))
        for labels in y
    ], y


X, y = draw(15)
X_test, y_test = draw(300)


def broken(labellings):
    """Return the share of labels I- that continue nothing."""
    pairs = [
        (a, b)
        for labels in labellings
        for a, b in zip(["O", *labels], labels, strict=False)
        if b[0] == "I"
    ]
    return np.mean([a[2:] != b[2:] for a, b in pairs])


# %%
# Three ways to label: one by one, the best labelling as a whole, and the best
# one that is allowed.
free, bound = (
    ChainCRF("rbf", prior_variance=10.0, random_state=0, constraints=rule).fit(
        X, y
    )
    for rule in (None, "bio")
)
ways = {
    "one by one": free.predict(X_test, decode="posterior"),
    "as a whole": free.predict(X_test, decode="viterbi"),
    "constrained": bound.predict(X_test),
}

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 3.4), layout="constrained", width_ratios=[1.1, 1]
)
names = free.classes_.tolist()
bars = left.imshow(free.transitions_, cmap="PuOr_r", vmin=-3, vmax=3)
for row, before in enumerate(names):
    for column, after in enumerate(names):
        if after[0] == "I" and before[2:] != after[2:]:
            cell = plt.Rectangle(
                (column - 0.5, row - 0.5),
                1,
                1,
                fill=False,
                hatch="////",
                ec="0.35",
                lw=0,
            )
            left.add_patch(cell)
left.set(
    xticks=range(5),
    yticks=range(5),
    yticklabels=names,
    ylabel="label",
    xlabel="next label",
)
left.set_xticklabels(names, rotation=35, ha="right")
left.set_title("scores learnt; hatched: impossible")
figure.colorbar(bars, ax=left, shrink=0.8)

for place, labellings in enumerate(ways.values()):
    share, f1 = 100 * broken(labellings), entity_f1_score(y_test, labellings)
    right.barh(place, share, color="#0072B2", height=0.6)
    right.annotate(
        f"{share:.1f} %, F1 {f1:.2f}",
        (share, place),
        (4, 0),
        textcoords="offset points",
        va="center",
    )
right.set(
    yticks=range(3),
    yticklabels=ways,
    xlabel="I- labels that continue nothing, %",
)
right.set_xlim(0, 1.6 * right.get_xlim()[1])
right.invert_yaxis()
right.spines[["top", "right"]].set_visible(False)
