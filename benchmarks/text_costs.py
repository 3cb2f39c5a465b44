"""What a default fit on text costs beside CRFsuite: processor, memory and model file, and how well it predicts.

    python -m benchmarks.text_costs [--sets wnut addresses references lener] [--hows command pipeline crfsuite spacy]

Each fit has a process of its own, from a file of words to the file of a model: ``kernelfields train`` without options,
``make_pipeline(TextFeatures(), ChainCRF())``, and CRFsuite with c1 = c2 = 0.1 and 100 iterations on the features of
TextFeatures. These are kept as lists of strings, and scikit-learn is imported, as by users of sklearn-crfsuite.
Printed are CPU seconds of all threads together, the imports included; the peak memory of the process; the size of the
model file; F1 of the entities of the test part, or the accuracy for addresses, whose labels are no entities; and the
ratios to CRFsuite. Compiled code is cached beside the package, and a first run compiles it: run a set twice. Results
are shown in docs/results/first_try.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.first_try import words_and_labels
from benchmarks.result_files import RESULTS, merge_results, read_results
from experiments.result_pages import table
from kernelfields import TextFeatures, load
from kernelfields.evaluation import entity_f1_score, token_accuracy

RESULT = "text_costs.json"
SETS = {
    "wnut": ("first-try", "wnut17"),
    "addresses": ("first-try-2", "addresses"),
    "references": ("first-try-2", "references"),
    "lener": ("first-try-2", "lener"),
}
_READ = """
import sys
path, model = sys.argv[1:]
words, labels = [], []
for sentence in open(path, encoding="utf-8").read().split("\\n\\n")[:-1]:
    own, their = zip(*(line.split("\\t") for line in sentence.split("\\n")))
    words.append(list(own))
    labels.append(list(their))
"""
_SPACY = f"""{_READ}
import random
from pathlib import Path
import spacy
from spacy.cli.init_config import init_config
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
vocab = spacy.blank("en").vocab
documents = [Doc(vocab, words=own, ents=their) for own, their in zip(words, labels)]
random.Random(0).shuffle(documents)
parts = {{"train": documents[len(documents) // 10 :], "dev": documents[: len(documents) // 10]}}
config = init_config(lang="en", pipeline=["ner"], optimize="efficiency", gpu=False)
for part, own in parts.items():
    config["paths"][part] = f"{{part}}.spacy"
    DocBin(docs=own).to_disk(config["paths"][part])
Path("training").mkdir()
train(init_nlp(config), Path("training"), stdout=sys.stderr)
Path("training/model-best").rename(model)
"""
_FITS = {
    "command": """
import sys
from kernelfields.cli.app import app
path, model = sys.argv[1:]
try:
    app(["train", path, "-m", model])
except SystemExit as ended:
    if ended.code:
        raise
""",
    "pipeline": f"""{_READ}
from sklearn.pipeline import make_pipeline
from kernelfields import ChainCRF, TextFeatures, save
save(make_pipeline(TextFeatures(), ChainCRF()).fit(words, labels), model)
""",
    "crfsuite": f"""{_READ}
import pycrfsuite, sklearn.base
from kernelfields import TextFeatures
features, trainer = TextFeatures().transform(words), pycrfsuite.Trainer(verbose=False)
for own, their in zip(features, labels):
    trainer.append(own, their)
trainer.set_params({{"c1": 0.1, "c2": 0.1, "max_iterations": 100}})
trainer.train(model)
""",
    "spacy": _SPACY,
}
_COSTS = """
import json, re, time
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(json.dumps({"cpu_seconds": round(time.process_time(), 2), "peak_mb": round(int(peak) / 1024)}))
"""


def predicted(how: str, model: Path, words: list[list[str]]) -> list:
    """Return the labels that a stored model predicts."""
    if how == "crfsuite":
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(str(model))
        return [tagger.tag(sentence) for sentence in TextFeatures().transform(words)]
    if how == "spacy":
        import spacy
        from spacy.tokens import Doc

        network = spacy.load(model)
        documents = network.pipe(Doc(network.vocab, words=sentence) for sentence in words)
        return [["-".join(filter(None, (word.ent_iob_, word.ent_type_))) for word in own] for own in documents]
    return load(model).predict(words)


def measure(name: str, how: str, folder: Path) -> dict:
    """Fit in a process of its own; return what it cost and how well the model predicts the test part."""
    (words, labels), (test_words, test_labels) = (
        words_and_labels(SETS[name][0], f"{SETS[name][1]}-{part}.tsv.gz") for part in ("train", "test")
    )
    path, model = folder / f"{name}.conll", folder / f"{name}_{how}.safetensors"
    sentences = (map("\t".join, zip(*pair, strict=True)) for pair in zip(words, labels, strict=True))
    path.write_text("".join("\n".join(lines) + "\n\n" for lines in sentences), encoding="utf-8")
    command = [sys.executable, "-c", _FITS[how] + _COSTS, str(path), str(model)]
    ended = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    costs = json.loads(ended.stdout.splitlines()[-1])
    score = token_accuracy if name == "addresses" else entity_f1_score
    figure = 100.0 * score(test_labels, predicted(how, model, test_words))
    files = [each for each in (model, *model.rglob("*")) if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    return {"set": name, "how": how, **costs, "file_kb": round(size / 1024), "score": round(figure, 2)}


_COLUMNS = ("cpu_seconds", "peak_mb", "file_kb")


def ratios(row: dict, rows: list[dict]) -> list[str]:
    """Return the costs of a row as shares of those of CRFsuite on the same set, empty where it was not run."""
    peer = next((own for own in rows if own["set"] == row["set"] and own["how"] == "crfsuite"), None)
    return [f"{row[column] / peer[column]:.2f}" if peer else "" for column in _COLUMNS]


def costs() -> str:
    """Return the table of the page."""
    rows = read_results(RESULT)
    lines = []
    for row in rows:
        own = [f"{row['cpu_seconds']:.1f}", f"{row['peak_mb']:,}", f"{row['file_kb']:,}"]
        shares = ratios(row, rows) if row["how"] != "crfsuite" else [""] * len(_COLUMNS)
        lines.append([row["set"], row["how"], f"{row['score']:.1f}", *own, *shares])
    return table(["set", "how", "score", "CPU s", "MB", "file kB", "CPU ratio", "memory ratio", "file ratio"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    usual = [how for how in _FITS if how != "spacy"]
    parser.add_argument("--hows", nargs="+", choices=list(_FITS), default=usual)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the result file")
    given = parser.parse_args()
    for name in given.sets:
        for how in given.hows:
            with tempfile.TemporaryDirectory() as folder:
                row = measure(name, how, Path(folder))
            merge_results(RESULT, [row], ("set", "how"), given.out)
            shown = ", ".join(ratios(row, read_results(RESULT, given.out)))
            print(
                f"{name:11} {how:9} {row['score']:6.2f}  {row['cpu_seconds']:6.1f} s of CPU  {row['peak_mb']:5,} MB"
                f"  {row['file_kb']:6,} kB  ratios {shown}",
                flush=True,
            )


if __name__ == "__main__":
    main()
