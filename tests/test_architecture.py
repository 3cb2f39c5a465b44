"""The structure of the package: which room may import which, no circles, and what an import may load."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.import_graph import dynamic_calls, imported_names, module_imports, modules_in_circles, nodes_of

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kernelfields"
MODULES = sorted(SOURCE.rglob("*.py"))

CORE = (
    "numerics",
    "kernels",
    "inputs",
    "data",
    "basis",
    "inference",
    "objective",
    "solvers",
    "engines",
    "models",
    "posterior",
)
FACE = (
    *("datasets", "reports", "features", "families", "evaluation", "structures", "estimators"),
    *("selection", "labelling", "annotators", "uncertainty"),
)
TOOLS = ("formats", "serving", "layers", "compat", "page", "studio", "cli")
_BELOW_MODELS = {"numerics", "kernels", "inputs", "data", "basis", "inference", "objective", "solvers", "engines"}
_CORE = set(CORE)
_BELOW_ESTIMATORS = _CORE | {"reports", "features", "families", "evaluation", "structures"}

#: The rooms each room may import from, besides itself: of its own storey and those below. No room is exempt.
MAY_IMPORT = {
    "numerics": set(),
    "kernels": {"numerics"},
    "inputs": {"numerics"},
    "data": {"inputs", "numerics"},
    "basis": {"kernels", "numerics"},
    "inference": {"data", "numerics"},
    "objective": {"inference", "basis", "kernels", "data", "numerics"},
    "solvers": {"objective", "numerics"},
    "engines": {"numerics", "kernels", "data", "basis", "inference", "objective"},
    "models": _BELOW_MODELS,
    "posterior": _BELOW_MODELS | {"models"},
    "reports": {"numerics", "objective", "solvers"},
    "features": {"data", "models", "numerics"},
    "families": {"basis", "data", "inference", "kernels", "numerics"},
    "datasets": {"numerics"},
    "evaluation": {"data", "models", "numerics", "reports"},
    "structures": _BELOW_MODELS | {"models", "features"},
    "estimators": _BELOW_ESTIMATORS,
    "selection": _BELOW_ESTIMATORS | {"estimators"},
    "labelling": _BELOW_ESTIMATORS | {"estimators", "selection"},
    "annotators": _BELOW_ESTIMATORS | {"estimators"},
    "uncertainty": _BELOW_ESTIMATORS | {"estimators", "selection"},
    "formats": {"data", "features", "models", "numerics", "the door"},
    "serving": {"data", "features", "inference", "inputs", "kernels", "models", "numerics"},
    "layers": {"data", "engines", "estimators", "evaluation", "inference", "numerics", "serving"},
    "compat": _BELOW_ESTIMATORS | {"estimators"},
    "page": _BELOW_ESTIMATORS | {"estimators", "selection", "labelling", "formats"},
    "studio": _BELOW_ESTIMATORS | {"estimators", "formats", "page", "the door"},
    "cli": _BELOW_ESTIMATORS
    | {"estimators", "selection", "labelling", "formats", "serving", "page", "studio", "the door"},
}
#: Packages that may be imported below some folders, or in some files, only.
GUESTS = {
    "torch": (
        *("engines/torch", "engines/together", "engines/dask/launch.py", "layers", "kernels/tensors.py"),
        *("features/encoders.py", "features/encoder_tuning.py"),
    ),
    "transformers": ("features/encoders.py",),
    "triton": ("engines/torch",),
    "dask": ("engines/dask",),
    "distributed": ("engines/dask",),
    "matplotlib": ("reports",),
    "jinja2": ("reports",),
    "typer": ("cli",),
    "starlette": ("page", "studio"),
    "uvicorn": ("page", "studio"),
    "narwhals": ("data/frames.py",),
    "onnx": ("serving",),
    "onnxruntime": (),
    "spacy": ("formats/spacy_docs.py", "formats/spacy_component.py"),
}


def room_of(path):
    """The room a file of the package is in; "" for those at the top."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def rooms_imported(path, package=SOURCE):
    """Rooms a module imports from; "the door" for names of the package itself, such as ChainCRF."""
    names = [name.split(".") for name in imported_names(path, package)]
    own = {name[1] for name in names if name[0] == "kernelfields" and len(name) > 1}
    return {name if name in MAY_IMPORT else "the door" for name in own}


