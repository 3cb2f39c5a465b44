"""
The probability of a set of labels
==================================

Is a digit even, prime, large, a multiple of three, has it a loop? Of 32 sets
of answers only ten belong to a digit. A field of all five labels has learnt
which; labels on their own spread their mass over sets that cannot be.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import MultiLabelCRF

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
digits = load_digits()
members = {
    "even": "02468",
    "prime": "2357",
    "above 4": "56789",
    "by three": "0369",
    "loop": "0689",
}
answers = np.array(
    [[str(digit) in of for of in members.values()] for digit in range(10)]
).astype(int)
X, Y = (
    digits.data / 16 + 0.35 * random.normal(size=digits.data.shape),
    answers[digits.target],
)
train, test = slice(0, 500), slice(500, 1000)

# %%
# With ``label_graph="none"`` every label is a logistic regression of its own;
# "full" lets all pairs meet.
fields = {
    name: MultiLabelCRF(
        "linear", label_graph=graph, prior_variance=0.1, decision="subset"
    ).fit(X[train], Y[train])
    for name, graph in (
        ("each label alone", "none"),
        ("all labels together", "full"),
    )
}

# %%
# The log-likelihood of a set is that of Y with that set in a row; there are
# few enough sets to ask for all.
sets = np.array(list(product([0, 1], repeat=5)))
possible = (sets[:, None] == answers[None]).all(axis=2).any(axis=1)


def set_probabilities(field, x):
    return np.exp(
        field.log_likelihood(np.tile(x, (32, 1)), sets, per_item=True)
    )


alone, together = (field.predict_joint(X[test]) for field in fields.values())
rescued = (together[0] == Y[test]).all(axis=1) & (alone[0] != Y[test]).any(
    axis=1
)
shown = 500 + int(np.argmax(rescued * together[1]))
figure, panels = plt.subplots(
    1, 3, figsize=(12, 3.8), layout="constrained", width_ratios=[0.7, 1, 1]
)
panels[0].imshow(X[shown].reshape(8, 8), cmap="gray_r")
panels[0].set(title=f"a noisy {digits.target[shown]}", xticks=[], yticks=[])
for panel, (name, field) in zip(panels[1:], fields.items(), strict=True):
    mass = np.mean(
        [set_probabilities(field, x)[possible].sum() for x in X[500:560]]
    )
    print(
        f"{name}: {field.score(X[test], Y[test]):.0%} of sets right, "
        f"{mass:.0%} of the mass on possible ones"
    )
    probabilities = set_probabilities(field, X[shown])
    best = np.argsort(probabilities)[-8:]
    colours = np.where(possible[best], "C0", "C1")
    panel.barh(
        range(8),
        probabilities[best],
        color=colours,
        hatch=["" if each else "//" for each in possible[best]],
    )
    for row, index in enumerate(best):
        digit = np.flatnonzero((answers == sets[index]).all(axis=1))
        words = ", ".join(np.array(list(members))[sets[index] == 1]) or "none"
        panel.annotate(
            f" {words}" + (f" → {digit[0]}" if len(digit) else ""),
            (probabilities[index], row),
            va="center",
        )
    panel.set(
        title=name, xlabel="probability of the set", yticks=[], xlim=(0, 1)
    )
panels[1].set_ylabel("sets; hatched: no digit has it")
plt.show()
