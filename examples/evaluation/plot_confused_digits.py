"""
Which digits are mixed up
=========================

The confusions of a classifier on 1,297 digits, and the eight that it was most
wrong about: the label it gave, how sure it was, and the truth. Several of them
a person would misread, too.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.utils import shuffle

from kernelfields import KernelClassifier
from kernelfields.reports import plot_heat_map

plt.style.use("tableau-colorblind10")
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
# Pixels have one scale as they are: those at the margin, which are hardly ever
# dark, are not to be blown up.
classifier = KernelClassifier(
    "rbf", prior_variance=10.0, rank=200, scale=False, random_state=0
).fit(X[:500], y[:500])
X_test, y_test = X[500:], y[500:]

# %%
# A heat map of ``kernelfields.reports`` leaves out what is zero; the diagonal
# is taken out, to let the rest be seen.
probabilities = classifier.predict_proba(X_test)
predicted = classifier.classes_[probabilities.argmax(axis=1)]
confusions = confusion_matrix(y_test, predicted)
np.fill_diagonal(confusions, 0)
print(
    f"{classifier.score(X_test, y_test):.1%} of {len(y_test)} digits are right"
)

# %%
figure = plt.figure(figsize=(10.5, 4.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.1])
ax = left.subplots()
plot_heat_map(
    confusions,
    range(10),
    range(10),
    ax=ax,
    row_name="truth",
    column_name="predicted",
    form=".0f",
)
ax.set_title("digits that were mixed up")
surprise = -np.log(probabilities[np.arange(len(y_test)), y_test])
worst = np.argsort(surprise)[::-1][:8]
for panel, place in zip(right.subplots(2, 4).ravel(), worst, strict=True):
    panel.imshow(X_test[place].reshape(8, 8), cmap="gray_r")
    panel.set_title(
        f"{predicted[place]} ({probabilities[place].max():.0%})", color="C5"
    )
    panel.set(xlabel=f"truth {y_test[place]}", xticks=[], yticks=[])
right.suptitle("the most surprising ones")
plt.show()
