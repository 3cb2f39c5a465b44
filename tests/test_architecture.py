"""The plan of the house: who may import whom, how long a file may be, and what an import may load."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "kernelfields"
MODULES = sorted(SOURCE.rglob("*.py"))

#: The rooms each room may import from, besides itself. Estimators assemble and may import any room.
MAY_IMPORT = {
    "kernels": set(),
    "fields": set(),
    "formats": {"features"},
    "features": {"fields"},
    "evaluation": {"fields", "reports"},
    "inference": {"fields"},
    "family": {"inference", "fields"},
    "basis": {"kernels"},
    "engines": {"inference", "fields", "basis"},
    "posterior": {"engines", "basis", "kernels"},
    "solvers": {"posterior"},
    "structure": {"engines", "posterior", "reports"},
    "reports": {"solvers"},
}
ANYTHING = {"estimators", "compat", "selection", "cli"}
LONGEST_FILE = 400


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


def rooms_imported(path):
    names = (name.split(".") for name in imported_names(path))
    return {name[1] for name in names if name[0] == "kernelfields" and len(name) > 1}


def test_every_room_has_its_rule():
    rooms = {room_of(path) for path in MODULES} - {""}
    assert rooms <= set(MAY_IMPORT) | ANYTHING, "write the new room into MAY_IMPORT"


def test_the_rules_lead_downward():
    """No room can reach itself by way of another: a topological order exists."""
    placed: set[str] = set()
    while waiting := set(MAY_IMPORT) - placed:
        ready = {room for room in waiting if MAY_IMPORT[room] <= placed}
        assert ready, f"a circle among {sorted(waiting)}"
        placed |= ready


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_lead_downward(path):
    room = room_of(path)
    if room in MAY_IMPORT:
        wrong = rooms_imported(path) - MAY_IMPORT[room] - {room}
        assert not wrong, f"{room} may import {sorted(MAY_IMPORT[room])} only, not {sorted(wrong)}"


def test_every_room_may_show_a_table():
    """Rooms far below reports import its tables, so that file may import nothing of the package."""
    assert rooms_imported(SOURCE / "reports" / "tables.py") == set()


def test_the_check_sees_every_form_of_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "kernels").mkdir()
    module = tmp_path / "kernels" / "rbf.py"
    module.write_text(
        "import kernelfields.solvers.loop as loop\n"
        "from kernelfields import posterior\n"
        "from ..engines import threads\n"
        "from .. import basis\n"
        "from . import kernel\n"
        "def late():\n    from kernelfields.fields.chains import Chains\n"
    )
    assert rooms_imported(module) == {"solvers", "posterior", "engines", "basis", "kernels", "fields"}


def test_files_fit_in_the_head():
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length >= LONGEST_FILE}


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
heavy = {"sklearn", "numba", "torch", "scipy", "matplotlib", "rich"}
print(json.dumps([sorted(heavy & set(sys.modules)), dir(kernelfields), kernelfields.__all__]))
"""
    loaded, names, public = in_a_fresh_process(code)
    assert loaded == []
    assert set(public) <= set(names)


def test_describing_a_model_loads_no_compiler():
    code = """
import json, sys
import kernelfields
for name in kernelfields.__all__:
    getattr(kernelfields, name)
kernelfields.ChainCRF()
print(json.dumps(sorted({"numba", "torch", "matplotlib"} & set(sys.modules))))
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
from kernelfields.inference import chain, chain_decoding
print(json.dumps(state() == before))
"""
    assert in_a_fresh_process(code) is True
