"""The house in numbers: its sizes, the files that a call enters, and what is written down in many places.

    python -m benchmarks.house [CHECKOUT ...] [--list]

One column for each checkout of the project, this one without arguments, so that two can be compared. A branch on a
feature is a condition whose text names it, in a file that is not its own room. A file is entered by a call when one of
its functions runs, compiled ones included. Words are counted by the files of the package that have them. A private name
of others is an attribute with an underscore of anything but self or cls whose room neither defines that name nor has it
on self, or any such name that getattr and the like are given. ``--list`` names the files that a call enters.
"""

from __future__ import annotations

import argparse
import ast
import collections
import dataclasses
import inspect
import io
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import tokenize
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROOMS = ("src", "tests", "tests/campaigns", "benchmarks", "experiments", "examples", "docs", "release")
WORDS = ("evidence", "allowed", "l1", "ties", "on_host")
#: Features: what a condition on one says, and the files that are its own room.
BRANCHES = {
    "partial labels": (
        r"\b(partial\w*|certain|informative|(?<!support\.)complete|completed(?! - before)|completion|is_partial)\b",
        r"data/partial_(labels|rows)|data/given_labels|models/partial|likelihoods/|models/expectations|^formats/annot",
    ),
    "auto": (
        r"\bis_auto\(|\b(kernel|solver|engine|support|l1|scoring|label_graph|dtype)\b.{0,3}[!=]= 'auto'",
        r"auto_parameters|estimators/tuning|pilot_fit|pilot_folds|^tuning/|^cli/",
    ),
    "l1": (r"\bl1\b", r"objective/penalty|solvers/orthant|models/working_set|objective/stochastic"),
    "continuation": (
        # Approximate inference has a warm_start of its own, among its options.
        r"\b(_?continues|continuation_?|Continu\w+)\b|(?<!options\.)\bwarm_start\b",
        r"models/continuation|estimators/(going_on|later_fits)",
    ),
    "evidence": (r"\b(\w*evidence\w*|optimize)\b", r"posterior/evidence"),
    "Dask": (
        r"\b(lie_with|is_collection|dask|Dask|collections?|RUNNING)\b|\bgroup\.(size|rank)\b|\bamong\b",
        r"engines/dask|engines/together|numerics/group",
    ),
    "support": (r"\b(\w*support\w*|observed_only)\b", r"designs/(pairs|supports)"),
    "allowed": (r"\.allowed\b|\ballowed(\.\w+)? is\b", r"data/allowed|label_dictionary|chain/lists|likelihoods/lists"),
    "scale": (r"\b(scaling|_scales)\b|\b(self|estimator)\.scale\b|\band scale\b", r"data/scaling|^inputs/"),
    "device": (r"\b(device\w*|on_host|weighted_gram)\b", r"engines/torch"),
    "ties": (r"\b(ties|has_shared_coefficients)\b", r"data/ties|tied_coefficients|basis/orbits"),
}
#: Files that may speak of a step of a fit: its own room, and where users ask for it or see what it found.
STEPS = {
    "annotators": r"annotators/",
    "development": r"models/development",
    "checkpoint": r"models/callbacks",
    "growing": r"models/growing",
    # The step, the number that it makes as large as it can, and the attributes and answers that have both.
    "evidence": (
        r"posterior/evidence|posterior/laplace|estimators/(kept_field|field_documents|answering/posterior|library)"
    ),
}
#: Where users ask: stubs of public names, kinds of model files, the command.
DOORS = r"__init__\.pyi$|^files\.py$|^cli/"
PROBES = (r"\bhasattr\(", r"\bgetattr\(", r"__dict__")
LONGEST = "estimators/base.py"
#: What the numerical half speaks through.
PROTOCOLS = ("Datafit", "LabelFamily", "LogPosterior", "InputReader")
#: The core: what a fit of one chain with one kernel, and its answers, are made of; names of earlier files among them.
CORE = {
    "families": (
        "inference/(family|potentials|single|packing|base_measure|checks|answers|choice|sums_compiled)",
        "inference/chain/(family|dense|decoding|recursions|step_passes|pairs_compiled|scaled_compiled|plain)",
        "inference/chain/moments_compiled",
    ),
    "objective": (
        "objective/(blocks|bounds|coordinates|datafit|metric|outside|penalty|posterior|term|work)",
        "objective/designs/(design|tables|memory)",
        "objective/likelihoods/likelihood",
    ),
    "solvers": ("solvers/(choice|lbfgs|loop|newton)",),
    "fitting": (
        "models/(assessment|build|documents|field|fit|model_file|placed|starts|stored|stored_values)",
        "estimators/fit_state",
    ),
    "engines": ("engines/(choice|engine|threads|view)", "objective/group"),
    "estimators": (
        "estimators/(answers|base|chain_crf|edges|kept_field|kernel_classifier|labelled_field|questions|requested)",
        "estimators/(workers|answering/(decisions|formats))",
        "structures/(structure|chains)",
    ),
}
#: Words of what a plain fit does not use, by what they are part of; plurals count as well.
PLUG_INS = {
    "structures": ("segment", "ring", "graph", "junction", "ngram", "instance"),
    "weights": ("support", "l1", "tie", "orthant", "fused", "threshold"),
    "labels": ("target", "expectation", "allowed", "listed"),
    "tuning": ("auto", "evidence", "pilot"),
    "places": ("torch", "device", "dask", "cluster", "budget"),
    "answers": ("laplace", "stream", "conformal"),
    "fits": ("continuation", "warm", "annotator", "development", "checkpoint", "growing", "callback"),
    "columns": ("category", "window", "neighbour", "scale"),
}
#: Where the solver's first step is.
SOLVER = ("solvers/loop.py", "DirectionRule.first_point")


