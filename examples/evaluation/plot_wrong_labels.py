"""
Which labels are wrong?
=======================

Twelve labels of strips of digits are changed. ``find_label_errors`` judges
each label by a field fitted to other strips, given the labels beside it, and
proposes the one that would fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import ChainCRF, find_label_errors

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
X, y = [], []
for _ in range(80):
    numbers = (
        random.integers(10) + np.cumsum(random.integers(1, 3, size=6))
    ) % 10
    X.append(
        np.array(
            [
                images[random.choice(np.flatnonzero(digits == number))]
                for number in numbers
            ]
        )
        / 16
    )
    y.append(numbers)
given = [numbers.copy() for numbers in y]
for strip in random.choice(80, size=12, replace=False):
    place = random.integers(6)
    given[strip][place] = (given[strip][place] + random.integers(1, 10)) % 10

field = ChainCRF("rbf", rank=100, prior_variance=10.0, random_state=0)
errors = find_label_errors(field, X, given, cv=4, top=20)
print(errors)

# %%
# The scores of all labels: those that were changed stand out.
scores = np.concatenate(errors.position_scores)
changed = np.concatenate(given) != np.concatenate(y)
figure, panel = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
panel.hist(
    [scores[~changed], scores[changed]],
    bins=30,
    stacked=True,
    label=["right", "changed"],
)
panel.set(yscale="log", xlabel="score of a label", ylabel="labels")
panel.legend()
plt.show()
