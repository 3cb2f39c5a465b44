"""Pictures below the first calls of pages: docs/images/first-*.svg.

    python docs/site/first_pictures.py [page ...]

The blocks of a page up to its first fit are run as they stand there, in an empty folder, and one call draws what they
fitted.
"""

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

from kernelfields.reports import plot_heat_map

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: By page: how many blocks to run, and the call that draws.
PICTURES = {
    "annotators": (1, "model.plot.labels(X[0], y[0])"),
    "chains": (2, "model.plot.labels(X_test[0][:40], y_test[0][:40])"),
    "dask": (1, "crf.plot.convergence()"),
    "documents": (1, "crf.plot.transitions()"),
    "embeddings": (
        2,
        "model[-1].plot.labels(model[0].transform(sentences[203:204])[0], tags[203], tokens=sentences[203])",
    ),
    "engines": (1, "crf.plot.convergence()"),
    "entities": (1, "crf.plot.labels(X[300], y[300])"),
    "evaluation_and_plots": (1, "crf.plot.labels(X_test[0], y_test[0])"),
    "formats": (2, "model.plot.labels(X[1], y[1])"),
    "frames": (
        1,
        "(lambda own: field.estimator_.plot.labels(own.X[0][:30], own.y[0][:30]))"
        "(field.sequences(others, labelled=True))",
    ),
    "graphs": (1, "crf.plot.transitions()"),
    "hmmlearn": (1, "model.plot.labels(X[70:], y[70:])"),
    "labelling": (4, "fitted.plot.labels(X[8], given[8])"),
    "layers": (
        1,
        "plot_heat_map(tagger.field.marginals(tagger.scores(words), lengths)[0].detach(), words[0].tolist(), tags,"
        " row_name='word')",
    ),
    "many_labels": (1, "crf.plot.labels(X[600], y[600], tokens=[each['word'] for each in X[600]])"),
    "multilabel": (
        1,
        "plot_heat_map(crf.predict_proba(X[test])[:6], range(6), range(5), row_name='instance', column_name='label')",
    ),
    "partial_fit": (1, "crf.plot.labels(X[20][:30], y[20][:30])"),
    "performance": (1, "crf.plot.convergence()"),
    "production": (1, "crf.plot.labels(X[2], y[2], tokens=[word for word, _ in text])"),
    "proteins": (1, "crf.plot.labels(X[100], y[100])"),
    "quickstart": (1, "tagger.plot.labels('a man ran'.split())"),
    "rare_events": (1, "found.plot.labels(X[5][45:75], y[5][45:75])"),
    "rings": (1, "ring.plot.labels(X[40], y[40])"),
    "segments": (1, "crf.plot.labels(X[15][:30], y[15][:30])"),
    "selection": (1, "search.plot.labels(X_test[0], y_test[0])"),
    "sensors": (1, "chain.plot.labels(X[12][:40], y[12][:40])"),
    "sequence_classes": (1, "hidden.estimator_.plot.labels(X[60])"),
    "sharp_bits": (1, "crf.plot.labels(X[80], y[80])"),
    "single_labels": (1, "digits.plot.calibration(X_test, y_test)"),
    "streams": (1, "crf.plot.labels(X[12][:40], y[12][:40])"),
    "text": (1, "model.plot.labels(X[266], y[266])"),
    "ties": (2, "tied.plot.transitions()"),
    "uncertainty": (
        1,
        "model.plot.calibration(*map(np.concatenate, make_circles(8, random_state=1, return_X_y=True)))",
    ),
    "unlabelled": (1, "crf.plot.labels(X[0], truth[0])"),
}


def draw(page: str) -> None:
    """Write the picture of a page."""
    n_blocks, call = PICTURES[page]
    blocks = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))[:n_blocks]
    if len(blocks) < n_blocks:
        raise ValueError(f"docs/{page}.md has {len(blocks)} blocks of Python, fewer than {n_blocks}")
    names: dict[str, Any] = {"__name__": page, "plot_heat_map": plot_heat_map}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for block in blocks:
            exec(block, names)
        picture = eval(call, names)
    picture.savefig(ROOT / "docs" / "images" / f"first-{page}.svg", metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "kernelfields"
    for page in sys.argv[1:] or PICTURES:
        draw(page)
