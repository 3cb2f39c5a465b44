"""Galleries of examples: their order, and what is left of examples that are gone.

What newcomers look for first comes first; folders that are not named here follow by name.
"""

import shutil
from pathlib import Path

ORDER = (
    "start",
    "words",
    "sensors",
    "handwriting",
    "segments",
    "segments_streams",
    "partial",
    "graphs",
    "multilabel",
    "single",
    "density",
    "kernels",
    "evaluation",
    "solvers",
)


def subsection_order(folder: str) -> tuple[int, str]:
    """Return the sort key of a folder of examples."""
    name = Path(folder).name
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def drop_stale(examples: Path, gallery: Path) -> None:
    """Remove the pages of examples and folders that are no longer there: Sphinx would find no way to them."""
    for folder in (each for each in gallery.glob("*") if each.is_dir() and (each / "index.rst").exists()):
        if not (examples / folder.name).is_dir():
            shutil.rmtree(folder)
            continue
        for page in folder.glob("plot_*.rst"):
            if not (examples / folder.name / f"{page.stem}.py").exists():
                page.unlink()