def entered(package: Path, call: Callable[[], object], until: tuple[str, str] = ("", "")) -> dict[str, int]:
    """Return how many functions of each file of the package a call runs, until it enters a function of a file."""
    seen: dict[str, set[str]] = {}
    folder = f"{package}{os.sep}"

    def note(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        file = code.co_filename.removeprefix(folder)
        if until[1] in seen.get(until[0], ()):
            return
        if event == "call" and file != code.co_filename and code.co_name != "<module>":
            seen.setdefault(file, set()).add(code.co_qualname)

    call()  # so that modules which are loaded with the first call do not count
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {file: len(functions) for file, functions in sorted(seen.items())}


def idle_functions(package: Path, call: Callable[[], object]) -> list[str]:
    """Return the functions of the package which a call runs and which bring it nothing, whenever they run.

    They answer with None, False or nothing in it, leave the attributes of ``self`` as they are, and call nothing else
    of the package: whether a feature is in use is all that they are there for, or that inputs are sound.
    """
    folder, idle, useful = f"{package}{os.sep}", set[str](), set[str]()
    before: dict[int, int] = {}

    def state(frame: Any) -> int:
        owner = frame.f_locals.get("self")
        return hash(tuple((name, id(value)) for name, value in getattr(owner, "__dict__", {}).items()))

    def note(frame: Any, event: str, answer: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(folder) or code.co_name.startswith("<") or event not in ("call", "return"):
            return
        name = f"{code.co_filename.removeprefix(folder)} {code.co_qualname}"
        if event == "call":
            before[id(frame)] = state(frame)
            if frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(folder):
                caller = frame.f_back.f_code
                useful.add(f"{caller.co_filename.removeprefix(folder)} {caller.co_qualname}")
        else:
            nothing = answer is None or answer is False or (isinstance(answer, tuple | list | dict) and not answer)
            (idle if nothing and before.pop(id(frame), None) == state(frame) else useful).add(name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(idle - useful)


def running(package: Path) -> dict:
    """Return what calls enter, and what the package offers: of the package that this process imports."""
    import kernelfields
    from kernelfields import ChainCRF

    warnings.simplefilter("ignore")
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(3, size=4), 3) for _ in range(40)]
    X = [np.eye(3)[labels] + random.normal(size=(12, 3)) for labels in y]
    crf = ChainCRF("rbf", rank=50, random_state=0)
    crf.fit(X, y)
    modules, lines = loaded(package)
    given = ChainCRF("rbf", rank=50, window=1, scale=False, prior_variance=1.0, random_state=0)
    from kernelfields.estimators.fit_state import FitState

    classes = [each for name in kernelfields.__all__ if inspect.isclass(each := getattr(kernelfields, name))]
    return {
        "calls": {
            "fit": entered(package, lambda: crf.fit(X, y)),
            "a fit of given settings": entered(package, lambda: given.fit(X, y)),
            "it to the solver's first step": entered(package, lambda: given.fit(X, y), SOLVER),
            "predict_marginals": entered(package, lambda: crf.predict_marginals(X)),
            "laplace": entered(package, lambda: crf.laplace(X, y, random_state=0)),
        },
        "idle": idle_functions(package, lambda: given.fit(X, y)),
        "names": len(kernelfields.__all__),
        "parameters": max(len(inspect.signature(each).parameters) for each in classes),
        "modules": modules,
        "lines": lines,
        "state": len(dataclasses.fields(FitState)),
        "inheritance": inheritance(),
    }


def sources(folder: Path) -> list[Path]:
    """Return the files of Python in a folder, stubs included."""
    return [*folder.rglob("*.py"), *folder.rglob("*.pyi")]


def conditions(text: str) -> list[str]:
    """Return the conditions of a file, as text: of if, while, conditional expressions and comprehensions."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            found.append(node.test)
        elif isinstance(node, ast.comprehension):
            found += node.ifs
    return [ast.unparse(each) for each in found]


def branches(texts: dict[str, str]) -> dict[str, str]:
    """Return how many conditions ask for a feature outside of its room, and in how many files."""
    asked = [(place, each) for place, text in texts.items() for each in conditions(text)]
    counts = {}
    for feature, (word, room) in BRANCHES.items():
        places = [place for place, each in asked if re.search(word, each) and not re.search(room, place)]
        counts[f"branches on {feature} / files"] = f"{len(places)} / {len(set(places))}"
    return counts


def words_in_code(text: str) -> set[str]:
    """Return the words of all names in a file, comments and strings left out."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        fields = (getattr(node, field, None) for field in ("id", "attr", "name", "arg", "module"))
        names |= {name for name in fields if isinstance(name, str)}
    return {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def plug_in_words(texts: dict[str, str]) -> dict[str, int]:
    """Return how often the names of the core's files have each word of a plug-in."""
    counts: collections.Counter[str] = collections.Counter()
    for place in core_files(texts):
        for node in ast.walk(ast.parse(texts[place])):
            fields = (getattr(node, field, None) for field in ("id", "attr", "name", "arg"))
            for name in (name for name in fields if isinstance(name, str)):
                counts.update({word.lower() for word in re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*", name)})
    plurals = {word: {f"{word}s", f"{word[:-1]}ies"} for words in PLUG_INS.values() for word in words}
    return {word: counts[word] + sum(counts[each] for each in forms) for word, forms in plurals.items()}


def files_that_name_steps(texts: dict[str, str]) -> dict[str, str]:
    """Return how many files name each step of a fit outside of its room."""
    words = {place: words_in_code(text) for place, text in texts.items()}
    return {
        f"files that name {step}": str(
            sum(
                bool({step, f"{step}s"} & own) and not re.search(f"{room}|{DOORS}", place)
                for place, own in words.items()
            )
        )
        for step, room in STEPS.items()
    }


def composition(texts: dict[str, str]) -> dict[str, str]:
    """Return what composition is measured by: late imports, names for checkers of types, classes of any name."""
    late = typed = wrappers = 0
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = [each for each in ast.walk(node) if isinstance(each, ast.ImportFrom)]
                late += sum((each.module or "").startswith("kernelfields") for each in own)
                wrappers += node.name == "__getattr__" and answers_any_name(node)
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                typed += sum(len(each.names) for each in ast.walk(node) if isinstance(each, ast.ImportFrom))
    return {
        "imports inside functions": str(late),
        "names under TYPE_CHECKING": str(typed),
        "classes that answer any name": str(wrappers),
    }


def methods(texts: dict[str, str]) -> dict[str, str]:
    """Return how many methods each class has that the numerical half speaks through, of own bases as well.

    Properties are methods; dunder methods are not counted.
    """
    classes = {
        node.name: node
        for text in texts.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }

    def own(name: str) -> set[str]:
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name) and base.id in classes]
        names = {node.name for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        return {each for each in names if each[:2] != "__"}.union(*map(own, bases))

    return {f"methods of {name}": str(len(own(name))) if name in classes else "-" for name in PROTOCOLS}


def core_files(places: Iterable[str]) -> list[str]:
    """Return the files of the core among those of the package."""
    patterns = [pattern for room in CORE.values() for pattern in room]
    return sorted(place for place in places if any(re.fullmatch(rf"{pattern}\.py", place) for pattern in patterns))


def code_lines(text: str) -> int:
    """Return how many lines of a file have code: neither docstrings nor comments alone, nor nothing."""
    lines: set[int] = set()
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, node.value.end_lineno + 1))  # type: ignore[operator]
    return len(lines)


def answers_any_name(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether ``__getattr__`` of a class returns anything: one that looks up the name again only words the error."""
    of_class = bool(method.args.args) and method.args.args[0].arg == "self"
    returned = [ast.unparse(each.value) for each in ast.walk(method) if isinstance(each, ast.Return) and each.value]
    return of_class and any(not each.startswith("object.__getattribute__(") for each in returned)


def inheritance() -> dict[str, int]:
    """Return how many own classes estimators are made of, and how many names are overridden among them."""
    import kernelfields

    names = ("ChainCRF", "SegmentCRF", "RingCRF", "GraphCRF", "MultiLabelCRF", "KernelClassifier", "SequenceClassifier")

    def own(kind: type) -> list[type]:
        return [base for base in kind.__mro__ if base.__module__.startswith("kernelfields")]

    overridden: set[str] = set()
    kinds = [getattr(kernelfields, name) for name in names]
    for kind in kinds:
        defined = collections.Counter(
            name
            for base in own(kind)
            for name, value in vars(base).items()
            if (callable(value) or isinstance(value, property | classmethod | staticmethod)) and name[:2] != "__"
        )
        overridden |= {name for name, count in defined.items() if count > 1}
    public = [name for name in dir(kernelfields.ChainCRF()) if name[0] != "_"]
    return {
        "own classes of ChainCRF": len(own(kernelfields.ChainCRF)),
        "most own classes of an estimator": max(len(own(kind)) for kind in kinds),
        "names overridden": len(overridden),
        "public names of ChainCRF": len(public),
    }


def loaded(package: Path) -> tuple[int, int]:
    """Return how many modules of the package are loaded in this process, and their lines."""
    files = {module.__file__ for name, module in list(sys.modules.items()) if name.startswith("kernelfields")}
    paths = [Path(file) for file in files if file and file.startswith(str(package))]
    return len(paths), sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def private_names_of_others(texts: Iterable[str]) -> int:
    """Return how often the files of a room use a private name of an object that the room did not define."""
    own, used = set(dir(collections.namedtuple("Fields", []))), []
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute):
            at_home = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if at_home or isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            used += [] if at_home else [node.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
            used += [str(name.value) for name in node.args[1:2] if isinstance(name, ast.Constant)]
    return sum(name[0] == "_" != name[1:2] for name in used if name not in own)


def numbers(checkout: Path, listed: bool) -> dict[str, str]:
    """Return the numbers of a checkout, in words."""
    package = checkout / "src" / "kernelfields"
    sizes = {}
    counted: set[Path] = set()
    for room in sorted(ROOMS, key=len, reverse=True):  # a room inside another counts by itself
        paths = set(sources(checkout / room)) - counted
        counted |= paths
        sizes[room] = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths), len(paths)
    texts = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in sources(package)}
    paths = os.pathsep.join([str(checkout / "src"), str(Path(__file__).resolve().parents[1])])
    command = [sys.executable, "-m", "benchmarks.house", "--running", str(package)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths})
    found = json.loads(done.stdout)
    for call, files in found["calls"].items() if listed else ():
        print(f"{call}: {', '.join(f'{file} {count}' for file, count in files.items())}\n")
    if listed:
        print(f"only ask: {', '.join(found['idle'])}\n")
    longest = {
        (owner.name, node.name)
        for owner in ast.parse(texts.get(LONGEST, "")).body
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    }
    named = [sum(bool(re.search(rf"\b{word}\b", text)) for text in texts.values()) for word in WORDS]
    probes = [sum(len(re.findall(probe, text)) for text in texts.values()) for probe in PROBES]
    rooms = itertools.groupby(sorted(texts), key=lambda place: place.split("/")[0])
    private = sum(private_names_of_others(texts[place] for place in places) for _, places in rooms)
    folders, core = [Path(place).parent for place in texts], core_files(texts)
    return {
        "lines / files under src": "{:,} / {:,}".format(*sizes["src"]),
        "lines of code under src": f"{sum(map(code_lines, texts.values())):,}",
        "lines / files of the core": f"{sum(len(texts[each].splitlines()) for each in core):,} / {len(core)}",
        "lines of Python in all": f"{sum(lines for lines, _ in sizes.values()):,}",
        **{f"  {room}, lines / files": "{:,} / {:,}".format(*sizes[room]) for room in ROOMS[1:]},
        "words of plug-ins in the core": f"{sum(plug_in_words(texts).values()):,}",
        **{f"files entered by {call}": str(len(files)) for call, files in found["calls"].items()},
        **{f"functions run by {call}": str(sum(files.values())) for call, files in found["calls"].items()},
        **{f"files that name {word}": str(count) for word, count in zip(WORDS, named, strict=True)},
        "functions of it that only ask": str(len(found["idle"])),
        "modules a plain fit loads / lines": f"{found['modules']} / {found['lines']:,}",
        "fields of FitState": str(found["state"]),
        **{what: str(count) for what, count in found["inheritance"].items()},
        **methods(texts),
        **composition(texts),
        **branches(texts),
        **files_that_name_steps(texts),
        "hasattr / getattr / __dict__": " / ".join(map(str, probes)),
        "private names of others": str(private),
        f"{LONGEST}, lines / methods": f"{len(texts.get(LONGEST, '').splitlines()):,} / {len(longest)}",
        "longest file, lines": str(max(len(text.splitlines()) for text in texts.values())),
        "largest folder, files": str(max(map(folders.count, folders))),
        "names at the top": str(found["names"]),
        "most parameters of an estimator": str(found["parameters"]),
    }


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).resolve().parents[1]])
    parser.add_argument("--list", action="store_true", help="name the files that calls enter")
    parser.add_argument("--running", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.running:
        print(json.dumps(running(asked.running)))
        return
    columns = [numbers(checkout.resolve(), asked.list) for checkout in asked.checkouts]
    for what in columns[0]:
        print(f"{what:<36}{''.join(f'{column[what]:>20}' for column in columns)}")


if __name__ == "__main__":
    main()
