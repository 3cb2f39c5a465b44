"""
One class for a whole sequence
==============================

A digit is read row by row, from top to bottom, as a sequence of eight rows of
pixels. ``SequenceClassifier`` is given only which digit a sequence is; the
hidden states it finds, in colour, are parts of a digit: the top of a 7, its
middle, its foot. Classes with an order of such parts are right more often.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelfields import SequenceClassifier
from kernelfields.kernels import RBF

# %%
# Pictures of four digits; a picture is a sequence of 8 positions with 8
# numbers each.
digits = load_digits()
chosen = np.isin(digits.target, [2, 3, 5, 7])
X, y = digits.images[chosen] / 16.0, digits.target[chosen]
X, X_test, y, y_test = train_test_split(X, y, train_size=120, random_state=0)

# %%
# With one state a class depends on which rows it has; with more, also on their
# order.
right = {}
for n_states in (1, 2, 3):
    model = SequenceClassifier(
        RBF(1.0),
        n_states=n_states,
        rank=50,
        prior_variance=10.0,
        tol=1e-2,
        random_state=0,
    ).fit(list(X), y)
    right[n_states] = 100 * model.score(list(X_test), y_test)
    if n_states == 3:
        shown = [
            next(i for i in range(40 * k, len(y_test)) if y_test[i] == digit)
            for digit in (2, 3, 5, 7)
            for k in (0, 1)
        ]
        states = model.predict_states([X_test[i] for i in shown])

# %%
figure = plt.figure(figsize=(9, 3.4), layout="constrained")
places = figure.subplot_mosaic(
    [["curve", 0, 2, 4, 6], ["curve", 1, 3, 5, 7]],
    width_ratios=[2, 1, 1, 1, 1],
)
places["curve"].plot(list(right), list(right.values()), "o-", color="#0072B2")
places["curve"].set(
    xlabel="hidden states of a class",
    ylabel="digits right, %",
    xticks=list(right),
)
places["curve"].spines[["top", "right"]].set_visible(False)
colours = np.array([[0.0, 0.45, 0.7], [0.9, 0.62, 0.0], [0.0, 0.62, 0.45]])
for place, (index, state) in enumerate(zip(shown, states, strict=True)):
    ink = X_test[index][:, :, None]
    places[place].imshow(
        1.0
        - 0.75 * ink
        - 0.25 * (1 - colours[state % 3])[:, None, :] * (1 - ink)
    )
    places[place].axis("off")
