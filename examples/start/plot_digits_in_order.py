"""
Digits that count upwards
=========================

Handwritten digits under noise are hard to read one by one. They count upwards
in steps of one or two, and a field that learns this from examples reads them
better: it weighs each picture against its neighbours.
"""

# %%
# Sequences of noisy pictures
# ---------------------------
#
# A sequence has eight pictures, a row of 64 grey values each, and as many
# labels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import ChainCRF, KernelClassifier

digits, random = load_digits(), np.random.default_rng(0)
y = [
    (random.integers(10) + random.integers(1, 3, size=8).cumsum()) % 10
    for _ in range(120)
]
X = [
    np.stack([random.choice(digits.data[digits.target == d]) for d in labels])
    / 16
    for labels in y
]
X = [x + random.normal(scale=0.6, size=x.shape) for x in X]

# %%
# Each alone, and all together
# ----------------------------
#
# :class:`~kernelfields.KernelClassifier` sees one picture at a time;
# :class:`~kernelfields.ChainCRF` has the same kernel and learns which digits
# follow each other.
crf = ChainCRF("rbf", prior_variance=10.0, random_state=0).fit(X[:80], y[:80])
alone = KernelClassifier("rbf", prior_variance=10.0, random_state=0)
alone.fit(np.concatenate(X[:80]), np.concatenate(y[:80]))
right = alone.score(np.concatenate(X[80:]), np.concatenate(y[80:]))
print(f"alone: {right:.2f} of the digits are read correctly")
print(f"together: {crf.score(X[80:], y[80:]):.2f}")

# %%
# The test sequence with the largest difference: the labels of single pictures,
# and those of the field.
gains = [
    np.sum(crf.predict([x])[0] == labels) - np.sum(alone.predict(x) == labels)
    for x, labels in zip(X[80:], y[80:], strict=True)
]
chosen = 80 + int(np.argmax(gains))
readings = {
    "alone": alone.predict(X[chosen]),
    "together": crf.predict([X[chosen]])[0],
}
figure, axes = plt.subplots(1, 8, figsize=(8, 1.9))
for place, axis in enumerate(axes):
    axis.imshow(X[chosen][place].reshape(8, 8), cmap="gray_r")
    axis.set(xticks=[], yticks=[])
    for line, (name, labels) in enumerate(readings.items()):
        right = labels[place] == y[chosen][place]
        colour = "#3d9a50" if right else "#e0651a"
        axis.text(
            3.5,
            9.6 + 2.6 * line,
            labels[place],
            ha="center",
            color=colour,
            size=15,
            weight="bold",
        )
        if not place:
            axis.text(-1.2, 9.6 + 2.6 * line, name, ha="right", size=11)
figure.subplots_adjust(left=0.12, right=0.99, top=1.0, bottom=0.3, wspace=0.08)

# %%
# What was learnt of the order: a digit is followed by the next or the one
# after it.
figure, axis = plt.subplots(figsize=(4, 3.4))
shown = axis.imshow(crf.transitions_, cmap="PuOr_r", vmin=-5, vmax=5)
axis.set(
    xlabel="to",
    ylabel="from",
    xticks=range(10),
    yticks=range(10),
    title="scores of transitions",
)
figure.colorbar(shown)

# %%
# How far the fit can be from the best one, and everything else about it:
print(crf.certificate_)
crf.summary()