def test_every_room_has_its_rule():
    rooms = {room_of(path) for path in MODULES} - {""}
    assert rooms == set(MAY_IMPORT) == {*CORE, *FACE, *TOOLS}, "write the new room into MAY_IMPORT and its storey"


def test_no_storey_imports_one_above():
    for storey, below in ((CORE, set(CORE)), (FACE, {*CORE, *FACE})):
        assert not [room for room in storey if MAY_IMPORT[room] - below]


def test_the_rules_lead_downward():
    """No room can reach itself by way of another: a topological order exists."""
    placed: set[str] = set()
    while waiting := set(MAY_IMPORT) - placed:
        ready = {room for room in waiting if MAY_IMPORT[room] <= placed | {"the door"}}
        assert ready, f"a circle among {sorted(waiting)}"
        placed |= ready


def test_imports_lead_downward():
    rooms = {path: room_of(path) for path in MODULES if room_of(path)}
    wrong = {str(path): rooms_imported(path) - MAY_IMPORT[room] - {room} for path, room in rooms.items()}
    assert not {path: imported for path, imported in wrong.items() if imported}, (
        "MAY_IMPORT says what a room may import"
    )


def test_no_module_can_reach_itself():
    """Modules import each other without circles: within functions, for annotations and by names included."""
    assert modules_in_circles(module_imports(SOURCE)) == []


#: Private names of other packages that have no public ones: scikit-learn's fitted parts, Dask's example of a partition,
#: spaCy's extensions, what notebooks show, the fields of named tuples, and the options of torch's process groups.
FOREIGN = {
    *("_predictors", "_preprocessor", "_baseline_prediction", "_fit_dtype", "_fill_dtype", "_sklearn_output_config"),
    *("_meta_nonempty", "_", "_repr_html_", "_replace", "_asdict", "_fields", "_parameters_declared"),
    *("_Options", "_devices", "_timeout", "_score_func"),
}


def private_names(paths):
    """Return the private names that files define, and those they use of other objects: (file, name)."""
    defined, used = set(), set()
    for path in paths:
        for node in nodes_of(path):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    defined.add(name)
                case (
                    ast.Name(id=name, ctx=ast.Store())
                    | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store())
                ):
                    defined.add(name)
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    pass
                case ast.Attribute(attr=name):
                    used.add((path, name))
                case ast.Call(
                    func=ast.Name(id="hasattr" | "getattr" | "setattr"), args=[_, ast.Constant(value=name), *_]
                ):
                    used.add((path, name))
                case ast.ImportFrom(module=str(module), names=names) if module.startswith("kernelfields"):
                    used |= {(path, alias.name) for alias in names}
    return defined, {(path, name) for path, name in used if name.startswith("_") and not name.startswith("__")}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_use_public_names_of_others(room):
    defined, used = private_names([path for path in MODULES if room_of(path) == room])
    assert not {(str(path), name) for path, name in used if name not in defined | FOREIGN}


def test_private_names_of_others_are_seen(tmp_path):
    source = tmp_path / "one.py"
    source.write_text("def f(x):\n    return x._hidden + getattr(x, '_asked') + self._own\n")
    defined, used = private_names([source])
    assert defined == {"f"}
    assert used == {(source, "_hidden"), (source, "_asked")}


def test_modules_are_imported_by_name_for_lazy_packages_only():
    places = {path.relative_to(SOURCE).as_posix() for path in MODULES if dynamic_calls(path)}
    named = {place for place in places if not (SOURCE / place).with_suffix(".pyi").exists()}
    # Steps of a fit load with the keywords that ask for them.
    assert named == {"numerics/lazy.py", "estimators/requested.py"}


