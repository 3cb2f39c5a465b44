"""
Sets that hold the true digit
=============================

Probabilities are promises of a model, prediction sets are promises about data.
A field reads strips of noisy digits; for each digit a set of readings is given
that holds the true one nineteen times out of twenty, whatever the model. Where
a digit is clear the set has one reading, where it is not it has several.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelfields import ChainCRF, ConformalField

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
random = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)


def strips(count):
    """Digits that count up by one or two, each drawn from the images of its
    kind, with noise.
    """
    X, y = [], []
    for _ in range(count):
        numbers = (
            random.integers(10) + np.cumsum(random.integers(1, 3, size=6))
        ) % 10
        rows = np.array(
            [
                images[random.choice(np.flatnonzero(digits == number))]
                for number in numbers
            ]
        )
        X.append(rows / 16 + 0.45 * random.normal(size=rows.shape))
        y.append(numbers)
    return X, y


field = ChainCRF("rbf", rank=150, prior_variance=10.0, random_state=0)
sets = (
    ConformalField(field, confidence_level=0.95)
    .fit(*strips(120))
    .conformalize(*strips(200))
)
X, y = strips(300)
found = sets.coverage(X, y)
print(
    f"{found.coverage:.3f} of the digits are in their sets, which have "
    f"{found.size:.2f} readings"
)

# %%
# Three strips: the readings of each digit, the true one in bold.
figure, panels = plt.subplots(3, 6, figsize=(7.5, 4.6), layout="compressed")
for row, item in zip(panels, sets.predict_set(X[:3]), strict=True):
    for panel, own in zip(row, item, strict=True):
        panel.set_axis_off()
        panel.set_title(" ".join(map(str, own)) or "none", fontsize="medium")
for row, x, numbers in zip(panels, X, y, strict=False):
    for panel, image, number in zip(row, x, numbers, strict=True):
        panel.imshow(image.reshape(8, 8), cmap="gray_r")
        panel.text(
            7.2,
            7.2,
            str(number),
            ha="right",
            va="bottom",
            fontweight="bold",
            color="C1",
        )
plt.show()
