"""Predictions, ``kernelfields predict``: labels, probabilities and alternatives for new sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp
from typing import Annotated

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.labels import LabelSets, UnknownLabel, count_unknown
from kernelfields.cli.messages import Console, Jobs, ModelFile, command, json_text
from kernelfields.numerics.wording import inflect

# The memory for labellings is in proportion to their number.
_MOST_LABELLINGS = 1_000_000

Decode = Annotated[
    str | None,
    typer.Option(
        "--decode",
        help="viterbi: the best labelling as a whole; posterior: the most probable label at each position; "
        "by default what suits the labels.",
    ),
]


def check_decoding(decode: str | None) -> None:
    """Raise unless ``decode`` is a decoding, or None for that of the model."""
    if decode not in (None, "viterbi", "posterior"):
        raise ValueError(f"--decode must be viterbi or posterior, got {decode!r}")


@command(reads=("model", "file"), writes=("output",))
def predict(
    console: Console,
    model: ModelFile,
    file: Annotated[
        str, typer.Argument(help="Sequences to label; - is standard input.", metavar="FILE", show_default=False)
    ] = "-",
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where the labels go; - is standard output.", show_default=False)
    ] = "-",
    confidence: Annotated[bool, typer.Option("--confidence", help="Add the probability of each label.")] = False,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Add the probabilities of all labels at each position.")
    ] = False,
    nbest: Annotated[
        int,
        typer.Option(
            "--nbest",
            metavar="N",
            help="Write so many labellings of each sequence, the best first.",
            min=0,
            max=_MOST_LABELLINGS,
        ),
    ] = 0,
    entities: Annotated[
        bool,
        typer.Option(
            "--entities",
            help="Write the entities of each sequence, or runs of one label, or segments, as a line of JSON: label, "
            "words, begin, end, probability of the whole span, alternatives.",
        ),
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="The file is running text, a sentence on each line: it is cut into words.")
    ] = False,
    decode: Decode = None,
    known: Annotated[
        bool, typer.Option("--known", help="Labels in the file are known, and kept: fill in those that are unknown.")
    ] = False,
    unknown_label: UnknownLabel = None,
    label_sets: LabelSets = None,
    n_jobs: Jobs = None,
) -> None:
    """Label sequences with a trained model.

    \b
    The input is written again with the labels beside it: one more column in
    column files and CSV, the label read and the one predicted for CRFsuite's
    text. The column of true labels may be there or not. With
    --json every sequence is a line of JSON.

    \b
    Label a file, or what comes through a pipe:
      kernelfields predict chunks.safetensors new.conll -o labelled.conll
      cut -f 1,2 test.conll | kernelfields predict chunks.safetensors
    How sure is the model?
      kernelfields predict chunks.safetensors new.conll --confidence
    The five best labellings of each sequence:
      kernelfields predict chunks.safetensors new.conll --nbest 5
    How sure is the model of each entity, and what else might it be?
      kernelfields predict chunks.safetensors new.conll --entities
    Which entities are in a sentence?
      echo "In Rome." | kernelfields predict names.safetensors --text --entities
    Keep the labels that are there, and fill in where the file has a ?:
      kernelfields predict chunks.safetensors half.conll --known --confidence
    """
    import numpy as np

    check_decoding(decode)
    if nbest and (marginals or confidence or decode is not None):
        raise ValueError("--nbest writes whole labellings: leave out --marginals, --confidence, --decode")
    if not known and (unknown_label is not None or label_sets is not None):
        raise ValueError("--unknown-label and --label-sets are for --known, which keeps the labels of the file")
    if entities and (nbest or marginals or confidence or decode is not None):
        raise ValueError(
            "--entities writes the best entities with their probabilities: leave out --nbest, --marginals, "
            "--confidence, --decode"
        )
    if text and known:
        raise ValueError("--text has no labels that could be --known")
    trained = cli.load_model(model, n_jobs)
    crf, known_labels = trained.crf, None
    places: Sequence[cli.TextPlaces | None] | None = None
    if text:
        read, places = trained.read_text(file)
    elif known:
        read = trained.read(file, unknown_label=unknown_label, label_sets=label_sets)
        cli.check_labels(read, crf.classes_, file, "--unknown-label names how unknown labels are written")
        known_labels = read.y
    else:
        read = _read_inputs(trained, file)
        for doubt in cli.doubts.find_length_warnings(read, library.input_name(file)):
            console.warn(doubt)
    if entities:
        with library.open_text_output(output) as lines:
            texts = [None] * len(read.X) if places is None else places
            answers = zip(crf.predict_entities(read.X, known=known_labels), read.words, texts, strict=True)
            for found, words, text_places in answers:
                documents = [_entity_document(one, words, text_places) for one in found]
                lines.write(json_text({"entities": documents}) + "\n")
    elif console.as_json:
        with library.open_text_output(output) as lines:
            for line in _predict_documents(crf, read, nbest, marginals or confidence, decode, known_labels):
                lines.write(json_text(line) + "\n")
    elif nbest:
        _write_nbest(output, crf, read, nbest, known_labels)
    else:
        labels = crf.predict(read.X, decode, known=known_labels)
        probabilities = crf.predict_marginals(read.X, known=known_labels) if marginals or confidence else None
        if probabilities is not None and not marginals:
            chosen = [np.searchsorted(crf.classes_, of_sequence) for of_sequence in labels]
            probabilities = [p[np.arange(len(p)), columns] for p, columns in zip(probabilities, chosen, strict=True)]
        library.write_predictions(output, read, labels, probabilities, crf.classes_.tolist() if marginals else None)
    if known_labels is not None:
        console.info(f"filled in {inflect(count_unknown(known_labels), 'label')} of {sum(map(len, known_labels)):,}")
    console.info(f"labelled {inflect(len(read.X), 'sequence')} of {library.input_name(file)}")


def _read_inputs(trained: cli.TrainedModel, file: str) -> library.SequenceFile:
    """Read sequences without labels; errors about plain text name the option."""
    try:
        return trained.read(file, labels_required=False)
    except library.SequenceFileError as error:
        if trained.reading["format"] != "columns":
            raise
        raise library.SequenceFileError(f"{error} For running text, a sentence on each line: --text") from error


def _entity_document(
    found: library.Entity, words: list[str] | None, places: cli.TextPlaces | None
) -> dict[str, object]:
    """Return an entity as plain values: words, character offsets in running text, alternatives."""
    others = [_entity_document(other, words, places) for other in found.alternatives]
    document = found._asdict() | {"alternatives": others}
    if words is None:
        return document
    named: dict[str, object] = {"label": document.pop("label"), "words": words[found.begin : found.end]}
    if places is not None:
        text, tokens = places
        first, last = tokens[found.begin][0], tokens[found.end - 1][1]
        named |= {"text": text[first:last], "start_char": first, "end_char": last}
    return named | document


def _predict_documents(
    crf: cli.Field, file: library.SequenceFile, nbest: int, with_marginals: bool, decode: str | None, known: list | None
) -> Iterator[dict[str, object]]:
    """Yield the predictions for each sequence as plain values."""
    if nbest:
        for ranked in crf.predict_nbest(file.X, nbest, known=known):
            yield {"nbest": [{"labels": labels, "log_probability": logarithm} for labels, logarithm in ranked]}
        return
    labels = crf.predict(file.X, decode, known=known)
    if not with_marginals:
        yield from ({"labels": of_sequence} for of_sequence in labels)
        return
    classes = [str(label) for label in crf.classes_]
    for of_sequence, table in zip(labels, crf.predict_marginals(file.X, known=known), strict=True):
        yield {"labels": of_sequence, "marginals": [dict(zip(classes, row, strict=True)) for row in table]}


def _write_nbest(output: str, crf: cli.Field, file: library.SequenceFile, nbest: int, known: list | None) -> None:
    """Write the n best labellings of every sequence in the format of CRF++, each after its rank and probability."""
    if not isinstance(file, library.ColumnFile):
        raise ValueError(f"--nbest writes column files or, with --json, documents: this file is {file.format}")
    sequences, cells = [], []
    for sequence, ranked in zip(file.sequences, crf.predict_nbest(file.X, nbest, known=known), strict=True):
        for rank, (labels, logarithm) in enumerate(ranked):
            head = [(0, f"# {rank} {exp(logarithm):.6f}")]
            sequences.append(replace(sequence, kept=head))
            cells.append([[str(label)] for label in labels.tolist()])
    library.write_columns(output, sequences, cells)
