"""Help of commands: options in panels, full texts; removed options name their replacement."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand

#: Options that earlier versions had, by command, and what to use now.
_GONE = {
    "train": {
        **dict.fromkeys(
            ("--search", "--folds", "--scoring", "--prior-variances", "--ranks"),
            "settings are chosen on held-out sequences by default; ChainCRFCV searches in Python",
        ),
        **dict.fromkeys(
            ("--checkpoint", "--checkpoint-seconds", "--resume"),
            "Checkpoint among the callbacks and warm_start do that in Python",
        ),
        "--c1": "use --l1",
        "--c2": "use --prior-variance, which is 1 / (2 c2)",
        "--array": "fit arrays in Python, or write them as a CSV table",
        "--device": "use --engine torch; Torch(device) in Python",
        "--memory": "Threads(memory) does that in Python",
        "--segment-kernel": "segments are scored by their positions and durations",
    },
    "predict": {
        "--stream": "crf.stream(lag) does that in Python",
        "--lag": "crf.stream(lag) does that in Python",
        "--segments": "use --entities",
        "--posterior": "use --decode posterior",
    },
    "evaluate": {"--posterior": "use --decode posterior"},
    "certify": {"--stored-data": "give the training file: kernelfields certify MODEL FILE"},
    "inspect": {"--html": "use --report of train or evaluate"},
    "rank": {
        "--strategy": "sequences and positions are ranked by their entropies",
        "--no-spread": "rank_for_labelling(spread=False) does that in Python",
    },
}


class HelpfulCommand(TyperCommand):
    """A command with option panels in its help, and with messages about removed options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the error for a removed option suggests its replacement."""
        gone = _GONE.get(str(self.name), {})
        for word in args[: args.index("--")] if "--" in args else args:
            if (option := word.split("=")[0]) in gone:
                ctx.fail(f"there is no {option} any more: {gone[option]}")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options of each panel, and the other options."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in sorted(self.get_params(ctx), key=lambda each: not getattr(each, "rich_help_panel", None)):
            is_argument = isinstance(parameter, TyperArgument)
            heading = getattr(parameter, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
            names = str(parameter.metavar) if is_argument else _write_names(parameter)
            if not getattr(parameter, "hidden", False):
                groups.setdefault(heading, []).append((names, _write_text(parameter)))
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _write_names(option: Any) -> str:
    """Format the names of an option, the short one first, with the metavariable of its value."""
    names = " / ".join([", ".join(sorted(option.opts, key=len)), *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.metavar or 'TEXT'}"


def _write_text(parameter: Any) -> str:
    """Format the help text of a parameter with its default."""
    shown = getattr(parameter, "show_default", False)
    default = shown if isinstance(shown, str) else parameter.default if shown is True else None
    # What is not given is often None, and a switch is off.
    return parameter.help if default in (None, False, True) else f"{parameter.help}  [default: {default}]"
