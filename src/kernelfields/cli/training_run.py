"""Training run: read, fit, write the model and its settings.

The model and its settings are written together, both or none, and then the report. Output files are tried before the
fit. Ctrl-C ends the fit with the best estimate so far, which is written as well.

Automatic choices of the fit are added to the settings, so that a repetition needs no choice.

Raises ValueError and OSError with messages for users; no file is written partially.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import typer

from kernelfields.cli import library
from kernelfields.cli.doubts import find_warnings
from kernelfields.cli.evaluate import write_report
from kernelfields.cli.labels import collect_labels, count_line, count_unknown, join_labels
from kernelfields.cli.messages import Console, ExitCode
from kernelfields.cli.models import (
    build_estimator,
    check_engine,
    check_labels,
    describe_kernel,
    get_template,
    has_transitions,
    is_dense,
    model_content,
    read_training_file,
)
from kernelfields.cli.settings import SETTINGS, STANDARD_STREAM, Parameters, RunSettings, settings_text
from kernelfields.data.constraints import guess_scheme
from kernelfields.data.text_files import check_outputs, check_writable, input_name, write_whole
from kernelfields.formats import SequenceFile, read_sequences
from kernelfields.inputs.scale import uneven_spreads
from kernelfields.models.choices import in_words
from kernelfields.numerics.wording import inflect
from kernelfields.reports.progress import FitProgress

_FINISHED = ("gap", "settled", "stationary", "early")


def settings_path(model: str) -> str:
    """Return the path of the settings file beside a model."""
    return str(Path(model).with_suffix(".toml"))


class TrainingRun:
    """A training run: its data, and the estimator to fit."""

    def __init__(self, settings: RunSettings, console: Console):
        _check_outputs(settings)
        check_engine(settings)  # raises now, not after the files were read
        self.settings, self.console = settings, console
        self.file = read_training_file(settings)
        self.reading = self.file.reading
        self.development: SequenceFile | None = None

    def run(self) -> ExitCode:
        """Fit the estimator, write the files and report the result."""
        y, name = self.file.y or [], input_name(str(self.settings.train))
        labels = collect_labels(y)
        self.console.info(count_line(name, y, self.file.part))
        for doubt in find_warnings(self.file, name):
            self.console.warn(doubt)
        self._check_segments(labels, count_unknown(y))
        if self.settings.dev is not None:
            self.development = read_sequences(self.settings.dev, **self.reading)
            advice = "leave such sequences out of the development file"
            check_labels(self.development, sorted(labels), self.settings.dev, advice)
        self._report_inputs()
        if self.settings.kernel == "auto" and not is_dense(self.file.X):
            self.settings = replace(self.settings, kernel="linear")
        self.crf = build_estimator(self.settings, transitions=has_transitions(self.reading))
        progress = FitProgress(self.console.level, max_iter=self.settings.max_iter, after=1)
        self._fit(progress)
        self._store_choices()
        progress.begin_step("writing")
        settings, beside = self.settings, settings_path(self.settings.model)
        write_whole(
            {
                settings.model: model_content(settings.model, self.crf, self.reading, settings),
                beside: settings_text(settings, beside).encode(),
            }
        )
        if settings.report is not None:
            self._write_report(settings.report)
        finished = self.crf.solution_.reason in _FINISHED
        self._report()
        if self.crf.solution_.reason == "interrupted":
            return ExitCode.INTERRUPTED
        return ExitCode.DONE if finished else ExitCode.SHORT

    def _check_segments(self, labels: set, unknown: int) -> None:
        """Raise if labels form no segments; report the segments of entity labels."""
        if not self.settings.segments:
            return
        if unknown and self.settings.max_duration is None:
            raise ValueError(
                "some labels are not known, nor how long segments are: a SegmentCRF needs --max-duration then"
            )
        if guess_scheme(labels) is not None:
            self.console.info(
                "labels write entities, and runs of equal labels are segments: an entity of several positions is B-X "
                "and a segment of I-X"
            )

    def _report_inputs(self) -> None:
        """Report the inputs: size, labels, features."""
        settings, template, console = self.settings, get_template(self.reading), self.console
        if template is not None and settings.template is None:
            lines = inflect(len(template.unigrams), "template line")
            console.info(f"no --template: {template.sees}, {lines} that --verbose shows; --template FILE replaces them")
            console.detail(template.text.rstrip())
        if not has_transitions(self.reading):
            console.info("the template has no B line: labels do not depend on their neighbours")
        given = any(value is not None for value in settings.part("kernel").values())
        scaled = not (given or "+" in settings.kernel)
        if is_dense(self.file.X) and settings.standardize is None and not scaled:
            rows = np.concatenate(self.file.X)
            if (uneven := uneven_spreads(rows, np.ones(len(rows)))) is not None:
                console.info(
                    f"columns have very different spreads, {uneven[0]:.3g} is usual and {uneven[1]:.3g} the largest: "
                    "--standardize brings them to one scale"
                )

    def _store_choices(self) -> None:
        """Add automatically chosen values to the settings, and report them."""
        chosen: Parameters = {"kernel": self.settings.kernel, **self.crf.choices_.chosen}
        term = next(term for term in self.crf.field_.terms if term.clique.kernel is not None)
        usual = {"prior_variance": term.prior_variance, "support": "all", "l1": 0.0, "rank": term.clique.rank or 0}
        usual["window"] = term.clique.window
        other = "chains" if self.settings.segments else "segments"
        given = asdict(self.settings)
        known: Parameters = {
            name: chosen.get(name, value)
            for name, value in usual.items()
            if given[name] is None and SETTINGS[name].only != other
        }
        if self.settings.standardize is None:
            known["standardize"] = self.crf.scale_
        if self.settings.kernel == "auto":
            known |= describe_kernel(term.clique.kernel)
        self.settings = replace(self.settings, **known)
        if self.crf.choices_.chosen:
            self.console.info(f"chosen: {in_words(chosen)}")

    def _fit(self, progress: FitProgress) -> None:
        """Fit the estimator."""
        self.crf.set_params(callbacks=[progress])
        held_out = self.development
        dev = {} if held_out is None else {"X_dev": held_out.X, "y_dev": held_out.y}
        self.crf.fit(self.file.X, self.file.y, sample_weight=self.file.weights, **dev)
        self.crf.set_params(callbacks=None)

    def _write_report(self, path: str) -> None:
        """Write the report on the fit; errors mention that the model is written."""
        model = self.settings.model
        title = f"{Path(model).name}, trained on {os.path.basename(input_name(str(self.settings.train)))}"
        try:
            write_report(path, self.crf, self.development or self.file, title)
        except OSError as error:
            kept = f"{error.strerror}; the model was written to {model}"
            raise OSError(error.errno, kept, error.filename) from error
        except KeyboardInterrupt as interrupt:
            self.console.warn(f"interrupted: there is no report, but the model was written to {model}")
            raise typer.Exit(ExitCode.INTERRUPTED) from interrupt

    def _report(self) -> None:
        """Report the result of the fit and the written files."""
        solution, settings, console = self.crf.solution_, self.settings, self.console
        figures = ("converged", "reason", "lower_bound", "relative_gap", "solver", "iterations", "passes", "seconds")
        document: Parameters = {
            "model": settings.model,
            "config": settings_path(settings.model),
            "objective": solution.value,
            **{name: getattr(solution, name) for name in figures},
            "n_sequences": len(self.file.X),
            "n_positions": sum(map(len, self.file.y or [])),
            "labels": self.crf.classes_,
        }
        if settings.segments:
            document["max_duration"] = self.crf.max_duration_
            console.info(f"segments of up to {inflect(self.crf.max_duration_, self.file.part)}")
        # A fit that ended otherwise has warned already, with the reason.
        why = f"; {solution.message}" if solution.reason in _FINISHED else ""
        if solution.reason == "gap" and (tol := solution.history[-1].tol) is not None:
            why = f"; it ends at {100 * tol:.2g} %"
        # Where labels are partly known there is no bound: the message tells that it is flat.
        near = f"{solution.nearness}; " if solution.history[-1].bounded else ""
        console.info(
            f"fit: {near}{inflect(solution.iterations, 'iteration')} of {solution.solver} in "
            f"{solution.seconds:.1f} s{why}"
        )
        console.detail(f"objective {solution.value:.6g}, relative gap {solution.relative_gap:.2g}")
        document |= self._report_accuracy()
        console.info(f"{inflect(len(self.crf.classes_), 'label')}: {join_labels(self.crf.classes_)}")
        written = [document["model"], document["config"], *([settings.report] if settings.report else [])]
        console.info(f"wrote {', '.join(written)}")
        # A name with blanks is to stay one word when the line is copied.
        model = shlex.quote(settings.model)
        console.info(f"next: kernelfields evaluate {model} TEST_FILE\n      kernelfields predict {model} FILE")
        if console.as_json:
            console.result("", document)

    def _report_accuracy(self) -> Parameters:
        """Report the accuracy on the development file, or else of the pilot fits."""
        crf, development, console = self.crf, self.development, self.console
        if development is not None:
            found = library.evaluate(crf, development.X, development.y, labels_only=True, n_resamples=0)
            figures = dict([found.headline, ("accuracy", found.accuracy)])
            words = ", ".join(f"{name} {figure.value:.4f}" for name, figure in figures.items())
            console.info(f"{self.settings.dev}: {words}")
            return {"dev_accuracy": found.accuracy.value}
        trial = _find_chosen_trial(crf.choices_)
        if trial is None:
            return {}
        console.info(f"held-out sequences, in the pilot fits: accuracy {trial.accuracy:.4f}")
        return {"held_out_accuracy": trial.accuracy}


def _find_chosen_trial(choices: library.Choices) -> library.Trial | None:
    """Return the pilot fit with the chosen settings, or None."""
    return next((each for each in choices.trials if each.settings.items() <= choices.chosen.items()), None)


def _check_outputs(settings: RunSettings) -> None:
    """Raise if an output file cannot be written, before the fit."""
    if settings.model == STANDARD_STREAM:
        raise ValueError("a model is written to a file: give --model a name")
    if settings.model.endswith(".toml"):
        raise ValueError("--model ends in .toml, where the settings of the run go: use .safetensors")
    read = [(name, setting) for name, setting in SETTINGS.items() if setting.file == "read"]
    inputs = {(setting.names or ("the training file",))[0]: vars(settings)[name] for name, setting in read}
    outputs = {"--model": settings.model, "--report": settings.report}
    check_outputs(outputs.items(), inputs.items())
    check_writable(settings.model)
    # Settings that were read are written again; nothing else may lie where they go.
    del inputs["--config"]
    beside = settings_path(settings.model)
    check_outputs([("the file of settings", beside)], [*outputs.items(), *inputs.items()])
    check_writable(beside)
    if settings.report is not None and settings.report != STANDARD_STREAM:
        check_writable(settings.report)
