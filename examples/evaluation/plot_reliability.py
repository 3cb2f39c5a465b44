"""
Can the probabilities be believed?
==================================

A field with a wide prior, fitted to few noisy digits, is overconfident: of
labels with a probability of 85 %, some 65 % are right. One number, a
temperature that is fitted to held-out digits, mends that without changing a
single label.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from kernelfields import KernelClassifier, evaluate
from kernelfields.reports import plot_reliability
from kernelfields.uncertainty import calibrate

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = X / 16 + 0.35 * np.random.default_rng(0).normal(size=X.shape)
train, held_out, test = slice(0, 500), slice(500, 800), slice(800, None)
classifier = KernelClassifier(
    "linear", prior_variance=10.0, random_state=0
).fit(X[train], y[train])

# %%
# Figures are made for sequences; a sample with one label is a sequence of
# length one, hence the extra axis.
classes = classifier.classes_
calibrated = calibrate(classifier, X[held_out], y[held_out])
temperature = 1 / calibrated.maps_["positions"].slopes[0]
kinds = {
    "as fitted": classifier.predict_proba(X[test])[:, None],
    f"at temperature {temperature:.2f}": calibrated.predict_proba(X[test])[
        :, None
    ],
}

# %%
# ``plot_reliability`` draws into axes of one's own. Bars above count digits:
# marks of a dozen of them are uncertain.
figure, panels = plt.subplots(
    1, 2, figsize=(8.5, 5.4), layout="compressed", sharey=True
)
predicted = classifier.predict(X[test])[:, None]
for panel, (name, marginals) in zip(panels, kinds.items(), strict=True):
    found = evaluate(
        y[test, None],
        predicted,
        marginals=marginals,
        classes=classes,
        n_resamples=200,
        random_state=0,
    )
    plot_reliability(found.calibration, ax=panel)
    panel.annotate(
        name, (0.97, 0.05), fontsize="large", fontweight="bold", ha="right"
    )
plt.show()
