"""
Tagging words that nobody has seen
==================================

A field learns word classes from sentences of a small made-up grammar, and then
reads Lewis Carroll. Words that are new to it, in italics, have to be tagged by
their endings and neighbours. The darker a tile, the surer the field: the last
line, in which it loses its way, is pale.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF

# %%
# The grammar: a sentence is a pattern of classes, and each class has its
# words. The words of a class end alike now and then, as in English.
words = {
    "DET": ["the", "a", "all", "some"],
    "ADJ": [
        "misty",
        "frosty",
        "windy",
        "grumpy",
        "hollow",
        "narrow",
        "famous",
        "nervous",
    ],
    "NOUN": [
        "waves",
        "doves",
        "boats",
        "rivers",
        "robins",
        "dogs",
        "path",
        "slope",
        "cave",
        "lake",
    ],
    "VERB": [
        "crawled",
        "wandered",
        "whistled",
        "danced",
        "were",
        "slept",
        "did",
        "ran",
    ],
    "ADV": ["slowly", "gladly", "softly", "there"],
    "PREP": ["in", "under", "over", "through"],
    "CONJ": ["and", "but", "while"],
}
patterns = [
    "DET ADJ NOUN VERB ADV",
    "DET NOUN VERB PREP DET NOUN",
    "DET ADJ NOUN VERB CONJ VERB PREP DET ADJ NOUN",
    "ADJ VERB DET NOUN CONJ DET ADJ NOUN VERB",
    "ADV VERB DET ADJ NOUN PREP DET NOUN",
    "DET NOUN VERB VERB CONJ VERB PREP DET NOUN",
    "CONJ DET ADJ NOUN VERB",
]
random = np.random.default_rng(0)
tags = [str(random.choice(patterns)).split() for _ in range(150)]
sentences = [
    [str(random.choice(words[tag])) for tag in sentence] for sentence in tags
]


# %%
# A position is a dict of features: the word, its ending, and the words on both
# sides.
def features(sentence):
    padded = ["^", *sentence, "$"]
    return [
        {
            "word": word,
            "ending": word[-1:],
            "last two": word[-2:],
            "before": padded[t],
            "after": padded[t + 2],
        }
        for t, word in enumerate(sentence)
    ]


crf = ChainCRF("linear", prior_variance=10.0).fit(
    [features(sentence) for sentence in sentences], tags
)

# %%
# The poem, and what the field makes of it.
poem = """the slithy toves
did gyre and gimble in the wabe
all mimsy were the borogoves
and the mome raths outgrabe"""
lines = [line.split() for line in poem.split("\n")]
read = [features(line) for line in lines]
colours = dict(
    zip(
        words,
        [
            "#999999",
            "#E69F00",
            "#0072B2",
            "#D55E00",
            "#CC79A7",
            "#009E73",
            "#56B4E9",
        ],
        strict=True,
    )
)

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for row, (line, labels, marginals) in enumerate(
    zip(lines, crf.predict(read), crf.predict_marginals(read), strict=True)
):
    left = 0.0
    for word, label, sure in zip(
        line, labels, marginals.max(axis=1), strict=True
    ):
        width = 0.17 * len(word) + 0.5
        tile = plt.Rectangle(
            (left, -row - 0.4),
            width,
            0.8,
            fc=colours[label],
            alpha=0.15 + 0.6 * sure**2,
            lw=0,
        )
        axes.add_patch(tile)
        new = (
            "normal"
            if any(word in each for each in words.values())
            else "italic"
        )
        axes.text(
            left + width / 2,
            -row + 0.1,
            word,
            ha="center",
            va="center",
            fontsize=13,
            style=new,
        )
        axes.text(
            left + width / 2,
            -row - 0.24,
            f"{label} {sure:.2f}",
            ha="center",
            va="center",
            fontsize=7,
        )
        left += width + 0.08
axes.set(
    xlim=(-0.1, 8.6),
    ylim=(-3.6, 0.6),
    title="Words in italics are new to the field",
)
axes.axis("off")
