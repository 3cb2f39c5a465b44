"""
Activities from a wrist band
============================

Heart rate and speed tell what someone does; that activities last a while helps where a minute alone could be either.
"""

# %%
# Days of activities
# ------------------
# A label lasts a while, and the numbers that it causes are noisy.

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, evaluate_model
from kernelfields.reports import plot_convergence, plot_transitions

random = np.random.default_rng(0)
typical = {"rest": [60.0, 0.0], "walk": [95.0, 5.0], "run": [150.0, 11.0]}


def day(length):
    labels = [str(random.choice(list(typical)))]
    while len(labels) < length:
        labels.append(labels[-1] if random.random() < 0.8 else str(random.choice(list(typical))))
    return np.array([typical[label] for label in labels]) + random.normal(size=(length, 2)) * [30.0, 4.0], labels


X, y = zip(*(day(length) for length in random.integers(20, 40, size=60)), strict=True)

# %%
# A fit and its certificate
# -------------------------
crf = ChainCRF("rbf", random_state=0).fit(X[:40], y[:40])
print(crf.score(X[40:], y[40:]))
crf.summary()

# %%
# A time line of one day: true labels above, predicted ones and their probabilities below.
crf.show(X[40], y[40])

# %%
plot_transitions(crf.transitions_, crf.classes_)
plt.show()

# %%
plot_convergence(crf.solution_)
plt.show()

# %%
evaluate_model(crf, X[40:], y[40:])
