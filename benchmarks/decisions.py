"""What the decisions of several labels guard: wrong labels, or the F1 of labels.

    python -m benchmarks.decisions [--sets scene yeast emotions]

``MultiLabelCRF()`` with its default and with ``decision="f1"``, both fitted on the training part. Printed are the share
of wrong labels (the Hamming loss), micro F1 and macro F1 on the test part, and the threshold of probabilities that the
fit has learnt; they go to benchmarks/results/decisions.json and are shown in docs/multilabel.md.
"""

from __future__ import annotations

import argparse

from sklearn.metrics import f1_score, hamming_loss

from benchmarks.result_files import merge_results
from benchmarks.shared_data import multilabel_set
from kernelfields import MultiLabelCRF

SETS = ("emotions", "scene", "yeast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    for name in parser.parse_args().sets:
        (X, Y), (X_test, Y_test), _ = multilabel_set(name)
        for decision in ("auto", "f1"):
            crf = MultiLabelCRF(decision=decision, random_state=0).fit(X, Y)
            found = crf.predict(X_test)
            row = {
                "wrong": round(hamming_loss(Y_test, found), 4),
                "micro_f1": round(f1_score(Y_test, found, average="micro"), 4),
                "macro_f1": round(f1_score(Y_test, found, average="macro"), 4),
                "threshold": round(float(crf.threshold_), 3),
            }
            print(f"{name}, {decision}: {row}", flush=True)
            merge_results("decisions.json", [{"set": name, "decision": decision, **row}], ("set", "decision"))


if __name__ == "__main__":
    main()
