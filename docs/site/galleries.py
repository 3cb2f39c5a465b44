"""Order of the galleries: what newcomers look for first comes first, folders not named here follow by name."""

from pathlib import Path

ORDER = (
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
