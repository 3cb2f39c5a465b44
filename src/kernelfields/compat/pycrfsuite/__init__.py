"""The module ``pycrfsuite`` of python-crfsuite: trainer, tagger and prepared sequences, by fields of this package.

A program goes on with its import line changed, or with ``sys.modules["pycrfsuite"] = kernelfields.compat.pycrfsuite``
before it is imported. A tagger opens model files of CRFsuite and of this package, needs NumPy alone and starts at once;
a trainer writes model files of this package under the path that it is given.
"""

from kernelfields.numerics.lazy import lazy_names

#: The interface that is spoken here.
CRFSUITE_VERSION = "0.12.2"

__getattr__, __dir__, __all__ = lazy_names(__name__)
__all__ += ["CRFSUITE_VERSION"]
