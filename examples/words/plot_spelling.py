"""
Spelling by n-grams of letters
==============================

One key in five was missed for its neighbour. Fields that have learnt which
two, three or four letters follow each other put more and more of it right
again. The language is that of scikit-learn's own descriptions of its data
sets.
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets

from kernelfields import ChainCRF, EdgeCliques, LabelNgrams, NodeCliques

# %%
# Three descriptions to learn from, one to correct, cut into words.
loaders = [
    datasets.load_wine,
    datasets.load_digits,
    datasets.load_breast_cancer,
    datasets.load_iris,
]
*texts, last = [load().DESCR.lower() for load in loaders]
train, test = (
    re.findall("[a-z]{4,}", " ".join(texts))[:300],
    re.findall("[a-z]{4,}", last)[:150],
)
random = np.random.default_rng(0)
rows = ["qwertyuiop", "asdfghjkl", "zxcvbnm"]
beside = {
    key: row[max(i - 1, 0) : i] + row[i + 1 : i + 2]
    for row in rows
    for i, key in enumerate(row)
}


def typed(words):
    return [
        [
            str(random.choice(list(beside[c]))) if random.random() < 0.2 else c
            for c in word
        ]
        for word in words
    ]


X_train, X_test = (
    [[{"key": key} for key in word] for word in typed(words)]
    for words in (train, test)
)
y_train, y_test = [list(word) for word in train], [list(word) for word in test]

# %%
# ``LabelNgrams`` score runs of labels; only those that occur in training have
# weights.
fields = {}
for order in (2, 3, 4):
    cliques = [
        NodeCliques("linear", prior_variance=3.0),
        EdgeCliques(prior_variance=3.0),
    ]
    cliques += [LabelNgrams(n=order, prior_variance=3.0)] if order > 2 else []
    fields[order] = ChainCRF(cliques=cliques, tol=3e-2).fit(X_train, y_train)
keys = [each["key"] for word in X_test for each in word]
right = [
    100 * np.mean(np.array(keys) == list("".join(test))),
    *(100 * field.score(X_test, y_test) for field in fields.values()),
]

# %%
# Some words as they were typed, and as each field reads them.
shown = [
    i
    for i, word in enumerate(test)
    if [each["key"] for each in X_test[i]] != list(word) and 6 < len(word) < 12
][:8]
figure, (left, table) = plt.subplots(
    1, 2, figsize=(8.5, 3.6), layout="constrained", width_ratios=[1, 2.3]
)
left.plot(range(1, 5), right, "o-", color="#0072B2")
left.set(
    xticks=range(1, 5),
    xlabel="letters in a row",
    ylabel="letters right, %",
    ylim=(75, 100),
)
left.set_xticklabels(["typed", 2, 3, 4])
left.spines[["top", "right"]].set_visible(False)
columns = {"typed": [[each["key"] for each in X_test[i]] for i in shown]}
columns |= {
    f"{order} letters": field.predict([X_test[i] for i in shown])
    for order, field in fields.items()
}
table.set(xlim=(0, len(columns)), ylim=(len(shown) + 0.2, -0.8))
table.axis("off")
for place, (name, readings) in enumerate(columns.items()):
    table.text(place, -0.6, name, fontsize=9, weight="bold")
    for row, letters in enumerate(readings):
        for t, letter in enumerate(letters):
            wrong = letter != y_test[shown[row]][t]
            style = (
                {"color": "#D55E00", "weight": "bold"}
                if wrong
                else {"color": "0.25"}
            )
            table.text(
                place + 0.085 * t,
                row + 0.2,
                letter,
                family="monospace",
                fontsize=9,
                **style,
            )
