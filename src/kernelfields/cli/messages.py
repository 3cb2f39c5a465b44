"""Messages and exit codes: results on standard output, all else on standard error.

    0    success
    1    a result below the requirements: a fit above its tolerance, a certificate above the limit
    2    failure: an invalid option, an unreadable or unwritable file, unsuitable data
    130  interrupted by Ctrl-C

``command`` makes a command of a function: it adds the options that all commands share, and turns errors into one
message without a traceback; ``--verbose`` shows the traceback as well. Only errors about user input that
the library or the system raises are treated this way; any other error is a bug. ``CommandGroup`` does the same for help
and other output outside of commands.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TextIO, get_args

import typer
from typer.core import TyperGroup

from kernelfields.cli import library
from kernelfields.cli.settings import MOST_THREADS

Jobs = Annotated[
    int | None,
    typer.Option(
        "--n-jobs", "-j", metavar="N", help="Threads; -1 means all cores.", show_default="all cores", max=MOST_THREADS
    ),
]
ModelFile = Annotated[str, typer.Argument(help="A model that kernelfields train wrote.", metavar="MODEL")]
#: The options that become the console of a command.
_SHARED_OPTIONS = {
    "as_json": typer.Option("--json", help="Write the result as JSON to standard output, for machines."),
    "quiet": typer.Option("--quiet", "-q", help="Say nothing but warnings and errors."),
    "verbose": typer.Option("--verbose", "-v", help="Say more: every iteration, tracebacks of errors."),
}
Command = Callable[..., None]


class ExitCode(IntEnum):
    """Exit codes of commands."""

    DONE = 0
    SHORT = 1
    WRONG = 2
    INTERRUPTED = 130


class Console:
    """Output of a command by level: "quiet" has warnings and errors only, "verbose" everything."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, as_json: bool = False):
        if quiet and verbose:
            raise ValueError("--quiet and --verbose cannot go together")
        self.quiet, self.verbose, self.as_json = quiet, verbose, as_json

    @property
    def level(self) -> int:
        """The value 0, 1 or 2 for ``verbose`` of an estimator."""
        return 0 if self.quiet else 1 + self.verbose

    def info(self, text: str) -> None:
        """Write a message, unless the level is quiet."""
        if not self.quiet:
            typer.echo(text, err=True)

    def detail(self, text: str) -> None:
        """Write a message if the level is verbose."""
        if self.verbose:
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Write a warning."""
        typer.echo(f"warning: {text}", err=True)

    def result(self, text: str, document: object) -> None:
        """Write the result to standard output: text, or one JSON document."""
        with library.standard_output():
            typer.echo(json_text(document) if self.as_json else text)

    @contextmanager
    def show_warnings(self) -> Iterator[None]:
        """Return a context in which warnings of the library become messages, without repetitions."""
        shown: set[str] = set()

        def show(message: Warning | str, *about: object, **more: object) -> None:
            """Write a warning unless an equal one was written before."""
            text = " ".join(str(message).split())
            if text not in shown:
                shown.add(text)
                self.warn(text)

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            for concern_of_programmers in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", concern_of_programmers)
            warnings.showwarning = show
            yield


def json_text(document: object) -> str:
    """Format a document as one line of strict JSON; infinity and NaN become null."""
    return json.dumps(library.json_value(document), ensure_ascii=False, allow_nan=False)


def command(
    *,
    options: Sequence[Parameter] = (),
    as_json: bool = True,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
) -> Callable[[Command], Command]:
    """Make a command from ``function(console, ...)``, with the options --json, --quiet and --verbose.

    Its options are the parameters of the function, and ``options`` if it takes more of them by ``**``. ``reads`` and
    ``writes`` name those that are files: none that is written may be one that is read, or another that is written.
    """
    shared = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option])
        for name, option in _SHARED_OPTIONS.items()
        if as_json or name != "as_json"
    ]

    def decorate(function: Command) -> Command:
        """Return the command of a function."""
        _, *parameters = signature(function, eval_str=True).parameters.values()
        named = [parameter for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD]
        shown = {each.name: _find_displayed_name(each) for each in [*named, *options]}

        @functools.wraps(function)
        def with_console(**values: object) -> None:
            """Call the function with a console."""
            console = Console(**{option.name: bool(values.pop(option.name)) for option in shared})
            with console.show_warnings():
                if writes:
                    files = [[(shown[name], values[name]) for name in names] for names in (writes, reads)]
                    library.check_outputs(*files)  # type: ignore[arg-type]  # names of files, or None
                function(console, **values)

        made = explain_errors(with_console)
        # typer makes the options of the signature.
        made.__signature__ = Signature([*named, *options, *shared])  # type: ignore[attr-defined]
        return made

    return decorate


def _find_displayed_name(parameter: Parameter) -> str:
    """Return the name of a parameter in messages: the long option, or the metavariable of an argument."""
    about = next((each for each in get_args(parameter.annotation)[1:] if hasattr(each, "param_decls")), None)
    if about is None:
        return parameter.name
    # typer takes the first name of an option for its default, and sorts that out later.
    declared = [about.default, *(about.param_decls or ())]
    names = [name for name in declared if isinstance(name, str) and name.startswith("--")]
    return names[0] if names else about.metavar or parameter.name


def explain_errors(function: Command) -> Command:
    """Return a function that turns expected errors of a command into a message and an exit code."""

    @functools.wraps(function)
    def run_command(*arguments: object, **options: object) -> None:
        """Call the command; after an expected error, exit with a message and a code."""
        try:
            function(*arguments, **options)
        except BrokenPipeError:
            raise  # the reader of the output has closed it: no message
        except (ValueError, OSError, MemoryError, ImportError) as error:  # an extra may be missing
            if options.get("verbose") and not options.get("quiet"):
                typer.echo(traceback.format_exc(), err=True, nl=False)
            typer.echo(f"error: {_error_text(error)}", err=True)
            raise typer.Exit(ExitCode.WRONG) from error
        except KeyboardInterrupt as interrupt:
            typer.echo("interrupted; nothing was written", err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from interrupt

    return run_command


class CommandGroup(TyperGroup):
    """The group of all commands; if standard output cannot encode a text, it exits with a message."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands with the complete first line of their help."""
        commands = [command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name)) is not None]
        shown = [(str(each.name), (each.help or "").split("\n\n")[0]) for each in commands if not each.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command with the name in the arguments."""
        if args and args[0] == "bench":
            ctx.fail("there is no command bench any more: use python -m benchmarks.NAME in a checkout")
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, **options: Any) -> object:
        """Run the command in the arguments."""
        # Python has None for streams that were closed (``>&-``), and echo then writes nothing without a word: in their
        # place come streams whose errors report that they cannot be read from or written to.
        if sys.stdin is None:
            sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: SIM115
        if sys.stdout is None:
            sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
        try:
            try:
                return super().main(*arguments, **options)
            finally:
                sys.stdout.flush()  # here, because an error at the end of Python has an exit code of its own
        except OSError as error:
            _discard_buffer(sys.stdout)
            if error.errno == errno.EPIPE:  # the reader of the output has closed it
                sys.exit(ExitCode.SHORT)
            before = error.__context__
            if not (isinstance(before, SystemExit) and before.code == ExitCode.WRONG):  # no message yet
                try:
                    typer.echo(f"error: standard output: cannot write: {error.strerror}", err=True)
                except OSError:  # messages cannot be written either, and the exit code alone is left
                    _discard_buffer(sys.stderr)
            sys.exit(ExitCode.WRONG)


def _discard_buffer(stream: TextIO) -> None:
    """Discard the buffer of a stream, which Python would fail to write at exit."""
    with suppress(io.UnsupportedOperation):  # a stream without a file has no buffer that matters
        target = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, target)
        os.close(nowhere)


def _error_text(error: BaseException) -> str:
    """Return the message of an error, with the file first."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) and not text:
        return "there is not enough memory for this"
    return text or type(error).__name__
