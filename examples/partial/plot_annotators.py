"""
How reliable annotators are
===========================

Four people label the same sequences; one is careful, one guesses, one never
says "doubt", one mixes two labels up. ``AnnotatedCRF`` estimates this from
their labels alone: its confusion matrices are close to the true ones, and its
consensus is right more often than a vote, and than any of the four.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import AnnotatedCRF, ChainCRF

# %%
# The truth, the readings, and what each annotator makes of the truth.
random = np.random.default_rng(0)
classes = ["doubt", "no", "yes"]
true = {
    "careful": [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]],
    "guessing": [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]],
    "hasty": [[0.0, 0.5, 0.5], [0.0, 0.85, 0.15], [0.0, 0.15, 0.85]],
    "confused": [[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.1, 0.7, 0.2]],
}
X, y = [], []
for _ in range(60):
    state = (
        random.integers(3)
        + np.cumsum((random.random(20) < 0.2) * random.integers(1, 3, 20))
    ) % 3
    X.append(np.eye(3)[state] + 0.9 * random.normal(size=(20, 3)))
    y.append(state)
said = {
    name: [
        [classes[random.choice(3, p=matrix[each])] for each in state]
        for state in y
    ]
    for name, matrix in true.items()
}

# %%
# The fit uses what the annotators said, and nothing else. A vote takes what
# most say, the first in the alphabet if undecided.
model = AnnotatedCRF(ChainCRF("linear", prior_variance=1.0)).fit(X, said)
truth = np.concatenate(y)
codes = np.array(
    [
        [classes.index(label) for labels in said[name] for label in labels]
        for name in true
    ]
)
vote = np.array(
    [np.bincount(column, minlength=3).argmax() for column in codes.T]
)
agreed = np.array(
    [
        classes.index(label)
        for labels in model.consensus(X, said)
        for label in labels
    ]
)
right = {
    name: np.mean(row == truth) for name, row in zip(true, codes, strict=True)
}
right |= {
    "vote": np.mean(vote == truth),
    "consensus": np.mean(agreed == truth),
}

# %%
figure = plt.figure(figsize=(9, 3.3), layout="constrained")
rows = [[*(f"{name} true" for name in true), "bars"], [*true, "bars"]]
places = figure.subplot_mosaic(rows, width_ratios=[1, 1, 1, 1, 2])
for name, matrix in true.items():
    for place, values in (
        (f"{name} true", matrix),
        (name, model.confusions_[name]),
    ):
        places[place].imshow(values, cmap="Blues", vmin=0, vmax=1)
        for row, column in np.ndindex(3, 3):
            share, shade = (
                values[row][column],
                "white" if values[row][column] > 0.5 else "0.2",
            )
            places[place].text(
                column,
                row,
                f"{share:.1f}",
                ha="center",
                va="center",
                fontsize=8,
                color=shade,
            )
        places[place].set(xticks=[], yticks=[])
    places[f"{name} true"].set_title(name, fontsize=10)
places["careful true"].set_ylabel("true")
places["careful"].set_ylabel("found")
places["bars"].barh(
    list(right),
    [100 * share for share in right.values()],
    color=["#BBBBBB"] * 4 + ["#E69F00", "#0072B2"],
)
for row, share in enumerate(right.values()):
    places["bars"].text(
        100 * share - 1,
        row,
        f"{100 * share:.0f}",
        ha="right",
        va="center",
        color="white",
        weight="bold",
    )
places["bars"].set(xlabel="labels right, %", xlim=(0, 100))
places["bars"].invert_yaxis()
places["bars"].spines[["top", "right"]].set_visible(False)
