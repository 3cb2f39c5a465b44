"""
What gives a name away
======================

Plain words become features by ``TextFeatures``: prefixes, suffixes, shapes,
neighbours. The field finds persons and places that it has never read, and its
largest weights show how: the words before a name, and how the name ends.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, TextFeatures, evaluate

# %%
# Made-up sentences. Names are glued together from syllables, and no name of
# the test sentences is in the training ones. Persons and places may both end
# in -ton, and either may look tired: where both happens, the text is
# ambiguous.
random = np.random.default_rng(0)
begins = [
    "Mar",
    "Hol",
    "Bren",
    "Kel",
    "Dor",
    "Fen",
    "Wil",
    "Ash",
    "Thorn",
    "Lin",
    "Hart",
    "Rod",
    "Cal",
    "Ster",
    "Pem",
]
ends = {
    "PER": ["son", "kins", "wright", "ton"],
    "LOC": ["ville", "ford", "by", "ton"],
}
templates = [
    "Mrs PER left LOC on Monday .",
    "The mayor of LOC met Mr PER today .",
    "PER and PER live in LOC .",
    "From LOC to LOC it rained .",
    "Yesterday PER drove to LOC with Dr PER .",
    "Nobody in LOC believed PER .",
    "PER looks tired .",
    "LOC looks tired .",
]


def write(n_sentences, syllables):
    sentences, labels = [], []
    for _ in range(n_sentences):
        sentences.append([])
        labels.append([])
        for word in str(random.choice(templates)).split():
            kind = f"B-{word}" if word in ends else "O"
            name = (
                str(random.choice(syllables)) + str(random.choice(ends[word]))
                if word in ends
                else word
            )
            sentences[-1].append(name)
            labels[-1].append(kind)
    return sentences, labels


train, test = write(150, begins[:9]), write(100, begins[9:])

# %%
# Words go in, labels come out; an l1 penalty leaves the few weights that
# matter.
text = TextFeatures(prefixes=0, suffixes=4, shapes=False)
model = make_pipeline(
    text, ChainCRF("linear", support="observed", l1=0.3, prior_variance=10.0)
).fit(*train)
f1 = (
    evaluate(test[1], model.predict(test[0]), scheme="bio")
    .entities.averages["micro"]
    .f1.value
)

# %%
# ``weights`` lists the largest ones of each label.
figure, panels = plt.subplots(
    1, 2, figsize=(8, 3.4), layout="constrained", sharex=True
)
for axes, label, colour in zip(
    panels, ["B-PER", "B-LOC"], ["#0072B2", "#E69F00"], strict=True
):
    rows = [
        row
        for row in model[-1].weights(top=9, labels=[label]).to_rows()
        if row.get("feature")
    ]
    rows = sorted(rows, key=lambda row: row["weight"])
    axes.barh(
        [row["feature"] for row in rows],
        [row["weight"] for row in rows],
        color=colour,
        height=0.7,
    )
    axes.axvline(0.0, color="0.3", lw=0.8)
    axes.set(xlabel="weight", title=f"{label}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
figure.suptitle(
    f"Signs of persons and of places (F1 of unseen names {f1:.2f})"
)
