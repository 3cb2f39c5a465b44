"""A local page in the browser: label, correct, refit. ``serve`` opens it from Python, ``kernelfields label`` on a file.

The server needs Starlette and uvicorn (extra ``page``), which are imported when it starts.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
