"""Actions to label base noun phrases on the page, from nothing and to correct what a model predicts.

    python -m experiments.labelling_actions

From nothing: the first 100 training sentences of CoNLL-2000, words alone, in their order. Whoever labels corrects a
sentence from left to right and presses Done. Marking a span is a drag and a key, a drag alone if the type is held;
taking one away is a click and a key; Done is a key. The model is fitted after 20 sentences, or after each 20. doccano
takes two actions a span, and nothing else is counted there.

Correcting: a model of chunks, fitted to 200 sentences, has predicted 300 others. Fixes are spans that are marked or
taken away, with decoding after each fix and without.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import token_columns
from experiments.result_pages import table, write_page
from kernelfields.data.constraints import find_scheme
from kernelfields.page import LabellingSession
from kernelfields.page.fits import make_default_estimator
from kernelfields.page.spans import SpanView, TypedSpan

RESULTS = "labelling_actions.json"
N_SENTENCES, EVERY, N_FITTED, N_CORRECTED = 100, 20, 200, 300
VIEW = SpanView(find_scheme("bio"))
Sentences = list[list[str]]


def sentences(first: int, last: int, kinds: tuple[str, ...] | None) -> tuple[Sentences, Sentences]:
    """Return words and labels of training sentences; ``kinds`` of chunks, None for all."""
    rows = token_columns("conll2000", "train.tsv.gz")[first:last]
    y = [[row[-1] if kinds is None or row[-1][2:] in kinds else "O" for row in sentence] for sentence in rows]
    return [[row[0] for row in sentence] for sentence in rows], y


def first_fix(shown: list[TypedSpan], true: list[TypedSpan]) -> tuple[int, int, str | None] | None:
    """Return the first span to mark, or to take away; None if all are right."""
    missing = [span for span in true if span not in shown]
    wrong = [
        span
        for span in shown
        if span not in true and not any(other.begin < span.end and span.begin < other.end for other in missing)
    ]
    fixes = [(span.begin, span.end, span.kind) for span in missing] + [(s.begin, s.end, None) for s in wrong]
    return min(fixes, key=lambda fix: fix[0], default=None)


def shown_spans(shown: dict[str, Any]) -> list[TypedSpan]:
    """Return the spans on the page."""
    begins = [t for t, own in enumerate(shown["positions"]) if own["begins"]]
    kinds = [own["kind"] for own in shown["positions"]]
    ends = [next((t for t in count(b + 1) if t == len(kinds) or kinds[t] is None or t in begins), b) for b in begins]
    return [TypedSpan(kinds[begin], begin, end) for begin, end in zip(begins, ends, strict=True)]


def corrected(session: LabellingSession, item: int, labels: list[str]) -> tuple[int, int]:
    """Correct a sentence on the page, from left to right; return how many spans were marked, and taken away."""
    shown, true, counts = session.show(item), VIEW.spans(labels), [0, 0]
    while (fix := first_fix(shown_spans(shown), true)) is not None:
        counts[fix[2] is None] += 1
        shown = session.mark(item, shown["version"], *fix)
    session.done(item, shown["version"])
    assert session.labels()[item] == labels
    return counts[0], counts[1]


def from_nothing(refits: int | None) -> dict[str, Any]:
    """Label sentences; ``refits`` at most, None for one after each 20 sentences."""
    X, y = sentences(0, N_SENTENCES, ("NP",))
    session = LabellingSession(X, None, words=X, classes=["NP"], scheme="bio")
    marked, removed, done = 0, 0, 0
    for item in range(N_SENTENCES):
        if item and item % EVERY == 0 and (refits is None or item <= refits * EVERY):
            session.refit(wait=True)
            print(item, session.status, marked, removed, flush=True)
        new = corrected(session, item, y[item])
        marked, removed, done = marked + new[0], removed + new[1], done + 1
    n_spans = sum(len(VIEW.spans(own)) for own in y)
    return {"spans": n_spans, "marked": marked, "removed": removed, "done": done, "doccano": 2 * n_spans}


def static_fixes(labels: list[str], true: list[str]) -> int:
    """Return how many spans are marked or taken away where nothing is decoded again."""
    labels, fixes = list(labels), 0
    while (fix := first_fix(VIEW.spans(labels), VIEW.spans(true))) is not None:
        for t, label in VIEW.mark_span(labels, [True] * len(labels), *fix).items():
            labels[t] = label or "O"
        fixes += 1
    return fixes


def correcting() -> dict[str, Any]:
    """Correct what a model has predicted."""
    model = make_default_estimator(words=True, scheme=VIEW.scheme).fit(*sentences(0, N_FITTED, None))
    X, y = sentences(N_FITTED, N_FITTED + N_CORRECTED, None)
    predicted = [list(map(str, own)) for own in model.predict(X)]
    static = sum(static_fixes(*pair) for pair in zip(predicted, y, strict=True))
    session = LabellingSession(X, None, model, words=X)
    decoded = sum(sum(corrected(session, item, labels)) for item, labels in enumerate(y))
    return {"spans": sum(len(VIEW.spans(own)) for own in y), "static": static, "decoded": decoded}


def _row(name: str) -> dict[str, Any]:
    return next(row for row in read_results(RESULTS, EXPERIMENTS) if row["name"] == name)


def labelling() -> str:
    """Return the actions from nothing, as a share of those of doccano."""
    rows = []
    for name, label in (("once", "one refit, after 20"), ("each", "a refit after each 20"), ("never", "no model")):
        own = _row(name)
        held = own["marked"] + 2 * own["removed"] + own["done"]
        keys = held + own["marked"]
        shares = [f"{actions} ({actions / own['doccano']:.2f})" for actions in (keys, held, own["doccano"])]
        rows.append([label, own["spans"], own["marked"], own["removed"], *shares])
    heads = ["", "spans", "marked", "taken away", "actions, drag and key", "actions, type held", "doccano"]
    return table(heads, rows)


def fixes() -> str:
    """Return the fixes of what a model predicts."""
    own = _row("correcting")
    heads = ["chunks", "fixes without decoding", "fixes with decoding", "ratio"]
    return table(heads, [[f"{own['spans']:,}", own["static"], own["decoded"], f"{own['decoded'] / own['static']:.2f}"]])


def main() -> None:
    runs = {"once": from_nothing(1), "each": from_nothing(None), "never": from_nothing(0), "correcting": correcting()}
    merge_results(RESULTS, [{"name": name, **own} for name, own in runs.items()], ("name",), EXPERIMENTS)
    write_page("labelling_actions")


if __name__ == "__main__":
    main()
