"""
Where do words begin? With CRFsuite's penalties
===============================================

``kernelfields.compat.CRF`` has the constructor and the meaning of
``sklearn_crfsuite.CRF``. Here it puts the spaces back into text that has lost
them. The penalty ``c1`` on absolute weights can throw most of them away at no
loss on held-out text, and with more of it too many.
"""

import re

import matplotlib.pyplot as plt
from sklearn import datasets

from kernelfields.compat import CRF, metrics

# %%
# Sentences come from scikit-learn's descriptions of its data sets. Labels:
# does a word begin at this letter?
loaders = [
    datasets.load_wine,
    datasets.load_digits,
    datasets.load_breast_cancer,
    datasets.load_iris,
]


def lines_of(text):
    lines = [re.findall("[a-z]+", line) for line in text.lower().split("\n")]
    return [words for words in lines if len("".join(words)) > 20]


def features(letters):
    padded = f"___{letters}___"
    runs = [
        (first, n)
        for n in (1, 2, 3, 4)
        for first in range(-3, 2)
        if first + n <= 4
    ]
    return [
        [
            f"{first}:{padded[t + 3 + first : t + 3 + first + n]}"
            for first, n in runs
        ]
        for t in range(len(letters))
    ]


lines = [lines_of(load().DESCR) for load in loaders]
train, test = (
    [words for text in lines[:3] for words in text][:50],
    lines[3][:15],
)
X, X_test = (
    [features("".join(words)) for words in part] for part in (train, test)
)
y, y_test = (
    [
        ["in" if i else "begin" for w in words for i in range(len(w))]
        for words in part
    ]
    for part in (train, test)
)

# %%
# A path of penalties, from none to far too much.
penalties = [0.0, 0.03, 0.1, 0.3, 1.0]
path = [CRF(c1=c1, c2=0.01, max_iterations=40).fit(X, y) for c1 in penalties]
sizes = [
    sum(weight != 0 for weight in crf.state_features_.values()) for crf in path
]
scores = [
    metrics.flat_f1_score(
        y_test, crf.predict(X_test), average="binary", pos_label="begin"
    )
    for crf in path
]

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 3.4), layout="constrained", width_ratios=[1, 1.9]
)
left.semilogx(sizes, scores, "o-", color="#0072B2")
for size, score, c1 in zip(sizes, scores, penalties, strict=True):
    left.annotate(
        f"{c1:g}",
        (size, score),
        (0, 7),
        textcoords="offset points",
        ha="center",
        fontsize=8,
    )
left.set(
    xlabel="weights that are not zero",
    ylabel="F1 of beginnings",
    title="held-out text, by c1",
)
left.margins(y=0.12)
left.spines[["top", "right"]].set_visible(False)

best = path[2].predict(X_test)
for row, (words, found, truth) in enumerate(
    zip(test[1:11], best[1:11], y_test[1:11], strict=True)
):
    place = 0
    for letter, said, true in zip("".join(words), found, truth, strict=True):
        place += said == "begin"
        style = (
            {"color": "0.25"}
            if said == true
            else {"color": "#D55E00", "weight": "bold"}
        )
        right.text(place, row, letter, family="monospace", fontsize=8, **style)
        place += 1
right.set(
    xlim=(0, 70),
    ylim=(9.7, -0.8),
    title=f"c1 = {penalties[2]:g}; wrong beginnings in colour",
)
right.axis("off")
