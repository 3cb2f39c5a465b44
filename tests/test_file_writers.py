"""Files are written in one place: other modules hand over what is to be written, and a file is whole or not there."""

import ast
from pathlib import Path

import kernelfields

ROOT = Path(kernelfields.__file__).parent
#: Modules that write by themselves, and why.
ALLOWED = {
    "data/text_files.py": "the place itself",
    "page/own_files.py": "locks and journals, to which lines are appended",
    "features/embeddings.py": "a cache: entries have a checksum, and are computed again where it is wrong",
    "reports/figures.py": "Picture.savefig is that of matplotlib",
    "cli/messages.py": "os.devnull, in the place of streams that were closed",
}
WRITING = {"write_text", "write_bytes", "tofile", "savefig", "mkstemp", "NamedTemporaryFile", "memmap"}


def writes(call):
    """Whether a call opens a file for writing, or writes one."""
    function, arguments = call.func, [*call.args, *(keyword.value for keyword in call.keywords)]
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = getattr(getattr(function, "value", None), "id", "")
    modes = [own.value for own in arguments if isinstance(own, ast.Constant) and isinstance(own.value, str)]
    opens = name == "open" and any(set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes)
    saves = owner in ("np", "numpy") and name in ("save", "savez", "savez_compressed", "savetxt")
    return opens or saves or name in WRITING or (owner == "os" and name in ("open", "replace", "rename"))


def test_files_are_written_in_one_place():
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and writes(node)
    }
    assert found == set(ALLOWED)