def test_circles_are_found_in_every_form(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    texts = {
        "__init__": "from importlib import import_module\nHOMES = {'A': 'package.a'}\nimport_module(HOMES['A'])\n",
        "a": "def late():\n    from package.b import B\n",
        "b": "from importlib import import_module\ndef late():\n    return import_module('package.c')\n",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n",
        "d": "import package.a\n",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    imports = module_imports(package)
    assert imports["package"] == {"package.a"}
    assert modules_in_circles(imports) == ["package.a", "package.b", "package.c"]
    (package / "b.py").write_text(texts["a"].replace("package.b", "package"))
    assert modules_in_circles(module_imports(package)) == ["package", "package.a", "package.b"]
    (package / "b.py").write_text("")
    assert modules_in_circles(module_imports(package)) == []


def test_guests_stay_in_their_rooms():
    for path in MODULES:
        place = path.relative_to(SOURCE).as_posix()
        for guest in {name.split(".")[0] for name in imported_names(path, SOURCE)} & set(GUESTS):
            assert place.startswith(GUESTS[guest]), f"{place}: {guest} is imported below {GUESTS[guest]} only"


def test_every_room_may_show_a_table():
    """Rooms far below reports import its tables, so these files import nothing of other rooms."""
    imported = {room for name in ("tables", "markup") for room in rooms_imported(SOURCE / "reports" / f"{name}.py")}
    assert imported <= {"reports"}


def test_the_check_sees_every_form_of_import(tmp_path):
    package = tmp_path / "kernelfields"
    (package / "kernels").mkdir(parents=True)
    module = package / "kernels" / "rbf.py"
    module.write_text(
        "import kernelfields.solvers.loop as loop\n"
        "from kernelfields import objective\n"
        "from ..engines import threads\n"
        "from .. import basis\n"
        "from . import kernel\n"
        "def late():\n    from kernelfields.data.chains import Chains\n"
    )
    assert rooms_imported(module, package) == {"solvers", "objective", "engines", "basis", "kernels", "data"}


def test_there_are_no_mixins():
    classes = (node for path in MODULES for node in nodes_of(path))
    assert not [node.name for node in classes if isinstance(node, ast.ClassDef) and "mixin" in node.name.lower()]


def test_files_are_nouns_of_the_field():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
    vague_ones = [path for path in MODULES if vague & {*path.relative_to(SOURCE).parts, path.stem}]
    # The name that sklearn-crfsuite has for the module.
    assert vague_ones == [SOURCE / "compat" / "utils.py"]


def test_modules_explain_themselves_and_never_print():
    for path in MODULES:
        module, *nodes = nodes_of(path)
        assert ast.get_docstring(module), path
        calls = (node.func for node in nodes if isinstance(node, ast.Call))
        assert not [call.lineno for call in calls if isinstance(call, ast.Name) and call.id == "print"], path


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
kernel = kernels.RBF() + kernels.Laplacian(0.5) * kernels.Polynomial() ** 2 + kernels.Normalized(kernels.Matern(2.5))
kernel = kernel.resolve(X)
kernel(X, X), kernel(X), kernel.diag(X), kernel.towards(X)(X), repr(kernel), kernels.resolve_kernel("poly")
packages = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(packages - set(sys.stdlib_module_names) - {"numpy"})))
"""
    assert in_a_fresh_process(code) == ["kernelfields"]


@pytest.fixture(scope="module")
def after_all_names():
    """What is loaded when every public name has been used, and whether global state is as before."""
    return in_a_fresh_process("""
import json, sys, numpy as np
def state():
    return [np.geterr(), np.random.get_state()[1].tolist()]
before = state()
import kernelfields
for name in kernelfields.__all__:
    getattr(kernelfields, name)
