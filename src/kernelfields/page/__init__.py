"""A local page in the browser: label, correct, refit. ``serve`` opens it from Python, ``kernelfields label`` on a file.

The server needs the extra ``page``, Starlette and uvicorn, which are loaded when it starts.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.page.server import serve
    from kernelfields.page.session import LabellingSession

__all__ = ["LabellingSession", "serve"]
__getattr__, __dir__ = lazy_names(__name__, {"session": ["LabellingSession"], "server": ["serve"]})
