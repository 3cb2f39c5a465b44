"""
Few labels for each word: a label dictionary
============================================

In a language with a hundred tags, most words have one or two of them.
``LabelDictionary`` learns these from the training data, and inference
considers no others, except for rare words, which may have any tag. The price
is at the last word: its right tag was never seen with it, and cannot be
predicted.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, LabelDictionary

# %%
# A language: a word has up to three tags, few words are frequent, and a tag is
# followed by one of four others. Endings depend on the tag.
random = np.random.default_rng(0)
n_tags, n_words, length = 100, 600, 25
tags_of = [
    random.choice(n_tags, size=random.integers(1, 4), replace=False)
    for _ in range(n_words)
]
words_of = [
    [word for word in range(n_words) if tag in tags_of[word]]
    for tag in range(n_tags)
]


def sentence():
    tag, tags, words = random.integers(n_tags), [], []
    for _ in range(length):
        word = words_of[tag][int(len(words_of[tag]) * random.random() ** 3)]
        tags.append(f"T{tag:02d}")
        ending = tag // 5 if random.random() < 0.7 else random.integers(20)
        words.append({"word": f"w{word}", "ending": f"-{ending}"})
        tag = (tag + random.choice([1, 2, 40, 63])) % n_tags
    return words, tags


X, y = zip(*(sentence() for _ in range(150)), strict=True)
X_test, y_test = zip(*(sentence() for _ in range(40)), strict=True)

# %%
# The same field with and without the dictionary. A word that was seen less
# than three times may have any label.
fields, seconds = {}, {}
for name, allowed in {
    "all labels": None,
    "dictionary": LabelDictionary("word", min_count=3),
}.items():
    begin = time.perf_counter()
    fields[name] = ChainCRF(
        "linear", support="observed", prior_variance=3.0, allowed=allowed
    ).fit(X, y)
    seconds[name] = time.perf_counter() - begin
right = {name: 100 * crf.score(X_test, y_test) for name, crf in fields.items()}
told = [
    f"{name}: {right[name]:.1f} % of words right, fitted in "
    f"{seconds[name]:.1f} s"
    for name in fields
]

# %%
# One test sentence: what is allowed, and the way that the field takes.
crf = fields["dictionary"]
names = crf.classes_.tolist()
path, truth = (
    [names.index(label) for label in labels]
    for labels in (crf.predict(X_test[:1])[0], y_test[0])
)

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for t, position in enumerate(X_test[0]):
    labels = crf.allowed_.labels_of(position["word"])
    axes.scatter(
        np.full(len(labels), t),
        labels,
        marker="s",
        s=14,
        color="#56B4E9",
        lw=0,
    )
axes.scatter([], [], marker="s", s=14, color="#56B4E9", label="allowed")
axes.plot(path, "o-", color="#0072B2", lw=1.2, ms=5, label="chosen")
wrong = [t for t in range(length) if path[t] != truth[t]]
axes.scatter(
    wrong,
    [truth[t] for t in wrong],
    marker="x",
    color="#D55E00",
    s=60,
    zorder=3,
    label="right, and not chosen",
)
axes.set(
    xlabel="word of the sentence",
    ylabel="label",
    xlim=(-0.6, length - 0.4),
    ylim=(-2, n_tags + 1),
)
axes.legend(
    loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False
)
axes.set_title("\n".join(told), fontsize=10)
axes.spines[["top", "right"]].set_visible(False)