kernelfields.ChainCRF()
loaded = sorted({"numba", "torch", "matplotlib", "jinja2", "networkx"} & set(sys.modules))
from kernelfields.inference.chain import decoding, family
print(json.dumps([loaded, state() == before]))
""")


def test_describing_a_model_loads_no_compiler(after_all_names):
    assert after_all_names[0] == []


def test_importing_changes_no_global_state(after_all_names):
    assert after_all_names[1] is True


@pytest.fixture(scope="module")
def after_a_fit():
    """The rooms that an estimator loads before it is fitted, and compilers after a fit of a few short sequences."""
    return in_a_fresh_process("""
import json, sys
from kernelfields import ChainCRF
ChainCRF(rank=50).get_params()
rooms = {name.split(".")[1] for name in sys.modules if name.count(".") == 2 and name.startswith("kernelfields.")}
import numpy as np
X, y = [np.eye(3), np.eye(3)[:2]], [["a", "b", "c"], ["a", "b"]]
model = ChainCRF(rank=3, random_state=0).fit(X, y)
model.predict(X), model.predict_marginals(X), model.score(X, y)
print(json.dumps([sorted(rooms), sorted({"numba", "llvmlite"} & set(sys.modules))]))
""")


def test_importing_an_estimator_loads_nothing_that_only_a_fit_needs(after_a_fit):
    assert after_a_fit[0] == ["data", "engines", "estimators", "inputs", "models", "numerics", "structures"]


def test_a_fit_of_a_few_short_sequences_loads_no_compiler(after_a_fit):
    assert after_a_fit[1] == []


#: What a plain fit and its answers load beside NumPy, SciPy, scikit-learn, numba and what these load: it may only
#: shrink.
BESIDE_OTHERS = {"kernelfields"}
OTHERS = ("numpy", "scipy", "sklearn", "numba", "llvmlite")


def test_a_plain_fit_and_its_answers_load_no_package_for_reports_frames_or_commands():
    code = """
import json, sys
import numpy as np
from kernelfields import ChainCRF
X, y = [np.eye(3), np.eye(3)[:2]], [["a", "b", "c"], ["a", "b"]]
given = {"window": 1, "scale": False, "prior_variance": 1.0, "random_state": 0}
for model in (ChainCRF(rank=3, random_state=0), ChainCRF("rbf", rank=3, **given)):
    model.fit(X, y)
    model.predict(X), model.predict_marginals(X), model.score(X, y), model.log_likelihood(X, y), model.sample(X)
    model.certify(X, y)
loaded = [name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names]
print(json.dumps(sorted(name for name in loaded if "." not in name or name.startswith(OTHERS))))
"""
    after = in_a_fresh_process(code.replace("OTHERS", repr(OTHERS)))
    libraries = [name for name in after if name.startswith(OTHERS)]
    code = """
import importlib, json, sys
for name in {}:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""
    packages = {name for name in after if "." not in name and name[0] != "_"}
    packages -= set(in_a_fresh_process(code.format(libraries)))
    assert packages - BESIDE_OTHERS == set()


def test_a_file_may_name_classes_that_nobody_has_used():
    code = """
import json, sys
from kernelfields import ChainCRF
from kernelfields.models.stored import find_kind
from kernelfields.numerics.registry import SETTINGS
print(json.dumps([[name for name in {} if SETTINGS.find(name) is None], find_kind("GraphCRF").__name__]))
"""
    registered = re.findall(r'@SETTINGS\.register\("(.+)"\)', "".join(map(Path.read_text, MODULES)))
    assert len(registered) >= 25
    assert in_a_fresh_process(code.format(registered)) == [[], "GraphCRF"]


def test_the_makefile_names_tests_that_exist():
    """A folder that has moved would end ``make test-all`` before its first test."""
    named = re.findall(r"\btests/[\w/]+(?:\.py)?(?![\w*])", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone: of two in one process, the second is not collected."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []
