"""Labelling in the browser, ``kernelfields label``, and the agreement of annotators, ``kernelfields agreement``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kernelfields import cli
from kernelfields.cli import library
from kernelfields.cli.messages import Console, Jobs, command
from kernelfields.numerics.wording import inflect


@command(reads=("model", "guidelines", "against"), writes=("output", "journal"))
def label(
    console: Console,
    file: Annotated[
        str, typer.Argument(help="What to label; of brat, TextGrid and ELAN also a folder.", metavar="FILE")
    ],
    model: Annotated[str | None, typer.Option("--model", "-m", help="A model of train to begin with.")] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", help="The labels there are, or types of spans, with commas between.")
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            "--scheme",
            help="How spans are written: bio, iob1, bioes or bilou; none for a label of each position. By default that "
            "of the labels, else bio.",
        ),
    ] = None,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="columns, conllu, csv, text, doccano, labelstudio, brat, spacy, textgrid or elan; auto: by the name.",
        ),
    ] = "auto",
    label_column: Annotated[
        str | None, typer.Option("--label-column", help="Column of the labels, from 0; CSV: its name; the tier.")
    ] = None,
    sequence_column: Annotated[
        str | None, typer.Option("--sequence-column", help="The column that separates sequences of CSV.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="CSV: the columns of numbers that the time line draws, NAME,NAME.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where labels are saved; FILE itself, of texts FILE.conll.")
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option("--annotator", help="Whose labels these are: they go to a file of that name beside FILE."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", help="The labels of another annotator: differences are decided one by one."),
    ] = None,
    guidelines: Annotated[
        str | None, typer.Option("--guidelines", help="How to label, a file in Markdown: the page shows it.")
    ] = None,
    journal: Annotated[
        str | None, typer.Option("--journal", help="Where actions are kept; that file's name with .journal by default.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port; 0 for one that is free.", min=0, max=65535)
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    n_jobs: Jobs = None,
) -> None:
    """Label a file in the browser with the help of a model.

    \b
    Fix a label, and the rest of the sequence is decoded given it, at once. Every
    action is kept in a journal beside the file before the page shows it; the file
    is written when you save. Interrupt with Ctrl-C: nothing is lost.

    \b
    From nothing, with types of your own:
      kernelfields label notes.txt --labels drug,dose
    A label for each word:
      kernelfields label words.conll --labels NOUN,VERB,DET --scheme none
    Correct what a model predicts, in files of any format with words:
      kernelfields label new.conll --model drugs.safetensors
    Recordings of a table, two of its columns drawn:
      kernelfields label room.csv --sequence-column day --columns co2,light
    For two people, each in a file of their own:
      kernelfields label notes.txt --labels drug,dose --annotator anna
    Where the two disagree, one place after the other:
      kernelfields label notes.anna.conll --against notes.ben.conll -o notes.agreed.conll
    """
    import webbrowser
    from contextlib import closing, suppress

    if not file:
        raise ValueError("which file? FILE is empty")
    library.check_outputs([("--journal", journal)], [("FILE", file)])  # FILE may be where its labels are saved
    library.check_installed()  # before a journal is begun
    told = None if guidelines is None else library.read_guidelines(guidelines)
    trained = None if model is None else cli.load_model(model, n_jobs)
    options: dict[str, Any] = {} if sequence_column is None else {"sequence": sequence_column}
    if label_column is not None:
        options["label"] = int(label_column) if label_column.removeprefix("-").isdigit() else label_column
    field: Any = None
    if trained is not None:
        own = {**trained.reading}
        of_model = own.pop("format")
        named = library.guess_document_format(file) if file_format == "auto" else file_format
        if named in (None, of_model):
            options, file_format, field = own, of_model, trained.crf
    if columns is not None:
        options = {**options, "lanes": [name.strip() for name in columns.split(",") if name.strip()]}
    if annotator is not None:
        output = _annotator_path(output or file, annotator)
    if against is not None:
        output = output or _annotator_path(file, "agreed")
    decided = against is not None and Path(str(output)).exists()
    apart = annotator is not None or against is not None
    opened = library.open_file(file, file_format, output=output, blind=apart, **options)
    sides = None
    if against is not None:
        opened, sides = _read_sides(opened, file, against, file_format, options)
    X = opened.X if field is not None or opened.words is None else opened.words
    if model is not None and field is None:
        # A file of another format than those of the training: the model sees its words.
        if opened.words is None:
            raise ValueError(f"{file} has no words, and {model} reads files of the format {of_model}")
        field = library.get_field(library.load(model)).set_params(n_jobs=n_jobs)
        field.predict(X[:1])  # a model that takes no words is refused before there is a page
    labelling = library.LabellingSession(
        X,
        opened.y if against is None or decided else None,
        field,
        classes=None if labels is None else [part.strip() for part in labels.split(",") if part.strip()],
        scheme=opened.scheme if scheme is None else None if scheme == "none" else scheme,
        words=opened.words,
        columns=opened.columns,
        file=opened,
        guidelines=told,
        annotators=sides,
        journal=journal or f"{opened.path}.journal",
    )
    with closing(labelling):
        server = library.Server(labelling, port)
        if labelling.journal.actions:
            console.info(f"applied {inflect(len(labelling.journal.actions), 'action')} of the journal")
        n_unknown = int(labelling.left.sum())
        sizes = f"{inflect(len(labelling.lengths), 'item')}, {inflect(n_unknown, 'position')} not labelled"
        console.info(f"{opened.path}: {sizes}")
        console.info(f"labelling {file} at {server.address}")
        if browser:
            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):  # how the page is ended
            server.run()
        if left := len(labelling.journal.actions):
            console.info(
                f"{inflect(left, 'action')} not saved in {opened.path} yet: they are in {labelling.journal.path}, and "
                "the same command goes on from there"
            )


@command()
def agreement(
    console: Console,
    files: Annotated[list[str], typer.Argument(help="The files of two annotators or more.", metavar="FILE...")],
) -> None:
    """Report the agreement of annotators: the share of equal labels, kappa, and F1 of spans.

    \b
    Files of label --annotator, of any format that label opens:
      kernelfields agreement notes.anna.conll notes.ben.conll
    """
    opened = dict(zip(files, library.align_words([library.open_file(path) for path in files]), strict=True))
    first, *others = opened.values()
    for other in others:
        if other.words != first.words:
            raise ValueError(f"{first.path} and {other.path} have different words: they are no labels of the same file")
    table = library.agreement({path: own.y or [None] * len(own.X) for path, own in opened.items()})
    console.result(str(table), table.to_dict())


def _read_sides(
    decided: Any, file: str, against: str, file_format: str, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the reference file, and the labels of two files by name; ValueError if their texts differ."""
    opened = [library.open_file(path, file_format, **options) for path in (file, against)]
    decided, one, other = library.align_words([decided, *opened])
    if one.words != other.words or len(one.X) != len(other.X):
        raise ValueError(f"{file} and {against} have different words: they are no labels of the same file")
    if one.path.name == other.path.name:
        raise ValueError(f"--against {against} has the name of FILE: name the files by their annotators")
    return decided, {own.path.name: own.y or [None] * len(own.X) for own in (one, other)}


def _annotator_path(path: str, name: str) -> str:
    """Return the path for an annotator: notes.anna.conll for notes.conll, a column file for a text."""
    if not name or not name.isprintable() or set(name) & set("/\\"):
        raise ValueError(f"the name of an annotator becomes part of the name of a file, got {name!r:.40}")
    place = Path(path)
    ending = ".conll" if place.suffix in ("", ".txt") and not place.is_dir() else place.suffix
    return str(place.with_name(f"{place.stem}.{name}{ending}"))
