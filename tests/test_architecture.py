"""The plan of the house: who may import whom, how long a file may be, and what an import may load."""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "kernelfields"
MODULES = sorted(SOURCE.rglob("*.py"))

_LOWEST = {"numerics", "kernels", "fields", "features", "basis", "inference"}
_BELOW_MODELS = _LOWEST | {"objective", "solvers", "engines", "formats"}
_BELOW_ESTIMATORS = _BELOW_MODELS | {"models", "structure", "uncertainty", "family", "reports", "evaluation"}

#: The rooms each room may import from, besides itself. No room is exempt.
MAY_IMPORT = {
    "numerics": set(),
    "kernels": {"numerics"},
    "fields": {"numerics"},
    "features": {"fields", "numerics"},
    "basis": {"kernels", "numerics"},
    "inference": {"fields", "numerics"},
    "objective": {"inference", "basis", "kernels", "fields", "numerics"},
    "solvers": {"objective", "numerics"},
    "engines": _LOWEST | {"objective"},
    "formats": {"features", "numerics"},
    "models": _BELOW_MODELS,
    "reports": {"solvers"},
    "structure": _BELOW_MODELS | {"models", "reports"},
    "uncertainty": _BELOW_MODELS | {"models"},
    "family": {"basis", "kernels", "fields", "inference", "numerics"},
    "evaluation": {"fields", "reports"},
    "estimators": _BELOW_ESTIMATORS,
    "annotators": _BELOW_ESTIMATORS | {"estimators"},
    "selection": _BELOW_ESTIMATORS | {"estimators"},
    "compat": _BELOW_ESTIMATORS | {"estimators"},
    "serving": {"formats", "features", "kernels", "numerics"},
    "cli": _BELOW_ESTIMATORS | {"estimators", "selection", "serving", "the door"},
}
#: Packages that may be imported below some folders, or in some files, only.
GUESTS = {
    "torch": ("engines/torch", "kernels/tensors.py", "features/encoders.py"),
    "transformers": ("features/encoders.py",),
    "sentence_transformers": ("features/encoders.py",),
    "triton": ("engines/torch",),
    "dask": ("engines/dask",),
    "distributed": ("engines/dask",),
    "matplotlib": ("reports",),
    "jinja2": ("reports",),
    "typer": ("cli",),
    "narwhals": ("features/frames.py",),
    "onnx": ("serving",),
    "onnxruntime": (),
}
LONGEST_FILE = 600
MOST_FILES = 16


