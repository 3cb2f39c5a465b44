"""``kernelfields inspect``: what a model has learnt, and why it labels a sequence as it does."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kernelfields.command.messages import Voice, explains_errors
from kernelfields.command.options import AsJson, ModelFile, Quiet, Verbose

_HEADINGS = {
    "model": "The model",
    "weights": "What speaks for which label?",
    "explanation": "Why this labelling?",
}


@explains_errors
def inspect(
    model: ModelFile,
    top: Annotated[int, typer.Option("--top", help="Weights of each label.", min=1)] = 10,
    label: Annotated[list[str] | None, typer.Option("--label", help="Only this label; may be repeated.")] = None,
    features: Annotated[
        str | None, typer.Option("--features", help="Only features in which this regular expression is found.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", help="A file: why is one of its sequences labelled as it is?")
    ] = None,
    sequence: Annotated[int, typer.Option("--sequence", help="With --explain: which one, from 0.", min=0)] = 0,
    html: Annotated[str | None, typer.Option("--html", help="Write the tables as an HTML page here.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show what a model has learnt.

    \b
    Its labels, clique sets and certificates, the largest weights of each
    label, and the transitions. Kernels without explicit features, such as rbf,
    have no weights per feature; --explain works for all.

    \b
    The model at a glance:
      kernelfields inspect chunks.safetensors
    What speaks for one label, among features of the first template line:
      kernelfields inspect chunks.safetensors --label B-NP --features '^U00'
    Why is the third sentence labelled as it is?
      kernelfields inspect chunks.safetensors --explain test.conll --sequence 2
    """
    from kernelfields.command.model_reports import words_of
    from kernelfields.command.trained_models import load_model
    from kernelfields.formats.text_files import open_text_output
    from kernelfields.reports.page import page, section

    voice = Voice(quiet=quiet, verbose=verbose, as_json=as_json)
    trained = load_model(model)
    crf = trained.crf
    shown: dict[str, Any]
    if explain is not None:
        if label or features is not None:
            raise ValueError("--label and --features are for tables of weights, not for --explain")
        read = trained.reader.read(explain, labels_required=False)
        if sequence >= len(read.X):
            raise ValueError(f"{explain} holds {len(read.X)} sequences, 0 to {len(read.X) - 1}: no {sequence}")
        explanation = crf.explain(read.X[sequence], top=top, tokens=words_of(read)[sequence])
        shown = {"explanation": explanation}
    else:
        labels = None if not label else [_as_class(each, crf.classes_) for each in label]
        weights = crf.weights(top=top, labels=labels, feature_re=features)
        summary = crf.summary()
        shown = {"model": summary, "weights": weights}
    if html is not None:
        parts = [section(_HEADINGS[name], each) for name, each in shown.items()]
        with open_text_output(html) as stream:
            stream.write(page(model, "", parts))
        voice.say(f"wrote {html}")
    document = {name: each.to_dict() for name, each in shown.items()}
    voice.result("\n\n".join(map(str, shown.values())), document)


def _as_class(text: str, classes: object) -> object:
    """Return the label that a text stands for: labels of .npz files may be numbers."""
    return next((each for each in classes.tolist() if str(each) == text), text)  # type: ignore[attr-defined]
