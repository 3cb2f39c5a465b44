"""
How sure of the whole name?
===========================

An entity is right if its first word, its last word and its type are. Its
probability is one sum over all labellings of the sentence: neither the product
of the words' probabilities nor the smallest of them. Below, sentences with
names that may go on or not; the bars are the span that was predicted and those
that overlap it.
"""

import matplotlib.pyplot as plt

from kernelfields import ChainCRF, TextFeatures

plt.style.use(
    [
        "tableau-colorblind10",
        {"axes.spines.top": False, "axes.spines.right": False},
    ]
)
texts = [
    ("we met Anna Maria Lopez in Rome", [(2, 5)]),
    ("Anna Lopez flew home", [(0, 2)]),
    ("Maria saw Carlos", [(0, 1), (2, 3)]),
    ("in June Carlos Maria wrote", [(2, 4)]),
    ("Rome called Anna in June", [(2, 3)]),
    ("we saw Carlos Lopez", [(2, 4)]),
    ("June Lopez met Anna in May", [(0, 2), (3, 4)]),
    ("in May Maria June wrote home", [(2, 4)]),
]
X = [text.split() for text, _ in texts]
y = [["O"] * len(words) for words in X]
for labels, (_, names) in zip(y, texts, strict=True):
    for begin, end in names:
        labels[begin:end] = ["B-name"] + ["I-name"] * (end - begin - 1)
features = TextFeatures()
crf = ChainCRF(
    "linear", prior_variance=3.0, constraints="bio", random_state=0
).fit(features.fit_transform(X), y)

# %%
# Is June a month here, or a name?
new = ["we", "met", "Anna", "June", "Lopez", "in", "May"]
entities = crf.predict_entities(features.transform([new]), least=0.01)[0]
spans = [(one, True) for one in entities] + [
    (other, False) for one in entities for other in one.alternatives
]
figure, panel = plt.subplots(figsize=(7, 3), layout="constrained")
for place, (span, chosen) in enumerate(spans[:8]):
    panel.barh(place, span.probability, color="C0" if chosen else "C7")
    panel.text(
        span.probability + 0.01,
        place,
        " ".join(new[span.begin : span.end]),
        va="center",
    )
panel.invert_yaxis()
panel.set(yticks=[], xlim=(0, 1.25), xlabel="probability of the whole span")
plt.show()