def room_of(path):
    """The room a file of the package is in; "" for those at the top."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def imported_names(path):
    """Dotted names a module imports, wherever in the module, relative ones resolved."""
    package = ("kernelfields", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            # ``from kernelfields import solvers`` names a room as well.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def modules_imported(path):
    """Names of the modules of this package that a module imports, wherever in it."""
    known = set(NAMES.values())
    for name in imported_names(path):
        parent = name.rpartition(".")[0]
        if name in known or parent in known:
            yield name if name in known else parent


def name_of(path):
    """The dotted name of a module."""
    parts = ("kernelfields", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {path: name_of(path) for path in MODULES}


def rooms_imported(path):
    """Rooms a module imports from; "the door" for names of the package itself, such as ChainCRF."""
    names = [name.split(".") for name in imported_names(path)]
    own = {name[1] for name in names if name[0] == "kernelfields" and len(name) > 1}
    return {name if name in MAY_IMPORT else "the door" for name in own}


def test_every_room_has_its_rule():
    rooms = {room_of(path) for path in MODULES} - {""}
    assert rooms == set(MAY_IMPORT), "write the new room into MAY_IMPORT"


def test_the_rules_lead_downward():
    """No room can reach itself by way of another: a topological order exists."""
    placed: set[str] = set()
    while waiting := set(MAY_IMPORT) - placed:
        ready = {room for room in waiting if MAY_IMPORT[room] <= placed | {"the door"}}
        assert ready, f"a circle among {sorted(waiting)}"
        placed |= ready


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_lead_downward(path):
    room = room_of(path)
    if room:
        wrong = rooms_imported(path) - MAY_IMPORT[room] - {room}
        assert not wrong, f"{room} may import {sorted(MAY_IMPORT[room])} only, not {sorted(wrong)}"


def test_no_file_can_reach_itself():
    """Files import each other without circles, imports within functions and for annotations included."""
    imports = {name: set(modules_imported(path)) - {name} for path, name in NAMES.items()}
    placed: set[str] = set()
    while waiting := set(imports) - placed:
        ready = {name for name in waiting if imports[name] <= placed}
        assert ready, f"a circle among {sorted(waiting)}"
        placed |= ready


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_guests_stay_in_their_rooms(path):
    place = path.relative_to(SOURCE).as_posix()
    for guest in {name.split(".")[0] for name in imported_names(path)} & set(GUESTS):
        assert place.startswith(GUESTS[guest]), f"{guest} is imported below {GUESTS[guest]} only"


def test_every_room_may_show_a_table():
    """Rooms far below reports import its tables, so that file may import nothing of the package."""
    assert rooms_imported(SOURCE / "reports" / "tables.py") == set()


def test_the_check_sees_every_form_of_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "kernels").mkdir()
    module = tmp_path / "kernels" / "rbf.py"
    module.write_text(
        "import kernelfields.solvers.loop as loop\n"
        "from kernelfields import objective\n"
        "from ..engines import threads\n"
        "from .. import basis\n"
        "from . import kernel\n"
        "def late():\n    from kernelfields.fields.chains import Chains\n"
    )
    assert rooms_imported(module) == {"solvers", "objective", "engines", "basis", "kernels", "fields"}


def test_files_fit_in_the_head():
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length > LONGEST_FILE}


def test_folders_fit_in_the_head():
    folders = Counter(path.parent.relative_to(SOURCE).as_posix() for path in MODULES)
    assert not {folder: count for folder, count in folders.items() if count > MOST_FILES}


def test_there_are_no_mixins():
    classes = (node for path in MODULES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    assert not [node.name for node in classes if isinstance(node, ast.ClassDef) and "mixin" in node.name.lower()]


def test_files_are_nouns_of_the_field():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
    assert not [str(path) for path in MODULES if vague & {*path.relative_to(SOURCE).parts, path.stem}]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_explain_themselves_and_never_print(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert not [call.lineno for call in calls if isinstance(call, ast.Name) and call.id == "print"]


def in_a_fresh_process(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_importing_the_package_loads_nothing_heavy():
    code = """
import json, sys
import kernelfields
heavy = {"sklearn", "numba", "torch", "scipy", "matplotlib", "jinja2", "networkx", "rich", "narwhals"}
print(json.dumps([sorted(heavy & set(sys.modules)), dir(kernelfields), kernelfields.__all__]))
"""
    loaded, names, public = in_a_fresh_process(code)
    assert loaded == []
    assert set(public) <= set(names)


def test_kernels_and_served_models_need_numpy_alone():
    """Importing them, and computing kernels of arrays, loads no other package that is not Python's own."""
    code = """
import json, sys
import numpy as np
before = set(sys.modules)
import kernelfields.kernels as kernels, kernelfields.serving
X = np.eye(3)
kernel = kernels.RBF() + kernels.Laplacian(0.5) * kernels.Polynomial() ** 2 + kernels.Normalized(kernels.Matern(3.5))
kernel = kernel.resolve(X)
kernel(X, X), kernel(X), kernel.diag(X), kernel.towards(X)(X), repr(kernel), kernels.resolve_kernel("cubic")
packages = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(packages - set(sys.stdlib_module_names) - {"numpy"})))
"""
    assert in_a_fresh_process(code) == ["kernelfields"]


def test_describing_a_model_loads_no_compiler():
    code = """
import json, sys
import kernelfields
for name in kernelfields.__all__:
    getattr(kernelfields, name)
kernelfields.ChainCRF()
print(json.dumps(sorted({"numba", "torch", "matplotlib", "jinja2", "networkx"} & set(sys.modules))))
"""
    assert in_a_fresh_process(code) == []


def test_importing_changes_no_global_state():
    code = """
import json, numpy as np
def state():
    return [np.geterr(), np.random.get_state()[1].tolist()]
before = state()
import kernelfields
for name in kernelfields.__all__:
    getattr(kernelfields, name)
from kernelfields.inference.chain import beliefs, decoding
print(json.dumps(state() == before))
"""
    assert in_a_fresh_process(code) is True
