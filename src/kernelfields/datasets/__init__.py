"""Data to start from: small real sets that come with the installation, and sets that are made by formula.

    X, y = load_references(return_X_y=True)     real, from a file of the installation
    X, y = make_activity(return_X_y=True)       made, from a seed

``load_`` and ``make_`` functions return a Bunch, as those of scikit-learn do, with ``data``, ``target``, ``DESCR`` and
names; ``return_X_y=True`` gives X and y, ``as_frame=True`` a pandas data frame with a row for each position. Sources
and licences of the real sets stand in their docstrings, and as a whole in ``files/LICENCES.txt``.
"""

from kernelfields.numerics.lazy import lazy_names

_find, __dir__, __all__ = lazy_names(__name__)


def __getattr__(name: str) -> object:
    try:
        return _find(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        raise AttributeError(f"there is no data set {name!r}: there are {', '.join(__all__)}") from None
