"""
Reading Morse code by durations
===============================

Dots and dashes sound alike, and so do all pauses: only how long they last
distinguishes them. ``SegmentCRF`` scores whole segments with their durations
and misreads only the end of the last letter. ``ChainCRF`` learns no more of
durations than how often a sign ends from one reading to the next, and half of
its message is lost.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelfields import ChainCRF, SegmentCRF

# %%
# A hand keys random letters: a dot is about 3 readings long, a dash 9, pauses
# within letters 3, between letters 9.
code = {
    "A": ".-",
    "D": "-..",
    "E": ".",
    "K": "-.-",
    "L": ".-..",
    "N": "-.",
    "R": ".-.",
    "S": "...",
    "T": "-",
}
random = np.random.default_rng(0)


def keyed(message):
    segments = []
    for letter in message:
        for sign in code[letter]:
            segments += ["dot" if sign == "." else "dash", "pause"]
        segments[-1] = "gap"
    mean = {"dot": 3, "pause": 3, "dash": 9, "gap": 9}
    labels = [
        label
        for label in segments
        for _ in range(mean[label] + random.integers(-1, 2))
    ]
    tone = np.isin(labels, ["dot", "dash"]) + 0.3 * random.normal(
        size=len(labels)
    )
    return tone[:, None], labels


def read(labels):
    """Return the letters that labels spell, "?" for what is none."""
    runs = [
        label
        for label, before in zip(labels, [None, *labels[:-1]], strict=True)
        if label != before
    ]
    signs = "".join(
        {"dot": ".", "dash": "-", "gap": " ", "pause": ""}[label]
        for label in runs
    ).split()
    return "".join(
        next((letter for letter, each in code.items() if each == sign), "?")
        for sign in signs
    )


X, y = zip(
    *(keyed(random.choice(list(code), size=5)) for _ in range(16)), strict=True
)
message = "KERNELSTAND"
x, truth = keyed(message)

# %%
# Both fields, on the same training messages.
fields = {
    "ChainCRF": ChainCRF(
        "rbf", prior_variance=3.0, rank=30, decode="viterbi", random_state=0
    ).fit(X, y),
    "SegmentCRF": SegmentCRF(
        "rbf", prior_variance=3.0, rank=30, random_state=0
    ).fit(X, y),
}
rows = {"truth": truth} | {
    name: field.predict([x])[0] for name, field in fields.items()
}

# %%
colours = {
    "dot": "#0072B2",
    "dash": "#D55E00",
    "pause": "#E5E5E5",
    "gap": "#BBBBBB",
}
figure, (above, below) = plt.subplots(
    2,
    1,
    figsize=(9, 4),
    layout="constrained",
    sharex=True,
    height_ratios=[1, 1.6],
)
above.plot(x[:, 0], color="0.3", lw=0.8)
above.set(ylabel="tone")
for row, (name, labels) in enumerate(rows.items()):
    below.bar(
        range(len(x)),
        0.6,
        bottom=-row - 0.3,
        width=1.0,
        color=[colours[label] for label in labels],
    )
    below.text(0, -row + 0.38, f"{name}:  {read(labels)}", fontsize=10)
below.set(yticks=[], xlabel="reading", ylim=(-2.4, 0.75), xlim=(0, len(x)))
for label, colour in colours.items():
    below.bar(0, 0, color=colour, label=label)
below.legend(
    ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False
)
for axes in (above, below):
    axes.spines[["top", "right", "left"]].set_visible(False)
