"""Fine tags of English words with label trigrams: seconds of a fit, and what they bring on the development part.

    python -m benchmarks.label_trigrams [--sentences 12543] [--threads 2]

UD English EWT with the fields of ``experiments.label_ngrams tags``: first order, and a weight for each run of three
tags that occurs twice or more. Prior variances are chosen inside the training part: fields of its first 1,000
sentences are judged on the next 1,000. The difference of accuracies on the development part has an interval from paired
resamples of sentences.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.result_files import write_results
from experiments.label_ngrams import (
    SELECTION_TOL,
    TAG_NGRAM_VARIANCES,
    TAG_VARIANCES,
    Sample,
    error,
    tag_field,
    tagged,
)
from kernelfields.evaluation.comparison import compare

N_CHOOSING = 1000


def chosen_variances(train: Sample, threads: int) -> tuple[float, float]:
    """Return the prior variances of words and of trigrams with the least error on training sentences held out."""
    few, held = ([part[a : a + N_CHOOSING] for part in train] for a in (0, N_CHOOSING))

    def loss(order: int, variance: float, ngram_variance: float | None) -> float:
        return error(
            tag_field(order, variance, ngram_variance, SELECTION_TOL).set_params(n_jobs=threads).fit(*few), held
        )[0]

    variance = min(TAG_VARIANCES, key=lambda each: loss(2, each, None))
    return variance, min(TAG_NGRAM_VARIANCES, key=lambda each: loss(3, variance, each))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="of the training part; all of them if not given")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    train, dev = tagged("train", options.sentences), tagged("dev")
    variances = chosen_variances(train, options.threads)
    print(f"{len(train[0]):,} sentences of {sum(map(len, train[0])):,} words; prior variances {variances}", flush=True)
    rows, predicted = [], []
    for order in (2, 3):
        begin, used = time.perf_counter(), time.process_time()
        model = tag_field(order, *variances, SELECTION_TOL).set_params(n_jobs=options.threads).fit(*train)
        row = {
            "order": order,
            "sentences": len(train[0]),
            "variances": variances,
            "seconds": time.perf_counter() - begin,
            "processor": time.process_time() - used,
            "passes": model.solution_.passes,
            "relative_gap": model.solution_.relative_gap,
            "inference": model.inference_.description,
        }
        wrong, labels = error(model, dev)
        predicted.append(labels)
        print(
            f"order {order}: {row['seconds']:.0f} s, processor {row['processor']:.0f} s, {row['passes']:.0f} passes, "
            f"relative gap {row['relative_gap']:.1e}; {100 - wrong:.2f} % of dev; {row['inference']}",
            flush=True,
        )
        rows.append(row | {"dev_accuracy": 100 - wrong})
    difference = compare(dev[1], *predicted, scheme=None, random_state=0).accuracy.difference
    value, low, high = (100 * each for each in (difference.value, difference.low, difference.high))
    print(f"trigrams bring {value:+.2f} [{low:+.2f}, {high:+.2f}] points")
    write_results("label_trigrams.json", [*rows, {"difference": difference.to_dict()}])


if __name__ == "__main__":
    main()
