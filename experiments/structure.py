"""Which windows, lags and second-order cliques does structure learning choose, and what do they bring?

    python -m experiments.structure [--page]

Word prominence, three labels: a linear field that sees its own word is the start; candidates are the words around
it, transitions that see the word, labels two and three steps apart, three labels in a row, and the ends of a
sentence. The features of a word already hold something of its neighbours (frequency, punctuation).
Prior variances are fixed at one. The search runs on 3,000 sentences of release/dev, a fifth of them held out to
decide which additions are kept; start and choice are then scored on 2,000 sentences of release/test.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.result_files import EXPERIMENTS, read_results, write_results
from experiments.prominence_features import ENGLISH, ENGLISH_ENDINGS, Lexicon, english_sentences
from experiments.result_pages import ResultPage, percent, points
from kernelfields import (
    ChainCRF,
    EdgeCliques,
    EndCliques,
    NodeCliques,
    OrderCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.evaluation.comparison import compare
from kernelfields.structure.search import StructureSearch

RESULTS = "structure.json"
N_TRAIN, N_TEST = 3000, 2000
MEANINGS = {
    "before": "the word and the one before",
    "after": "the word and the one after",
    "window 5": "two words on either side",
    "edge inputs": "transitions that see the word",
    "lag2": "labels two steps apart",
    "lag3": "labels three steps apart",
    "order2": "three labels in a row",
    "start": "first label",
    "end": "last label",
}


def candidates() -> list:
    """Return the clique sets to choose from."""
    return [
        NodeCliques("linear", window=(1, 0), name="before"),
        NodeCliques("linear", window=(0, 1), name="after"),
        NodeCliques("linear", window=5, name="window 5"),
        EdgeCliques("linear", name="edge inputs"),
        SkipCliques(lag=2),
        SkipCliques(lag=3),
        OrderCliques(order=2),
        StartCliques(),
        EndCliques(),
    ]


def run(ranking: str) -> dict:
    """Search, and compare start and choice on test sentences."""
    begin = time.perf_counter()
    train = english_sentences("dev")[:N_TRAIN]
    test = english_sentences("test")[:N_TEST]
    lexicon = Lexicon(train, ENGLISH, ENGLISH_ENDINGS)
    # Counts of a training sentence leave the sentence itself out, as those of a test sentence do.
    X = [lexicon.describe(sentence, counted=True) for sentence in train]
    X_test = [lexicon.describe(sentence) for sentence in test]
    y, y_test = ([sentence.labels for sentence in part] for part in (train, test))
    search = StructureSearch(candidates(), max_additions=7, ranking=ranking)
    settings = {"prior_variance": 1.0, "decode": "viterbi", "tol": 1e-3, "max_iter": 300, "random_state": 0}
    learnt = ChainCRF("linear", cliques=search, **settings).fit(X, y)
    print(learnt.structure_path_, flush=True)
    start = ChainCRF("linear", **settings).fit(X, y)
    labels = [field.predict(X_test, decode="posterior") for field in (start, learnt)]
    return {
        "ranking": ranking,
        "path": learnt.structure_path_.to_dict(),
        "log_likelihoods": [field.log_likelihood(X_test, y_test) for field in (start, learnt)],
        "comparison": compare(y_test, *labels, random_state=0).to_dict(),
        "words": sum(map(len, y_test)),
        "seconds": time.perf_counter() - begin,
    }


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(RESULTS, EXPERIMENTS)
    page = ResultPage(
        "structure",
        "Structure learning",
        command="kernelfields reproduce structure",
        seconds=sum(row["seconds"] for row in rows),
    )
    page.text((__doc__ or "").split("\n\n", 2)[2])
    for row in rows:
        page.heading(f"Ranked by the {row['ranking']}")
        path = row["path"]
        page.table(
            ["", "added", "bound (Remark 11)", "Newton estimate", "gain", "held-out log-likelihood"],
            [
                [
                    "kept" if number and step["kept"] else "",
                    MEANINGS.get(step["added"], "(start)"),
                    f"{step['bound']:,.0f}" if number else "",
                    f"{step['estimate']:,.1f}" if number else "",
                    f"{step['gain']:,.1f}" if number else "",
                    f"{step['score']:,.1f}",
                ]
                for number, step in enumerate(path["steps"])
            ],
        )
        accuracy = row["comparison"]["accuracy"]
        first, second = (percent(accuracy[name]["value"]) for name in ("first", "second"))
        before, after = (value / row["words"] for value in row["log_likelihoods"])
        exceeded = sum(step["gain"] > step["bound"] for step in path["steps"][1:])
        page.text(
            f"The search ended because {path['reason']}. On the test sentences the start has {first} of the words "
            f"right and the choice {second}, a difference of {points(accuracy['difference'])} points; the "
            f"log-likelihood of a word goes from {before:.4f} to {after:.4f}. "
            f"Gains above their bound: {exceeded} of {len(path['steps']) - 1}."
        )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the page from the results that are there")
    if not parser.parse_args().page:
        write_results(RESULTS, [run("bound")], EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
