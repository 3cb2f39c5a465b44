"""Try a release as a user would get it: build wheel and sdist, install the wheel in a clean environment, run the tests.

    python release/check.py --python python3.12                        newest dependencies
    python release/check.py --python python3.11 --dependencies oldest  the oldest that pyproject.toml allows

The tests are those of the sdist, unpacked in the folder of the trial; the package they import is the installed wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEWEST, OLDEST = "newest", "oldest"
BOUND = re.compile(r"^([A-Za-z0-9_.-]+)>=([0-9.]+)")


def project() -> dict:
    """Return the project table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def oldest_allowed(requirements: list[str]) -> list[str]:
    """Return requirements with the least version that each allows, "numpy>=1.26" as "numpy==1.26"."""
    pinned = []
    for requirement in requirements:
        bound = BOUND.match(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} has no lower bound, so its oldest version is not known")
        pinned.append(f"{bound[1]}=={bound[2]}")
    return pinned


def call(*command: str | Path, where: Path | None = None) -> None:
    """Run a command, its output shown; stop here if it fails."""
    print("+", *command, flush=True)
    settings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([str(part) for part in command], cwd=where, env=settings, check=True)


def build(python: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return their paths."""
    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build")
    call(python, "-m", "build", "--outdir", folder / "dist", ROOT)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def environment(python: str, folder: Path, name: str) -> Path:
    """Make a clean environment; return its interpreter."""
    call(python, "-m", "venv", folder / name)
    binary = folder / name / ("Scripts" if os.name == "nt" else "bin")
    return binary / ("python.exe" if os.name == "nt" else "python")


def install(python: Path, wheel: Path, dependencies: str) -> None:
    """Install the wheel with its oldest or newest dependencies, and what the tests need."""
    described = project()
    pinned = oldest_allowed(described["dependencies"]) if dependencies == OLDEST else []
    tools = described["optional-dependencies"]["dev"]
    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, *pinned, *tools)
    call(python, "-m", "pip", "check")
    names = [re.split(r"[>=<~!;\s]", each)[0] for each in described["dependencies"]]
    listed = "; ".join(f"print({name!r}, version({name!r}))" for name in names)
    call(python, "-c", f"import sys; from importlib.metadata import version; print(sys.version); {listed}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter to try")
    parser.add_argument("--dependencies", choices=(NEWEST, OLDEST), default=NEWEST)
    parser.add_argument("--folder", type=Path, help="where to try it; a temporary folder by default")
    parser.add_argument("--tests", nargs="*", default=[], help="what to pass to pytest, all tests by default")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        wheel, sdist = build(environment(chosen.python, folder, "builder"), folder)
        python = environment(chosen.python, folder, "clean")
        install(python, wheel, chosen.dependencies)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = folder / sdist.name.removesuffix(".tar.gz")
        where = "from pathlib import Path; import kernelfields; print(Path(kernelfields.__file__).parent)"
        call(python, "-c", where, where=unpacked)
        # Old releases speak of what newer ones of their own dependencies have deprecated since.
        warnings = ["-W", "ignore::DeprecationWarning"] if chosen.dependencies == OLDEST else []
        call(python, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *warnings, *chosen.tests, where=unpacked)


if __name__ == "__main__":
    main()
