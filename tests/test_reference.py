"""The examples in the docstrings of the package run, and print what they say."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in (PACKAGE / "kernelfields").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
#: What rooms, or modules in them, need besides the package.
NEEDED = {
    "datasets.sensors": ("pandas",),
    "engines.dask": ("distributed",),
    "engines.torch": ("torch",),
    "layers": ("torch",),
    "layers.chain_field": ("onnx", "onnxruntime"),
    "page.server": ("starlette", "uvicorn"),
    "serving.onnx_export": ("onnx", "onnxruntime"),
}


class Finder(doctest.DocTestFinder):
    """Finds examples of decorated functions, too: their globals are those of the decorator, or they are descriptors."""

    def _from_module(self, module, found):
        if inspect.isfunction(found):
            return found.__module__ == module.__name__
        return super()._from_module(module, found)

    def _find(self, tests, owner, name, module, *others):
        super()._find(tests, owner, name, module, *others)
        for own, each in vars(owner).items() if inspect.isclass(owner) else ():
            function = getattr(each, "__wrapped__", None)
            if inspect.isfunction(function) and not inspect.isroutine(each) and self._from_module(module, function):
                super()._find(tests, function, f"{name}.{own}", module, *others)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    for room, packages in NEEDED.items():
        if f"{module}.".startswith(f"kernelfields.{room}."):
            for package in packages:
                pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    runner = doctest.DocTestRunner(optionflags=options)
    for examples in Finder().find(importlib.import_module(module)):
        runner.run(examples)
    assert runner.tries
    assert not runner.failures
