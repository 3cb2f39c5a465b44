"""Renew the picture of the README and of the first page: words, a sensor and a graph, labelled by fields.

    python docs/site/landing_picture.py

Each panel fits a field to the training part of a real data set (benchmarks/shared_data.py says where these are) and
draws its answers on data that it has not seen: WNUT-17 (named entities), activities of people who wear a sensor, Cora
(topics of papers that cite each other). It writes four files: for light and for dark screens, wide and narrow ones. In
the narrow ones the panels stand below each other, and letters are as large as those of text on a phone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import scipy.sparse
from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.first_try import rfid_trials, words_and_labels  # noqa: E402
from benchmarks.shared_data import data_file  # noqa: E402
from kernelfields import ChainCRF, GraphCRF, TextFeatures  # noqa: E402

SENTENCES = ("98 . 2 % of Costa Rica", "Did George Smiley")
ACTIVITIES = ("sits on the bed", "sits on a chair", "lies", "walks")
TOPICS = ("theory", "reinforcement", "genetic", "neural", "probabilistic", "case based", "rules")
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#b8860b", "#2a9fbf", "#ee8866")
INKS = {"light": "#1f2328", "dark": "#e6edf3"}


class Drawn(NamedTuple):
    """The answers of the three fields."""

    sentences: list[tuple[list[str], list]]
    seconds: np.ndarray
    acceleration: np.ndarray
    activities: np.ndarray
    graph: nx.Graph
    topics: np.ndarray


def entities() -> list[tuple[list[str], list]]:
    """Return sentences of the test part of WNUT-17 with their predicted entities."""
    words, labels = words_and_labels("first-try", "wnut17-train.tsv.gz")
    features = TextFeatures().fit(words)
    crf = ChainCRF(random_state=0).fit(features.transform(words), labels)
    unseen, _ = words_and_labels("first-try", "wnut17-test.tsv.gz")
    chosen = [next(s for s in unseen if " ".join(s).startswith(start)) for start in SENTENCES]
    return list(zip(chosen, crf.predict_entities(features.transform(chosen)), strict=True))


def activities() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the seconds, the vertical acceleration and the probabilities of four activities in a trial."""
    X, y = rfid_trials()
    longest = sorted(range(len(X)), key=lambda trial: len(set(y[trial])) * 10_000 + len(X[trial]))
    trial, seen = longest[-1], longest[:-1:2]
    readings = [x[:, 1:] for x in X]  # without the clock
    crf = ChainCRF(random_state=0).fit([readings[n] for n in seen], [y[n] for n in seen])
    return X[trial][:, 0], X[trial][:, 2], crf.predict_marginals([readings[trial]])[0]


def citations() -> tuple[nx.Graph, np.ndarray]:
    """Return a neighbourhood of papers in Cora and the predicted topic of each paper."""
    with np.load(data_file("cora", "cora.npz"), allow_pickle=False) as archive:
        size = (len(archive["label"]), int(archive["n_features"]))
        words = scipy.sparse.csr_array(
            (np.ones(len(archive["indices"])), archive["indices"], archive["indptr"]), shape=size
        )
        edges, label, split = archive["edges"], archive["label"].astype(int), archive["split"]
    known = [int(topic) if part == 0 else None for topic, part in zip(label, split, strict=True)]
    crf = GraphCRF(random_state=0).fit([(words, edges)], [known])
    topics = np.asarray(crf.predict([(words, edges)])[0]).astype(int)
    whole = nx.Graph(map(tuple, edges.tolist()))
    balls = (nx.ego_graph(whole, node, radius=3) for node in sorted(whole))
    small = (ball for ball in balls if 45 <= len(ball) <= 60 and max(dict(ball.degree).values()) <= 12)
    return max(small, key=lambda ball: np.ptp(np.sort(np.bincount(topics[list(ball)], minlength=7))[-3:]) * -1), topics


def draw_sentences(axes: Axes, sentences: list[tuple[list[str], list]], ink: str, lines: int) -> None:
    """Write the words on so many lines, entities on a coloured ground with their type and probability below."""
    colours = {"person": "#c8324a", "location": "#2f5f96"}  # white words are legible on them
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    axes.set_title("Words: named entities and their probabilities", loc="left", color=ink, fontsize=11)
    renderer = axes.figure.canvas.get_renderer()
    left, row = 0.005, 0
    for words, found in sentences:
        x, begins, place = left, {entity.begin: entity for entity in found}, 0
        while place < len(words):
            entity = begins.get(place)
            end = entity.end if entity else place + 1
            ground = {"facecolor": colours[entity.label], "edgecolor": "none", "pad": 3} if entity else None
            words_here, ink_here = " ".join(words[place:end]), "white" if entity else ink
            text = axes.text(x, 0.0, words_here, color=ink_here, fontsize=13, bbox=ground, va="baseline")
            width = text.get_window_extent(renderer).transformed(axes.transData.inverted()).width
            if x + width > 1:
                x, row = left, row + 1
            y = 1 - (row + 0.55) / lines
            text.set_position((x, y))
            if entity:
                note = f"{entity.label} {entity.probability:.2f}"
                axes.text(x, y - 0.42 / lines, note, color=ink, fontsize=10, va="baseline", weight="bold")
            x += width + 0.1 / axes.figure.get_figwidth()
            place = end
        row += 1


def draw_trace(axes: Axes, drawn: Drawn, ink: str, columns: int) -> None:
    """Draw the acceleration over bands of the activities, as strong as these are probable."""
    low, high = drawn.acceleration.min() - 0.1, drawn.acceleration.max() + 0.1
    for activity, probability in enumerate(drawn.activities.T):
        axes.fill_between(
            drawn.seconds,
            low,
            high,
            where=probability > 0.5,
            step="mid",
            color=COLOURS[activity],
            alpha=0.4,
            linewidth=0,
        )
        axes.plot([], [], color=COLOURS[activity], alpha=0.6, linewidth=7, label=ACTIVITIES[activity])
    axes.plot(drawn.seconds, drawn.acceleration, color=ink, linewidth=1.1)
    axes.set(ylabel="acceleration (g)", ylim=(low, high), xlim=(drawn.seconds[0], drawn.seconds[-1]))
    place = {"loc": "upper left", "bbox_to_anchor": (0, -0.1), "ncols": columns}
    axes.legend(**place, frameon=False, fontsize=10, handlelength=0.8, labelcolor=ink)
    axes.set_title("Sensors: what does the person do? (seconds)", loc="left", color=ink, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def draw_graph(axes: Axes, drawn: Drawn, ink: str) -> None:
    """Draw papers and citations, each paper in the colour of its predicted topic."""
    places = nx.kamada_kawai_layout(drawn.graph)
    nx.draw_networkx_edges(drawn.graph, places, ax=axes, edge_color=ink, alpha=0.35, width=0.8)
    nodes = list(drawn.graph)
    topics = drawn.topics[nodes]
    for topic in np.unique(topics):
        chosen = [node for node, own in zip(nodes, topics, strict=True) if own == topic]
        points = np.array([places[node] for node in chosen])
        axes.scatter(*points.T, s=42, color=COLOURS[topic], label=TOPICS[topic], zorder=2, linewidths=0)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, labelcolor=ink, fontsize=10, handletextpad=0.1
    )
    axes.set_title("Graphs: topics of papers that cite each other", loc="left", color=ink, fontsize=11)
    axes.axis("off")


def main() -> None:
    """Fit the three fields and draw their answers, for light and for dark screens."""
    drawn = Drawn(entities(), *activities(), *citations())
    for name, ink in INKS.items():
        inks = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), ink)
        with plt.rc_context(inks):
            wide = plt.figure(figsize=(11, 5.4))
            draw_sentences(wide.add_axes((0.01, 0.66, 0.98, 0.29)), drawn.sentences, ink, 2)
            draw_trace(wide.add_axes((0.06, 0.13, 0.47, 0.45)), drawn, ink, 4)
            draw_graph(wide.add_axes((0.57, 0.05, 0.30, 0.52)), drawn, ink)
            narrow = plt.figure(figsize=(5.2, 10))
            draw_sentences(narrow.add_axes((0.01, 0.71, 0.98, 0.26)), drawn.sentences, ink, 4)
            draw_trace(narrow.add_axes((0.13, 0.43, 0.85, 0.22)), drawn, ink, 2)
            draw_graph(narrow.add_axes((0.01, 0.01, 0.65, 0.31)), drawn, ink)
            for size, figure in (("", wide), ("narrow-", narrow)):
                figure.savefig(ROOT / "docs" / "images" / f"labels-{size}{name}.png", dpi=150, transparent=True)
                plt.close(figure)


if __name__ == "__main__":
    main()
